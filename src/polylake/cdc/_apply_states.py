"""Records as they are applied to a table: their states typed, and a key in each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from polylake.cdc._arrow import arrow_schema, records_from_arrow, records_to_arrow
from polylake.cdc._json import load
from polylake.engine import infer_schema, to_batches
from polylake.errors import CDCError, SchemaError
from polylake.ops import merge_incoming
from polylake.schema import STRING, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from polylake.cdc._record import CDCRecord

_GENERATION = "delta.generationExpression"


@dataclass(frozen=True, slots=True)
class StateRecords:
    """Records whose states are typed."""

    table: pa.Table
    states: StructType
    """The columns of the states."""

    def child(self, state: str, name: str) -> pa.ChunkedArray:
        """Return a column of the states ``_before`` or ``_after``."""
        return pc.struct_field(self.table[state], name)

    def take(self, rows: pa.Array, names: Sequence[str]) -> StateRecords:
        """Return some of the records, and of those some columns."""
        return StateRecords(self.table.select(names).take(rows), self.states)

    def origins(self) -> list[str]:
        """Return the systems in which the changes were made first."""
        source = self.table["_source"]
        first = pc.coalesce(pc.struct_field(source, "origin"), pc.struct_field(source, "system"))
        return sorted(first.unique().to_pylist())


def open_records(
    records: Iterable[CDCRecord] | pa.Table,
    table: StructType | None,
    key: tuple[str, ...],
    *,
    evolve: bool,
    own: frozenset[str],
) -> StateRecords:
    """Take in records for a table.

    Args:
        records: the records.
        table: the table's columns; ``None`` where the records are to make them.
        key: the columns that tell rows apart.
        evolve: whether states may have columns that the table does not have.
        own: columns of the table that are not the states'.

    Raises:
        CDCError: a record is not one, or does not have a key; a state has a column of ``own``.
        SchemaError: a state does not fit the table.
    """
    if isinstance(records, pa.Table):
        state = arrow_schema(records.schema).field("_after").type
        if isinstance(state, StructType):
            _check_names(state.names, table, evolve=evolve, own=own)
            return _with_keys(StateRecords(records, _without_void(state, table)), key)
        records = records_from_arrow(records)
    held = list(records)
    states = [state for r in held for state in (r.before, r.after) if state is not None]
    schema = _schema_of(states, table, evolve=evolve, own=own)
    return _with_keys(StateRecords(records_to_arrow(held, schema), schema), key)


def _key_of(identity: str, key: tuple[str, ...]) -> list[Any]:
    """Return the key that an ``id`` was made of; one text is its own ``id``."""
    if len(key) == 1:
        return [identity]
    try:
        values = load(identity)
    except CDCError:
        values = None
    if not isinstance(values, list) or len(values) != len(key):
        raise CDCError(
            f"the delete of {identity!r} does not say what was there, nor its key {list(key)}",
            field="_before",
            id=identity,
        )
    return values


def _schema_of(
    states: list[Any], table: StructType | None, *, evolve: bool, own: frozenset[str]
) -> StructType:
    names = dict.fromkeys(name for state in states for name in state)
    _check_names(list(names), table, evolve=evolve, own=own)
    if table is None:
        return _without_void(infer_schema(states).schema, None)
    # A generated column that no state names is computed, not null.
    known = StructType(
        tuple(f for f in table if f.name not in own and (f.name in names or not _is_generated(f)))
    )
    if not evolve or all(name in known for name in names):
        return known
    incoming = _without_void(infer_schema(states).schema, table)
    return merge_incoming(known, incoming, widen=False, typed=False)


def _is_generated(field: StructField) -> bool:
    return _GENERATION in field.metadata


def _without_void(states: StructType, table: StructType | None) -> StructType:
    """Leave out columns that are null in every state and that the table does not have."""
    return StructType(
        tuple(f for f in states if str(f.type) != "void" or (table is not None and f.name in table))
    )


def _check_names(
    names: Sequence[str], table: StructType | None, *, evolve: bool, own: frozenset[str]
) -> None:
    taken = next((name for name in names if name in own), None)
    if taken is not None:
        raise CDCError(
            f"the states have a column {taken!r}, which the table keeps for itself in this mode; "
            "leave it out, or give it another name",
            field=taken,
        )
    if table is None or evolve:
        return
    unknown = next((name for name in names if table.find(name) is None), None)
    if unknown is not None:
        raise SchemaError(
            f"the states have a column {unknown!r}, and the table has {', '.join(table.names)}. "
            "Pass schema_mode='merge' to add it.",
            field=unknown,
        )


def _with_keys(opened: StateRecords, key: tuple[str, ...]) -> StateRecords:
    """Give every delete that does not say what was there its key, from its ``id``."""
    for name in key:
        if name not in opened.states:
            raise CDCError(f"the states have no column {name!r}, which is of the key", field=name)
    table = opened.table
    bare = pc.and_(pc.is_null(table["_before"]), pc.is_null(table["_after"]))
    if not pc.any(bare).as_py():
        return opened
    ids = table["_id"].filter(bare).to_pylist()
    fields = tuple(opened.states.field(name) for name in key)
    rows = [
        {f.name: _typed(value, f) for f, value in zip(fields, _key_of(i, key), strict=True)}
        for i in ids
    ]
    found = to_batches(rows, StructType(fields))
    keys = pa.Table.from_batches(found.batches, found.schema)
    kind = table.schema.field("_before").type
    children = []
    for part in kind:
        column = opened.child("_before", part.name)
        if part.name in key:
            values = keys[part.name].combine_chunks().cast(part.type)
            column = pc.replace_with_mask(column.combine_chunks(), bare.combine_chunks(), values)
        children.append(_one_chunk(column))
    gone = pc.and_(pc.is_null(table["_before"]), pc.invert(bare)).combine_chunks()
    before = pa.StructArray.from_arrays(children, fields=list(kind), mask=_one_chunk(gone))
    index = table.schema.get_field_index("_before")
    return replace(opened, table=table.set_column(index, table.schema.field(index), before))


def _typed(value: object, field: StructField) -> object:
    return load(value) if isinstance(value, str) and field.type != STRING else value


def _one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
