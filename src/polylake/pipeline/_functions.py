"""Functions that a pipeline's file names."""

from __future__ import annotations

import runpy
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polylake.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable


def find_function(named: str) -> Callable[..., Any]:
    """Return the function that ``module:name`` or ``file.py:name`` stands for.

    A file is run, and not made a module: Spark can then send its functions to workers that do
    not have the file.

    Raises:
        ValidationError: there is none.
    """
    place, _, name = named.rpartition(":")
    if not place or not name:
        raise ValidationError(
            f"{named!r} names no function; write module:name or file.py:name", field="function"
        )
    try:
        if place.endswith(".py"):
            found = runpy.run_path(place, run_name=Path(place).stem).get(name)
        else:
            found = getattr(import_module(place), name, None)
    except (ImportError, OSError, SyntaxError) as error:
        raise ValidationError(f"{named!r} cannot be loaded: {error}", field="function") from error
    if not callable(found):
        raise ValidationError(f"there is no function {name!r} in {place}", field="function")
    return found  # type: ignore[no-any-return]  # callable, as was looked at
