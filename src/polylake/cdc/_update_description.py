"""What MongoDB says an update did, done to the state before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from polylake.errors import CDCError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polylake.cdc._record import State

_LONGEST_GAP = 1_500_000  # MongoDB's own limit on the nulls that an update may add to an array


def apply_description(before: State, description: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state after an update: arrays cut, then fields removed, then fields set.

    A path leads through arrays by index and through documents by name, as what it meets is the
    one or the other; ``disambiguatedPaths`` says it where names have dots in them.

    Raises:
        CDCError: a path leads nowhere in ``before``, which then is not the state before.
    """
    after: dict[str, Any] = _copy(before)
    paths: Mapping[str, Sequence[str | int]] = description.get("disambiguatedPaths") or {}

    def steps(path: str) -> Sequence[str | int]:
        return paths.get(path) or path.split(".")

    for cut in description.get("truncatedArrays") or ():
        array = _at(after, steps(cut["field"]), cut["field"])
        if not isinstance(array, list):
            raise _nowhere(cut["field"])
        del array[cut["newSize"] :]
    for path in description.get("removedFields") or ():
        *parents, name = steps(path)
        parent = _at(after, parents, path)
        if isinstance(parent, dict):
            parent.pop(str(name), None)
    for path, value in (description.get("updatedFields") or {}).items():
        *parents, name = steps(path)
        _set(_at(after, parents, path, create=True), name, value, path)
    return after


def _copy(value: Any) -> Any:  # noqa: ANN401 - any value
    if isinstance(value, Mapping):
        return {name: _copy(part) for name, part in value.items()}
    return [_copy(part) for part in value] if isinstance(value, list) else value


def _at(here: Any, steps: Sequence[str | int], path: str, *, create: bool = False) -> Any:  # noqa: ANN401 - a document or an array
    for step in steps:
        if isinstance(here, dict):
            if create:
                here.setdefault(str(step), {})
            here = here.get(str(step))
        elif isinstance(here, list) and _is_index(step) and int(step) < len(here):
            here = here[int(step)]
        else:
            raise _nowhere(path)
    return here


def _set(parent: Any, name: str | int, value: object, path: str) -> None:  # noqa: ANN401 - a document or an array
    if isinstance(parent, dict):
        parent[str(name)] = value
        return
    if not isinstance(parent, list) or not _is_index(name):
        raise _nowhere(path)
    at = int(name)
    if at > len(parent) + _LONGEST_GAP:
        raise _nowhere(path)
    parent.extend([None] * (at + 1 - len(parent)))
    parent[at] = value


def _is_index(step: str | int) -> bool:
    return isinstance(step, int) or (step.isascii() and step.isdigit())


def _nowhere(path: str) -> CDCError:
    return CDCError(f"the update of {path!r} does not fit the state it is applied to", field=path)
