"""Whether a stored object is still the one that a plan was made for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polylake.errors import FileNotFound, InvalidTableState

if TYPE_CHECKING:
    from polylake.storage import ObjectInfo, Storage


def is_unchanged(storage: Storage, seen: ObjectInfo) -> bool:
    """Say whether an object is there and has the facts it had when it was listed."""
    try:
        found = storage.head(seen.key)
    except FileNotFound:
        return False
    if found.size != seen.size:
        return False
    if found.version is not None and seen.version is not None:
        return found.version == seen.version
    # Without versions the time decides; a store may give it to the second in one of the two.
    return found.modified_ms // 1000 == seen.modified_ms // 1000


def check_unchanged(storage: Storage, seen: ObjectInfo) -> None:
    """Refuse to go on where an object changed since it was listed.

    Raises:
        InvalidTableState: it changed or is gone.
    """
    if not is_unchanged(storage, seen):
        raise InvalidTableState(
            f"{seen.key} changed since the plan was made; make a new plan", path=seen.key
        )
