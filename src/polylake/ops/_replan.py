"""Plans that read a log while others may be cleaning it up."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from polylake.errors import FileNotFound

if TYPE_CHECKING:
    from collections.abc import Callable

_Plan = TypeVar("_Plan")

_TRIES = 5


def plan_again_if_cleaned(plan: Callable[[], _Plan]) -> _Plan:
    """Make a plan, from the start if a file that was listed is gone when it is read.

    Never goes on without the file: what it would have protected is not known then.

    Raises:
        FileNotFound: files keep going.
    """
    for _ in range(_TRIES - 1):
        try:
            return plan()
        except FileNotFound:
            continue
    return plan()
