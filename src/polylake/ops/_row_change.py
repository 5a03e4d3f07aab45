"""An update, ready to be made to rows of a table."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from polylake.engine._rows import to_batches
from polylake.engine.local import to_documents
from polylake.errors import SchemaError, ValidationError
from polylake.ops._frames import from_batches
from polylake.query import Update, apply_update, parse_update, update_to_polars
from polylake.query._update import Rename
from polylake.schema import StructType, as_nullable

if TYPE_CHECKING:
    from polylake.schema import DataType, Path

FrameChange: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]
FrameFunction: TypeAlias = Callable[[Any], Any]
RowUpdate: TypeAlias = Mapping[str, object] | Update | FrameFunction
"""A MongoDB-style update, or a function from rows to as many rows with the same columns, both in
frames of the engine's kind."""


@dataclass(frozen=True, slots=True)
class RowChange:
    """What becomes of rows."""

    by: Update | FrameFunction
    """As it was asked for."""
    apply: FrameChange
    """The same, on Polars frames."""
    given: frozenset[str]
    """The columns that are set outright."""


def compile_update(update: RowUpdate, schema: StructType) -> RowChange:
    """Prepare an update for the rows of a table.

    Raises:
        ValidationError: the update is not one.
        SchemaError: it names a column that the table does not have, or sets one to what does not
            fit it.
    """
    if callable(update):
        return RowChange(update, _checked(update), frozenset())
    parsed = parse_update(update)
    named = _named_columns(parsed, schema)
    _probe(parsed, schema)
    expressions = update_to_polars(parsed, schema)
    if expressions is None:
        return RowChange(parsed, _by_documents(parsed, _only(schema, named)), named)
    return RowChange(parsed, _by_columns(list(expressions.values())), named)


def _named_columns(update: Update, schema: StructType) -> frozenset[str]:
    paths: list[Path] = [change.path for change in update.changes]
    paths += [change.to for change in update.changes if isinstance(change, Rename)]
    for path in paths:
        if path[0] not in schema:
            raise SchemaError(
                f"{path[0]!r} is no column of the table ({', '.join(schema.names)})", field=path[0]
            )
    return frozenset(path[0] for path in paths)


def _probe(update: Update, schema: StructType) -> None:
    """Make the changes to an empty row, so that a value that fits nowhere is found at once."""
    # Into arrays and maps paths lead only where there are some.
    plain = tuple(change for change in update.changes if _is_plain(schema, change.path[:-1]))
    changed = apply_update({}, Update(plain))
    loose = (
        replace(f, type=as_nullable(f.type), nullable=True) for f in schema if f.name in changed
    )
    deque(to_batches([changed], StructType(tuple(loose))).batches, maxlen=0)


def _is_plain(schema: StructType, path: Path) -> bool:
    here: DataType = schema
    for step in path:
        field = here.get(step) if isinstance(here, StructType) else None
        if field is None:
            return False
        here = field.type
    return isinstance(here, StructType)


def _only(schema: StructType, names: frozenset[str]) -> StructType:
    return StructType(tuple(field for field in schema if field.name in names))


def _by_columns(expressions: list[pl.Expr]) -> FrameChange:
    def apply(rows: pl.DataFrame) -> pl.DataFrame:
        try:
            return rows.with_columns(expressions)
        except pl.exceptions.InvalidOperationError as error:
            raise SchemaError(
                f"a changed value does not fit its column: {str(error).splitlines()[0]}"
            ) from error

    return apply


def _by_documents(update: Update, schema: StructType) -> FrameChange:
    def apply(rows: pl.DataFrame) -> pl.DataFrame:
        before = to_documents(rows.select(schema.names), schema, with_missing=False)
        after = [apply_update(row, update) for row in before]
        changed = from_batches(to_batches(after, schema).batches, schema)
        return rows.with_columns(changed.iter_columns())

    return apply


def _checked(function: FrameFunction) -> FrameChange:
    def apply(rows: pl.DataFrame) -> pl.DataFrame:
        changed = function(rows)
        if not isinstance(changed, pl.DataFrame):
            raise ValidationError(
                f"the update function returned a {type(changed).__name__}, not a Polars DataFrame",
                field="update",
            )
        if changed.height != rows.height or set(changed.columns) != set(rows.columns):
            raise ValidationError(
                f"the update function made {changed.height} rows of columns {changed.columns} out "
                f"of {rows.height} rows of columns {rows.columns}; rows and columns have to stay",
                field="update",
            )
        return changed

    return apply
