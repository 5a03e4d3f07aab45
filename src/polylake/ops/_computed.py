"""Columns that the table fills in: generated ones, defaults and identities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from polylake.engine._cast import cast_batch
from polylake.errors import SchemaError, ValidationError
from polylake.ops._constraints import shown_row
from polylake.ops._sql import compile_sql
from polylake.schema import LONG, TIMESTAMP, StructField, StructType, to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from polylake.ops._sql import SqlExpression

GENERATION_KEY = "delta.generationExpression"
DEFAULT_KEY = "CURRENT_DEFAULT"
IDENTITY_START = "delta.identity.start"
IDENTITY_STEP = "delta.identity.step"
IDENTITY_MARK = "delta.identity.highWaterMark"
IDENTITY_EXPLICIT = "delta.identity.allowExplicitInsert"

_NOW = frozenset({"current_timestamp", "current_timestamp()", "now()", "localtimestamp()"})
_TODAY = frozenset({"current_date", "current_date()", "curdate()"})
_LIMITS = range(-(2**63), 2**63)


@dataclass(slots=True)
class _Identity:
    """A column of ascending or descending numbers, and how far it has come."""

    start: int
    step: int
    mark: int | None
    explicit: bool

    def take(self, count: int) -> range:
        """Return the next values."""
        done = 0 if self.mark is None else max((self.mark - self.start) // self.step + 1, 0)
        first = self.start + done * self.step
        values = range(first, first + count * self.step, self.step)
        if count:
            if values[-1] not in _LIMITS:
                raise ValidationError("the identity column has run out of numbers")
            self.mark = values[-1]
        return values


class ComputedColumns:
    """The columns of one table that rows may leave out, for one write."""

    def __init__(self, schema: StructType, *, now: Callable[[], datetime] | None = None) -> None:
        """Read how the columns are computed; ``now`` is what a default's time is taken from.

        Raises:
            ValidationError: an expression uses what polylake cannot evaluate.
        """
        self._schema = schema
        self._identities = {f.name: _identity(f) for f in schema if IDENTITY_START in f.metadata}
        self._generated = {
            field.name: _compile("generated column", field, GENERATION_KEY, schema)
            for field in schema
            if GENERATION_KEY in field.metadata
        }
        moment = (now or (lambda: datetime.now(UTC)))()
        self._defaults = {
            field.name: _default(field, moment) for field in schema if DEFAULT_KEY in field.metadata
        }

    def __bool__(self) -> bool:
        return bool(self._identities or self._generated or self._defaults)

    @property
    def defaults(self) -> Mapping[str, object]:
        """The value of each column that has a default."""
        return self._defaults

    @property
    def generated(self) -> Mapping[str, SqlExpression]:
        """How each generated column is computed."""
        return self._generated

    @property
    def identities(self) -> tuple[str, ...]:
        """The columns that count rows."""
        return tuple(self._identities)

    @property
    def input_schema(self) -> StructType:
        """The table's columns, those that are filled in being nullable."""
        return StructType(tuple(self._loose(field) for field in self._schema))

    def fill_dicts(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Yield rows with the defaults of the keys they lack; a key with None stays null."""
        spelled = {name.lower(): name for name in self._defaults}
        for row in rows:
            # Spelled as the table does, so that no row has a column under another name.
            yield {**self._defaults, **{spelled.get(str(k).lower(), k): v for k, v in row.items()}}

    def fill(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches with all of the table's columns; those with a default may be absent.

        Null counts as not given for generated and identity columns.

        Raises:
            ValidationError: a given value is not what the column generates, or may not be given.
            SchemaError: a computed value does not fit its column.
        """
        for batch in batches:
            columns = {name: batch.column(name) for name in batch.schema.names}
            for name, value in self._defaults.items():
                if name not in columns:
                    kind = to_arrow_type(self._schema.field(name).type)
                    columns[name] = pa.array([value] * len(batch), kind)
            for name, identity in self._identities.items():
                columns[name] = _assign(name, columns[name], identity)
            whole = pa.RecordBatch.from_arrays(
                [columns[name] for name in self._schema.names], names=list(self._schema.names)
            )
            for name, expression in self._generated.items():
                whole = self._generate(whole, name, expression)
            yield whole

    def check(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches as they are, once generated columns hold what they generate.

        Raises:
            ValidationError: a value is not what the column generates.
        """
        for batch in batches:
            for name, expression in self._generated.items():
                _verify(batch, name, expression, self._values(batch, name, expression))
            yield batch

    def schema_after(self, schema: StructType) -> StructType:
        """Return a schema with the identity columns' high-water marks as far as they have come."""
        return StructType(tuple(self._marked(field) for field in schema))

    def _loose(self, field: StructField) -> StructField:
        computed = field.name in self._identities or field.name in self._generated
        return replace(field, nullable=True) if computed else field

    def _marked(self, field: StructField) -> StructField:
        identity = self._identities.get(field.name)
        if identity is None or identity.mark is None:
            return field
        return replace(field, metadata={**field.metadata, IDENTITY_MARK: identity.mark})

    def _values(self, batch: pa.RecordBatch, name: str, expression: SqlExpression) -> pa.Array:
        field = self._schema.field(name)
        series = expression.evaluate(batch)
        if field.type == TIMESTAMP and series.dtype.is_temporal() and series.dtype.is_(_naive()):
            series = series.dt.replace_time_zone("UTC")
        column = pa.RecordBatch.from_arrays([_plain(series.to_arrow())], names=[name])
        return cast_batch(column, StructType((replace(field, nullable=True),))).column(0)

    def _generate(
        self, batch: pa.RecordBatch, name: str, expression: SqlExpression
    ) -> pa.RecordBatch:
        values = self._values(batch, name, expression)
        if batch.column(name).null_count < len(batch):
            _verify(batch, name, expression, values, given_only=True)
        return batch.set_column(batch.schema.get_field_index(name), name, values)


def _verify(
    batch: pa.RecordBatch,
    name: str,
    expression: SqlExpression,
    values: pa.Array,
    *,
    given_only: bool = False,
) -> None:
    import polars as pl  # noqa: PLC0415 - slow to import

    given, computed = pl.Series(batch.column(name)), pl.Series(values)
    wrong = given.ne_missing(computed)
    wrong = wrong & given.is_not_null() if given_only else wrong
    if wrong.any():
        at = int(wrong.arg_true()[0])
        row = shown_row(batch, at, [name, *expression.columns])
        raise ValidationError(
            f"column {name!r} is generated as {expression.text}, which is {computed[at]!r} for a "
            f"row with {', '.join(f'{key} = {text}' for key, text in row.items())}",
            field=name,
            row=row,
        )


def _assign(name: str, column: pa.Array, identity: _Identity) -> pa.Array:
    missing = column.null_count
    if missing < len(column) and not identity.explicit:
        raise ValidationError(
            f"column {name!r} is an identity column whose values are always generated; "
            "leave it out of the rows",
            field=name,
        )
    values = iter(identity.take(missing))
    return pa.array([next(values) if v is None else v for v in column.to_pylist()], pa.int64())


def _identity(field: StructField) -> _Identity:
    start, step = field.metadata[IDENTITY_START], field.metadata.get(IDENTITY_STEP, 1)
    mark = field.metadata.get(IDENTITY_MARK)
    whole = isinstance(start, int) and isinstance(step, int) and isinstance(mark, int | None)
    if not whole or step == 0 or field.type != LONG:
        raise SchemaError(
            f"the identity column {field.name!r} needs type long, a start and a step that is not 0",
            field=field.name,
        )
    assert isinstance(start, int)  # noqa: S101 - said by whole
    assert isinstance(step, int)  # noqa: S101
    assert isinstance(mark, int | None)  # noqa: S101
    return _Identity(start, step, mark, field.metadata.get(IDENTITY_EXPLICIT) is True)


def _default(field: StructField, moment: datetime) -> object:
    text = str(field.metadata[DEFAULT_KEY]).strip()
    value: object
    if text.lower() in _NOW:
        value = moment if field.type == TIMESTAMP else moment.replace(tzinfo=None)
    elif text.lower() in _TODAY:
        value = moment.date()
    else:
        expression = _compile("default of column", field, DEFAULT_KEY, StructType(()))
        value = expression.evaluate(pa.record_batch({"": [None]}))[0]
    if isinstance(value, datetime) and field.type == TIMESTAMP:
        value = value.replace(tzinfo=value.tzinfo or UTC)
    try:
        return pa.array([value]).cast(to_arrow_type(field.type))[0].as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValidationError(
            f"the default of column {field.name!r} ({text}) is no {field.type}", field=field.name
        ) from error


def _compile(what: str, field: StructField, key: str, schema: StructType) -> SqlExpression:
    text = str(field.metadata[key])
    try:
        return compile_sql(text, schema)
    except ValidationError as error:
        verb = " uses" if "uses" in error.facts else ":"
        raise ValidationError(
            f"the {what} {field.name!r} ({text}){verb} {error}", field=field.name, expression=text
        ) from error


def _naive() -> Any:  # noqa: ANN401 - a Polars data type
    import polars as pl  # noqa: PLC0415 - slow to import

    return pl.Datetime("us")


def _plain(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
