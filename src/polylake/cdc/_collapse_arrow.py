"""The net change of each key, for tables of records: whole columns at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from polylake.cdc._arrow import arrow_schema, record_schema, records_from_arrow
from polylake.cdc._net import FIRST_RANKS, first_of, last_of
from polylake.errors import CDCError
from polylake.schema import StructType, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polylake.cdc._record import CDCRecord

_MOST = 2**63 - 1
_ROW = "row"
_GROUP = "group"


def collapse_table(records: pa.Table, key: tuple[str, ...] | None) -> pa.Table:
    """Return the net changes; see ``collapse``.

    Raises:
        CDCError: as ``collapse`` does.
    """
    records, frame, keys = _opened(records, key)
    firsts, lasts = _winners(frame, keys, records, {"first": _FIRST, "last": _LAST})
    order = pl.DataFrame(
        {
            "first": firsts,
            "last": lasts,
            "seq": frame["seq"].gather(lasts),
            "ts": frame["ts"].gather(lasts),
            "id": frame["id"].gather(lasts),
        }
    ).sort("seq", "ts", "id")
    return _net_changes(records, frame, order["first"], order["last"])


def last_rows(records: pa.Table, key: tuple[str, ...]) -> pa.Array:
    """Return the row of the last record of every key, in order.

    Raises:
        CDCError: as ``collapse`` does.
    """
    records, frame, keys = _opened(records, key)
    (lasts,) = _winners(frame, keys, records, {"last": _LAST})
    return lasts.sort().to_arrow()


def _opened(
    records: pa.Table, key: tuple[str, ...] | None
) -> tuple[pa.Table, pl.DataFrame, list[str]]:
    """Return the columns of records, those that decide, and the names of the key's."""
    schema = arrow_schema(records.schema)
    if "_start" not in schema:
        nulls = pa.nulls(len(records), to_arrow(record_schema()).field("_start").type)
        records = records.append_column("_start", nulls)
    records = records.select(record_schema().names)
    return records, *_keyed(records, schema, key)


def _keyed(
    records: pa.Table, schema: StructType, key: tuple[str, ...] | None
) -> tuple[pl.DataFrame, list[str]]:
    """Return the narrow columns that decide, and the names of those that are the key."""
    narrow = records.select(["_id", "_seq", "_op", "_ts", "_start"])
    frame = pl.DataFrame(narrow.rename_columns(["id", "seq", "op", "ts", "start"]))
    start = pl.col("start").struct
    frame = frame.with_columns(
        first_seq=start.field("seq").fill_null(pl.col("seq")),
        first_ts=start.field("ts").fill_null(pl.col("ts")),
        first_op=start.field("op").fill_null(pl.col("op")),
    ).drop("start")
    if key is None:
        return frame, ["id"]
    names = [f"key {at}" for at in range(len(key))]
    columns = [_key_column(records, schema, field) for field in key]
    return frame.with_columns(
        column.alias(name) for name, column in zip(names, columns, strict=True)
    ), names


def _key_column(records: pa.Table, schema: StructType, field: str) -> pl.Series:
    state = schema.field("_after").type
    if not isinstance(state, StructType) or field not in state:
        where = "variants" if not isinstance(state, StructType) else "the states' columns"
        raise CDCError(f"the key {field!r} is not among {where}", field=field)
    frame = pl.DataFrame(
        {
            "after": pl.Series(_child(records["_after"], field)),
            "before": pl.Series(_child(records["_before"], field)),
        }
    )
    both = frame.select(
        key=pl.coalesce("after", "before"), changed=pl.col("after") != pl.col("before")
    )
    if both["key"].null_count() or both["changed"].any():
        lacks = bool(both["key"].null_count())
        row = both["key"].is_null().arg_max() if lacks else both["changed"].arg_max()
        identity = records["_id"][row].as_py()
        problem = "does not say" if lacks else "changes"
        raise CDCError(
            f"the change to {identity!r} {problem} its {field!r}, which is of the key",
            field=field,
            id=identity,
        )
    return both["key"]


def _child(states: pa.ChunkedArray, field: str) -> pa.ChunkedArray:
    # Deferred: the module is slow to import.
    import pyarrow.compute as pc  # noqa: PLC0415

    return pc.struct_field(states, field)


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two records that count of each key.

    Attributes:
        order: what orders records, so that the greatest is the one.
        content: the columns of records that order those that are equal in ``order``.
        choose: finds the one of such records.
    """

    order: tuple[pl.Expr, ...]
    content: tuple[str, ...]
    choose: Callable[[Iterable[CDCRecord]], CDCRecord]


_RANK = pl.col("first_op").replace_strict(
    {op.value: rank for op, rank in FIRST_RANKS.items()}, return_dtype=pl.Int64
)
# The greatest complement is the smallest number.
_FIRST = _Side(
    (-1 - pl.col("first_seq"), -1 - pl.col("first_ts"), -1 - _RANK), ("_before",), first_of
)
_LAST = _Side((pl.col("seq"), pl.col("ts")), ("_source", "_op", "_after"), last_of)


def _winners(
    frame: pl.DataFrame, keys: list[str], records: pa.Table, sides: dict[str, _Side]
) -> list[pl.Series]:
    """Return, for each side, the rows of the records of every key that count, in one order."""
    rows = frame.height
    packed = pl.DataFrame(
        [
            column
            for name, side in sides.items()
            for column in _packed(frame.select(side.order[0]).to_series(), name)
        ]
    )
    groups = frame.select(keys).hstack(packed).group_by(keys).agg(pl.col(packed.columns).max())
    found = []
    for name, side in sides.items():
        winner = groups[f"{name} up"] % max(rows, 1)
        if f"{name} down" in groups.columns:
            lowest = rows - 1 - groups[f"{name} down"] % max(rows, 1)
            tied = groups.select(keys).with_row_index(_GROUP).filter(winner != lowest)
            if tied.height:
                winner = _settled(winner, tied, side, frame, keys, records)
        found.append(winner)
    return found


def _packed(values: pl.Series, name: str) -> list[pl.Series]:
    """Return columns whose greatest value in a group tells the row of the group's greatest value.

    To a value is added its row, counted from the start in the one column and from the end in the
    other: where equal values are in a group, the columns tell different rows.
    """
    rows = len(values)
    lowest, highest = values.min(), values.max()
    if not isinstance(lowest, int) or not isinstance(highest, int):
        return [values.cast(pl.Int64).alias(f"{name} up")]  # there are no rows
    if (highest - lowest + 1) * rows > _MOST:
        values = values.rank("dense").cast(pl.Int64)
        lowest = 0
    if lowest != 0:
        values = values - lowest
    row = pl.Series(pl.int_range(rows, eager=True))
    packed = [(values * rows + row).alias(f"{name} up")]
    if not _is_strictly_ordered(values):
        packed.append((values * rows + (rows - 1 - row)).alias(f"{name} down"))
    return packed


def _is_strictly_ordered(values: pl.Series) -> bool:
    steps = values.diff().drop_nulls()
    return bool((steps > 0).all() or (steps < 0).all())


def _settled(  # noqa: PLR0913, PLR0917 - what is tied, and where to look
    winner: pl.Series,
    tied: pl.DataFrame,
    side: _Side,
    frame: pl.DataFrame,
    keys: list[str],
    records: pa.Table,
) -> pl.Series:
    """Return the rows again, once the groups whose first order did not decide are decided."""
    orders = [f"order {at}" for at in range(len(side.order))]
    left = (
        frame.lazy()
        .select(*keys, *(e.alias(name) for e, name in zip(side.order, orders, strict=True)))
        .with_row_index(_ROW)
        .join(tied.lazy(), on=keys)
        .select(_GROUP, pl.col(_ROW).cast(pl.Int64), *orders)
    )
    for name in orders:
        left = left.filter(pl.col(name) == pl.col(name).max().over(_GROUP))
    candidates = left.select(_GROUP, _ROW).collect()
    contents = records.select(side.content).take(candidates[_ROW].to_arrow())
    distinct = candidates.hstack(pl.DataFrame(contents)).unique([_GROUP, *side.content])
    settled = distinct.group_by(_GROUP).agg(pl.col(_ROW).min(), pl.len().alias("count"))
    still_open = settled.filter(pl.col("count") > 1)
    winner = winner.scatter(settled[_GROUP], settled[_ROW])
    if not still_open.height:
        return winner
    chosen = _chosen(distinct.join(still_open.select(_GROUP), on=_GROUP, how="semi"), side, records)
    return winner.scatter(list(chosen), list(chosen.values()))


def _chosen(candidates: pl.DataFrame, side: _Side, records: pa.Table) -> dict[int, int]:
    """Return the rows that the records themselves decide, by group."""
    members: dict[int, list[CDCRecord]] = {}
    places: dict[int, int] = {}
    found = records_from_arrow(records.take(candidates[_ROW].to_arrow()))
    for group, row, record in zip(candidates[_GROUP], candidates[_ROW], found, strict=True):
        members.setdefault(group, []).append(record)
        places[id(record)] = row
    return {group: places[id(side.choose(tied))] for group, tied in members.items()}


def _net_changes(
    records: pa.Table, frame: pl.DataFrame, firsts: pl.Series, lasts: pl.Series
) -> pa.Table:
    first = frame.select("first_op", "first_seq", "first_ts")[firsts]
    last = frame.select("op", "seq", "ts")[lasts]
    op = (
        pl.when(pl.col("op") == "d")
        .then(pl.lit("d"))
        .when(pl.col("first_op") == "d")
        .then(pl.lit("u"))
        .otherwise(pl.col("first_op"))
    )
    both = first.hstack(last).with_columns(op=op)
    is_itself = both.select(
        (pl.col("op") == pl.col("first_op"))
        & (pl.col("seq") == pl.col("first_seq"))
        & (pl.col("ts") == pl.col("first_ts"))
    ).to_series()
    first_rows, last_rows = firsts.to_arrow(), lasts.to_arrow()
    schema = records.schema
    columns = {
        name: records[name].take(first_rows if name == "_before" else last_rows)
        for name in schema.names
        if name not in ("_op", "_start")
    }
    columns["_op"] = both["op"].to_arrow().cast(schema.field("_op").type)
    parts = list(schema.field("_start").type)
    columns["_start"] = pa.StructArray.from_arrays(
        [both[f"first_{part.name}"].to_arrow().cast(part.type) for part in parts],
        fields=parts,
        mask=is_itself.to_arrow(),
    )
    return pa.table([columns[name] for name in schema.names], schema=schema)
