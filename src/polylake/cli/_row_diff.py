"""Which rows two versions have not in common."""
# ruff: noqa: PLC0415 - commands load what they need when they run, so that --help is quick

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from polylake.log import Add, Snapshot
    from polylake.ops import Target
    from polylake.schema import StructType

_SIGN = "\0polylake sign"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowDiff:
    """Rows that only one of two versions has; a row that changed is one of each."""

    added: int
    removed: int
    added_rows: list[dict[str, Any]]
    removed_rows: list[dict[str, Any]]
    left_out: tuple[str, ...]
    """Columns that were not compared, as their types do not go together."""

    def facts(self) -> dict[str, Any]:
        """Return what scripts get."""
        return {
            "added": self.added,
            "removed": self.removed,
            "added_rows": self.added_rows,
            "removed_rows": self.removed_rows,
            "not_compared": list(self.left_out),
        }


def diff_rows(
    target: Target,
    before: tuple[Snapshot, list[Add]],
    after: tuple[Snapshot, list[Add]],
    *,
    keep: int,
) -> RowDiff:
    """Compare the rows of files that only the one and only the other version has.

    Rows are compared by the columns of the later version; one that the earlier does not have is
    null there. The same row in several places counts as often as it is there.

    Raises:
        StorageError: a file is missing or cannot be read.
    """
    import polars as pl

    from polylake.engine.local import reading, to_documents

    old, new = before[0], after[0]
    names, left_out = _comparable(old.schema, new.schema)
    frames = [
        _frame(target, *before, new.schema, names).with_columns(pl.lit(-1).alias(_SIGN)),
        _frame(target, *after, new.schema, names).with_columns(pl.lit(1).alias(_SIGN)),
    ]
    totals = pl.concat(frames).group_by(names).agg(pl.col(_SIGN).sum()).filter(pl.col(_SIGN) != 0)
    with reading(new.table):
        found = totals.collect(engine="streaming")

    def listed(sign: int) -> list[dict[str, Any]]:
        some = found.filter(pl.col(_SIGN).sign() == sign)
        order = _sort_names(names, new)
        some = some.sort(order, maintain_order=True) if order else some
        often = (at for at, times in enumerate(some[_SIGN].abs()) for _ in range(times))
        return list(to_documents(some[list(islice(often, keep))].drop(_SIGN), new.schema))

    return RowDiff(
        added=int(found[_SIGN].clip(lower_bound=0).sum()),
        removed=-int(found[_SIGN].clip(upper_bound=0).sum()),
        added_rows=listed(1),
        removed_rows=listed(-1),
        left_out=tuple(left_out),
    )


def _comparable(old: StructType, new: StructType) -> tuple[list[str], list[str]]:
    from polylake.schema import can_widen

    names: list[str] = []
    left_out: list[str] = []
    for field in new:
        before = old.get(field.name)
        alike = before is None or before.type == field.type or can_widen(before.type, field.type)
        (names if alike else left_out).append(field.name)
    return names, left_out


def _frame(
    target: Target, snapshot: Snapshot, files: list[Add], schema: StructType, names: list[str]
) -> pl.LazyFrame:
    import polars as pl

    from polylake.engine import TableShape
    from polylake.engine.local import to_polars_type

    shape = TableShape.of(snapshot)
    held = [name for name in names if name in snapshot.schema]
    # Without a column that it has, a version's rows are still as many.
    read = held or [snapshot.schema.names[0]]
    frame = target.reader.read(target.storage, shape, files, columns=read)
    typed = [
        (pl.col(name) if name in held else pl.lit(None))
        .cast(to_polars_type(schema.field(name).type))
        .alias(name)
        for name in names
    ]
    return frame.with_columns(typed).select(names)


def _sort_names(names: list[str], snapshot: Snapshot) -> list[str]:
    from polylake.schema import DecimalType, PrimitiveType

    return [
        n for n in names if isinstance(snapshot.schema.field(n).type, (PrimitiveType, DecimalType))
    ]
