"""What a table asks of every row: NOT NULL, CHECK constraints and column invariants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import orjson

from polylake.errors import SchemaError, ValidationError
from polylake.ops._sql import compile_sql
from polylake.schema import StructType, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from polylake.log import Snapshot
    from polylake.ops._sql import SqlExpression
    from polylake.schema import Path

CONSTRAINT_PREFIX = "delta.constraints."
INVARIANT_KEY = "delta.invariants"

_LONGEST_VALUE = 80


@dataclass(frozen=True, slots=True)
class Check:
    """A condition that is true for every row of a table."""

    title: str
    """What it is called in messages."""
    condition: SqlExpression


def check_rows(snapshot: Snapshot, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches of a table's columns as they are, once every row keeps the table's rules.

    Raises:
        SchemaError: a column that is not nullable has a null.
        ValidationError: a row breaks a constraint, or one cannot be evaluated; the message names
            the constraint and shows a row.
    """
    checks = checks_of(snapshot.schema, snapshot.configuration)
    return check_batches(snapshot.schema, checks, batches)


def check_batches(
    schema: StructType, checks: tuple[Check, ...], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Do what ``check_rows`` does with constraints that were read before.

    Raises:
        SchemaError: a column that is not nullable has a null.
        ValidationError: a row breaks a constraint, or one cannot be evaluated.
    """
    filled = tuple(_without_nulls(schema))
    for batch in batches:
        for path in filled:
            column = _at(batch, path)
            if column.null_count:
                _refuse_null(batch, path, column)
        for check in checks:
            _check(batch, check)
        yield batch


def checks_of(schema: StructType, configuration: Mapping[str, str]) -> tuple[Check, ...]:
    """Read a table's CHECK constraints and column invariants.

    Raises:
        ValidationError: one uses what polylake cannot evaluate; nothing can then be written.
    """
    texts = {
        f"the CHECK constraint {name[len(CONSTRAINT_PREFIX) :]!r}": text
        for name, text in configuration.items()
        if name.lower().startswith(CONSTRAINT_PREFIX)
    }
    for path, _, field in walk(schema):
        if field is not None and INVARIANT_KEY in field.metadata:
            title = f"the invariant of column {'.'.join(path)!r}"
            texts[title] = _invariant(field.metadata[INVARIANT_KEY], title)
    return tuple(compile_check(title, text, schema) for title, text in texts.items())


def compile_check(title: str, text: str, schema: StructType) -> Check:
    """Read one condition.

    Raises:
        ValidationError: it uses what polylake cannot evaluate.
    """
    try:
        return Check(title, compile_sql(text, schema))
    except ValidationError as error:
        verb = " uses" if "uses" in error.facts else ":"
        raise ValidationError(
            f"{title} ({text}){verb} {error}", field=title, expression=text
        ) from error


def shown_row(batch: pa.RecordBatch, at: int, columns: Iterable[str]) -> dict[str, str]:
    """Return some values of a row as short text, for messages."""
    values = {name: repr(batch.column(name)[at].as_py()) for name in columns}
    return {
        name: text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
        for name, text in values.items()
    }


def _check(batch: pa.RecordBatch, check: Check) -> None:
    try:
        held = check.condition.evaluate(batch)
    except ValidationError as error:
        raise ValidationError(f"{check.title}: {error}", field=check.title) from error
    if held.dtype.is_numeric() or held.dtype.is_temporal() or held.dtype.is_nested():
        raise ValidationError(
            f"{check.title} ({check.condition.text}) is no condition", field=check.title
        )
    # PROTOCOL.md, "CHECK Constraints": the condition must be true, so null breaks it as well.
    broken = (~(held == True).fill_null(value=False)).arg_true()  # noqa: E712 - a column of nulls
    if len(broken):
        row = shown_row(batch, int(broken[0]), check.condition.columns or batch.schema.names)
        values = ", ".join(f"{name} = {text}" for name, text in row.items())
        raise ValidationError(
            f"{check.title} ({check.condition.text}) does not hold for a row with {values}; "
            "nothing was written",
            field=check.title,
            expression=check.condition.text,
            row=row,
        )


def _without_nulls(schema: StructType) -> Iterator[Path]:
    """Yield the columns that have no nulls; as for Spark, one inside a struct needs the struct."""
    for field in schema:
        if not field.nullable:
            yield (field.name,)
        if isinstance(field.type, StructType):
            yield from ((field.name, *inner) for inner in _without_nulls(field.type))


def _at(batch: pa.RecordBatch, path: Path) -> pa.Array:
    column = batch.column(path[0])
    for step in path[1:]:
        # flatten, unlike field, gives nulls where the struct is null.
        column = column.flatten()[column.type.get_field_index(step)]
    return column


def _refuse_null(batch: pa.RecordBatch, path: Path, column: pa.Array) -> NoReturn:
    at = column.is_null().index(value=True).as_py()
    row = shown_row(batch, at, batch.schema.names)
    values = ", ".join(f"{name} = {text}" for name, text in row.items())
    name = ".".join(path)
    raise SchemaError(
        f"column {name!r} has nulls, but is not nullable: a row with {values}", field=name, row=row
    )


def _invariant(text: object, title: str) -> str:
    try:
        match orjson.loads(str(text)):
            case {"expression": {"expression": str(condition)}}:
                return condition
    except orjson.JSONDecodeError:
        pass
    raise ValidationError(f"{title} is {text!r}, which says no condition", field=title)
