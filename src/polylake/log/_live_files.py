"""The live files of a version, as columns that are shared between versions.

A version's files are the rows of a few sources (a checkpoint's parts, or columns folded from
commits), less the rows that later commits took away, plus the files of the newest commits, which
wait in a small overlay. A refresh touches the overlay only, so it costs what changed; a reader
that asks for columns pays one vectorised pass over the sources.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from polylake.log._actions import Add, Remove
from polylake.log._columns import (
    ADD_COLUMNS,
    REMOVE_COLUMNS,
    key_columns,
    rows_to_adds,
    rows_to_removes,
    to_columns,
    vector_id,
)
from polylake.log._names import logical_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from polylake.log._fields import JsonObject

_FOLD_AT = 1_000
"""Overlay entries above which a version folds them into columns of their own."""


class FileSource(Protocol):
    """Rows of file actions that are read column by column."""

    @property
    def num_adds(self) -> int:
        """How many adds there are."""
        ...

    def adds(self, names: Sequence[str]) -> pa.Table:
        """Return columns of the adds, always in the same row order."""
        ...

    def add_batches(self, names: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Yield the rows of ``adds`` in their order, ``rows`` or fewer at a time."""
        ...

    def removes(self) -> pa.Table:
        """Return the tombstones, with all of their columns."""
        ...


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """File actions that are in memory already."""

    added: pa.Table
    removed: pa.Table

    @property
    def num_adds(self) -> int:
        """How many adds there are."""
        return int(self.added.num_rows)

    def adds(self, names: Sequence[str]) -> pa.Table:
        """Return columns of the adds."""
        return self.added.select(list(names))

    def add_batches(self, names: Sequence[str], rows: int) -> Iterator[pa.Table]:
        """Yield the rows of ``adds`` in their order, ``rows`` or fewer at a time."""
        for start in range(0, self.num_adds, rows):
            yield self.adds(names).slice(start, rows)

    def removes(self) -> pa.Table:
        """Return the tombstones."""
        return self.removed


@dataclass(slots=True)
class Overlay:
    """What commits did on top of the sources: the newest action for a logical file wins."""

    adds: dict[str, JsonObject] = field(default_factory=dict)
    """By decoded path: there is at most one live logical file of a path."""
    removes: dict[str, JsonObject] = field(default_factory=dict)
    """Tombstones by logical key."""
    superseded: set[str] = field(default_factory=set)
    """Every decoded path added here: whatever the sources hold under it is out of date."""

    def copy(self) -> Overlay:
        """Return an overlay that can grow without touching this one."""
        return Overlay(dict(self.adds), dict(self.removes), set(self.superseded))

    def add(self, path: str, body: JsonObject) -> None:
        """Apply an add that passed its check."""
        self.adds[path] = body
        self.superseded.add(path)
        self.removes.pop(logical_key(path, vector_id(body)), None)

    def remove(self, path: str, body: JsonObject) -> None:
        """Apply a remove that passed its check."""
        vector = vector_id(body)
        live = self.adds.get(path)
        if live is not None and vector_id(live) == vector:
            del self.adds[path]
        self.removes[logical_key(path, vector)] = body

    def __len__(self) -> int:
        return len(self.superseded) + len(self.removes)


@dataclass(frozen=True, slots=True)
class Layer:
    """A source and what later versions did to its rows."""

    source: FileSource
    alive: pa.BooleanArray | None = None
    """Which of its adds are still live; ``None`` where all are."""
    replaced: pa.StringArray | None = None
    """Logical keys with a newer action: tombstones of the source that no longer count."""
    derived: dict[str, pa.Table] = field(default_factory=dict)
    """What was computed from the source's adds, by name; shared by all versions that have it."""


@dataclass(frozen=True)
class LiveFiles:
    """The live files and the tombstones of one version. Immutable."""

    layers: tuple[Layer, ...]
    overlay: Overlay

    def table(self, names: Iterable[str] = tuple(ADD_COLUMNS)) -> pa.Table:
        """Return columns of the live files, one row each; ``path`` as the log spells it.

        Raises:
            CorruptCheckpoint: a column of the checkpoint cannot be read.
        """
        wanted = list(names)
        parts = []
        for layer in self._covered:
            rows = layer.source.adds(wanted)
            parts.append(rows if layer.alive is None else rows.filter(layer.alive))
        if self.overlay.adds or not parts:
            parts.append(self._newest.select(wanted))
        return parts[0] if len(parts) == 1 else pa.concat_tables(parts)

    def batches(
        self, names: Sequence[str] = tuple(ADD_COLUMNS), *, rows: int
    ) -> Iterator[pa.Table]:
        """Yield what ``table`` returns, ``rows`` or fewer at a time, without holding it all.

        Raises:
            CorruptCheckpoint: a column of the checkpoint cannot be read.
        """
        for layer in self._covered:
            start = 0
            for batch in layer.source.add_batches(names, rows):
                end = start + batch.num_rows
                alive = None if layer.alive is None else layer.alive.slice(start, end - start)
                yield batch if alive is None else batch.filter(alive)
                start = end
        columns = {name: ADD_COLUMNS[name] for name in names}
        added = iter(self.overlay.adds.values())
        while bodies := list(islice(added, rows)):
            yield to_columns(bodies, columns)

    def derive(
        self, name: str, inputs: Sequence[str], compute: Callable[[pa.Table], pa.Table]
    ) -> pa.Table:
        """Return columns computed from those of the live files, in the order of ``table``.

        ``compute`` gets rows with the columns ``inputs`` and gives one row for each. What it gives
        for a source is kept under ``name`` for this version and all that still have the source.
        """
        parts = []
        for layer in self._covered:
            if name not in layer.derived:
                layer.derived[name] = compute(layer.source.adds(inputs))
            rows = layer.derived[name]
            parts.append(rows if layer.alive is None else rows.filter(layer.alive))
        if self.overlay.adds or not parts:
            if name not in self._derived:
                self._derived[name] = compute(self._newest.select(list(inputs)))
            parts.append(self._derived[name])
        return parts[0] if len(parts) == 1 else pa.concat_tables(parts)

    def adds(self) -> Iterator[Add]:
        """Build an ``Add`` for every live file."""
        for batch in self.table().to_batches(max_chunksize=10_000):
            yield from rows_to_adds(pa.Table.from_batches([batch]))

    def find(self, paths: Iterable[str]) -> dict[str, Add]:
        """Return the live files among some decoded paths."""
        wanted = set(paths)
        found = {
            path: Add.from_log(self.overlay.adds[path])
            for path in wanted
            if path in self.overlay.adds
        }
        older = pa.array(sorted(wanted - self.overlay.superseded), pa.string())
        for layer in self._covered if len(older) else ():
            keys, _ = key_columns(layer.source.adds(["path", "deletionVector"]))
            hit = _compute().is_in(keys, older).combine_chunks()
            hit = hit if layer.alive is None else _compute().and_(hit, layer.alive)
            if hit.true_count:
                rows = rows_to_adds(layer.source.adds(list(ADD_COLUMNS)).filter(hit))
                found.update((add.file_path, add) for add in rows)
        return found

    def missing(self, keys: set[str]) -> set[str]:
        """Return those of some logical keys that are not live."""
        if not keys:
            return set()
        live = {logical_key(path, vector_id(body)) for path, body in self.overlay.adds.items()}
        left = keys - live
        for layer in self._covered if left else ():
            _, held = key_columns(layer.source.adds(["path", "deletionVector"]))
            held = held if layer.alive is None else held.filter(layer.alive)
            found = _compute().is_in(pa.array(left, pa.string()), held)
            left = {key for key, hit in zip(left, found.to_pylist(), strict=True) if not hit}
        return left

    def tombstones(self) -> Iterator[Remove]:
        """Build a ``Remove`` for every logical file that was taken away and is not back."""
        yield from rows_to_removes(self.tombstone_table())

    def tombstone_table(self) -> pa.Table:
        """Return the tombstones as columns."""
        parts = []
        for layer in self._covered:
            rows = layer.source.removes()
            if rows.num_rows and layer.replaced is not None:
                _, keys = key_columns(rows)
                rows = rows.filter(_compute().invert(_compute().is_in(keys, layer.replaced)))
            parts.append(rows)
        parts.append(to_columns(list(self.overlay.removes.values()), REMOVE_COLUMNS))
        return pa.concat_tables(parts)

    @cached_property
    def num_files(self) -> int:
        """How many files are live."""
        in_layers = (
            layer.source.num_adds if layer.alive is None else layer.alive.true_count
            for layer in self._covered
        )
        return sum(in_layers) + len(self.overlay.adds)

    @cached_property
    def size_bytes(self) -> int:
        """How many bytes the live files have together."""
        total: int | None = _compute().sum(self.table(["size"])["size"]).as_py()
        return total or 0

    def folded(self) -> LiveFiles:
        """Return the same files with a large overlay turned into columns."""
        if len(self.overlay) < _FOLD_AT:
            return self
        fresh = ColumnSource(
            self._newest,
            to_columns(list(self.overlay.removes.values()), REMOVE_COLUMNS),
        )
        return LiveFiles((*self._covered, Layer(fresh)), Overlay())

    @cached_property
    def _newest(self) -> pa.Table:
        """The overlay's files as columns."""
        return to_columns(list(self.overlay.adds.values()), ADD_COLUMNS)

    @cached_property
    def _derived(self) -> dict[str, pa.Table]:
        """What was computed from the overlay's files, by name."""
        return {}

    @cached_property
    def _covered(self) -> tuple[Layer, ...]:
        """The layers with the overlay applied to their masks."""
        if not len(self.overlay):
            return self.layers
        return tuple(_cover(layer, self.overlay) for layer in self.layers)


def _cover(layer: Layer, overlay: Overlay) -> Layer:
    compute = _compute()
    added_again = [logical_key(path, vector_id(body)) for path, body in overlay.adds.items()]
    newer = pa.array([*added_again, *overlay.removes], pa.string())
    replaced = newer if layer.replaced is None else pa.concat_arrays([layer.replaced, newer])
    if not layer.source.num_adds:
        return Layer(layer.source, layer.alive, replaced, layer.derived)
    paths, keys = key_columns(layer.source.adds(["path", "deletionVector"]))
    gone = compute.or_(
        compute.is_in(paths, pa.array(overlay.superseded, pa.string())),
        compute.is_in(keys, pa.array(overlay.removes, pa.string())),
    )
    alive = compute.invert(gone).combine_chunks()
    if layer.alive is not None:
        alive = compute.and_(alive, layer.alive)
    all_alive = alive.true_count == len(alive)
    return Layer(layer.source, None if all_alive else alive, replaced, layer.derived)


def _compute() -> Any:  # noqa: ANN401 - the module ships no types
    import pyarrow.compute  # noqa: PLC0415 - slow to import, and opening a table does not need it

    return pyarrow.compute
