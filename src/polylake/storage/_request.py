"""What is asked of an object store, for the message if it fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Condition: TypeAlias = Literal["absent", "match"]
"""What a conditional put asks for: that the object is absent, or still of a version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request; ``verb`` reads after "could not"."""

    verb: str
    key: str
    url: str
    condition: Condition | None = None
    version: str | None = None
