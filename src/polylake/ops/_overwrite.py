"""Which files an overwrite takes away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polylake.errors import ValidationError
from polylake.ops._constraints import shown_row
from polylake.ops._scan_plan import plan_scan
from polylake.query import compile_filter, filter_paths
from polylake.schema import parse_partition_value, physical_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from polylake.engine import WrittenFile
    from polylake.log import Add, AddCdc, Snapshot, Transaction
    from polylake.query import Filter
    from polylake.schema import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Files that go, and which files the choice was made from."""

    files: tuple[Add, ...] = ()
    whole_table: bool = False
    may_match: Callable[[Add], bool] | None = None
    adds: tuple[Add, ...] = ()
    """Files that hold the rows that stay, where not all of a file goes."""
    cdc: tuple[AddCdc, ...] = ()

    def declare(self, transaction: Transaction, *, now_ms: int) -> None:
        """Tell a transaction what was read, and remove the files."""
        if self.whole_table:
            transaction.read_table()
        if self.may_match is not None:
            transaction.read_where(self.may_match)
        transaction.read_files(file.file_path for file in self.files)
        transaction.remove(*(file.to_remove(deletion_timestamp=now_ms) for file in self.files))
        transaction.add(*self.adds)
        transaction.add_cdc(*self.cdc)


def whole_table(snapshot: Snapshot) -> Removal:
    """Take away every file."""
    return Removal(files=tuple(snapshot.files.adds()), whole_table=True)


def same_partitions(snapshot: Snapshot, written: Iterable[WrittenFile]) -> Removal:
    """Take away the files of the partitions that new files belong to."""
    keys = {_key(file) for file in written}
    files = (add for add in snapshot.files.adds() if _key(add) in keys)
    return Removal(files=tuple(files), may_match=lambda add: _key(add) in keys)


def is_partition_filter(snapshot: Snapshot, where: Filter) -> bool:
    """Say whether a filter looks at partition columns alone, so that it takes whole files."""
    return all(path[0] in snapshot.partition_columns for path in filter_paths(where))


def matching_partitions(snapshot: Snapshot, where: Filter) -> Removal:
    """Take away the files whose partition matches a filter on partition columns."""
    test = partition_test(snapshot, where)
    files = plan_scan(snapshot, where).files
    return Removal(files=tuple(add for add in files if test(add)), may_match=test)


def partition_test(snapshot: Snapshot, where: Filter) -> Callable[[Add], bool]:
    """Return what says of a file whether its partition matches a filter."""
    matches = compile_filter(where)
    columns = [snapshot.schema.field(name) for name in snapshot.partition_columns]
    physical = {column.name: physical_name(column, snapshot.mapping_mode) for column in columns}

    def test(add: Add) -> bool:
        texts = {c.name: add.partition_values.get(physical[c.name]) for c in columns}
        values = {
            column.name: parse_partition_value(texts[column.name], column.type, column=column.name)
            for column in columns
        }
        return matches({name: value for name, value in values.items() if value is not None})

    return test


def check_matching(
    batches: Iterable[pa.RecordBatch], where: Filter, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Yield batches as they are, once every row matches a filter.

    Raises:
        ValidationError: a row does not match; the message shows it.
    """
    # Deferred: both import Polars, which is slow to import.
    import polars as pl  # noqa: PLC0415

    from polylake.engine.local import keep_matching  # noqa: PLC0415

    names = sorted({path[0] for path in filter_paths(where)} & set(schema.names))
    for batch in batches:
        rows = pl.DataFrame(batch.select(names)).with_row_index(_ROW)
        kept = keep_matching(rows.lazy(), where, schema).select(_ROW).collect().get_column(_ROW)
        if len(kept) < len(batch):
            at = int(rows.get_column(_ROW).filter(~rows.get_column(_ROW).is_in(kept))[0])
            row = shown_row(batch, at, names)
            values = ", ".join(f"{name} = {text}" for name, text in row.items())
            raise ValidationError(
                f"a row with {values} does not match replace_where", field="replace_where", row=row
            )
        yield batch


_ROW = "__row"


def _key(file: Add | WrittenFile) -> frozenset[tuple[str, str | None]]:
    # PROTOCOL.md, "Partition Value Serialization": the empty text is null.
    return frozenset((name, value or None) for name, value in file.partition_values.items())
