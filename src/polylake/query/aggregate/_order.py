"""Put documents in order, as ``$sort`` does."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from polylake.query._values import MISSING, Bracket, compare_key
from polylake.query.aggregate._documents import Doc, reached_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from polylake.query.aggregate._stages import Sort, SortKey

# Below null, where MongoDB sorts an array without elements.
_EMPTY_ARRAY = (Bracket.MISSING, None)


def in_order(stage: Sort, documents: Iterator[Doc]) -> Iterator[Doc]:
    """Yield documents in order, equal ones as they come; with a limit no more of them are held."""
    keys = [sort_key(key) for key in stage.keys]
    if stage.limit is not None:
        yield from heapq.nsmallest(stage.limit, documents, key=_combined(stage, keys))
        return
    rows = list(documents)
    # Sorting is stable, so the last key goes first.
    for spec, key in reversed(list(zip(stage.keys, keys, strict=True))):
        rows.sort(key=key, reverse=spec.descending)
    yield from rows


def sort_key(spec: SortKey) -> Callable[[Mapping[str, Any]], Any]:
    """Return the function from a document to what it sorts by.

    Of an array it is the least element, descending the greatest; missing is null.
    """
    best = max if spec.descending else min
    name = spec.path[0] if len(spec.path) == 1 else None

    def key(document: Mapping[str, Any]) -> Any:  # noqa: ANN401 - whatever compares
        if name is not None:
            value = document.get(name)
            if not isinstance(value, list):
                return compare_key(value)
        found = [part for value in reached_values(document, spec.path) for part in _keys(value)]
        return best(found) if found else compare_key(MISSING)

    return key


def _keys(value: object) -> list[Any]:
    if isinstance(value, list):
        return [compare_key(item) for item in value] or [_EMPTY_ARRAY]
    return [compare_key(value)]


class _Descending:
    __slots__ = ("_key",)

    def __init__(self, key: object) -> None:
        self._key: Any = key

    def __lt__(self, other: _Descending) -> bool:
        return bool(other._key < self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Descending) and bool(self._key == other._key)

    def __hash__(self) -> int:
        return hash(self._key)


def _combined(
    stage: Sort, keys: list[Callable[[Mapping[str, Any]], Any]]
) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    directed = [
        (lambda document, key=key: _Descending(key(document))) if spec.descending else key
        for spec, key in zip(stage.keys, keys, strict=True)
    ]
    return lambda document: tuple(key(document) for key in directed)
