"""Fit a DataFrame to a table: its columns in its types, exactly or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from polylake.engine.spark._failures import NULL_REFUSED
from polylake.engine.spark._types import to_spark_schema, to_spark_type
from polylake.engine.spark._values import column
from polylake.errors import SchemaError
from polylake.schema import (
    BYTE,
    INTEGER,
    LONG,
    SHORT,
    VOID,
    ArrayType,
    DataType,
    MapType,
    Path,
    StructType,
    can_widen,
    parse_schema,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame

_INTEGERS = (BYTE, SHORT, INTEGER, LONG)


def fit_frame(frame: DataFrame, schema: StructType) -> DataFrame:
    """Return the rows of a frame with the columns of ``schema``.

    Columns and the fields of structs are matched by name, regardless of case where no name is
    the same; what the frame lacks is null. Numbers become wider types, or narrower integers
    where they are in range. A row with one that is not, or with a null where the table takes
    none, fails the job.

    Raises:
        SchemaError: a column is not the table's, or its type cannot become the table's.
    """
    given = parse_schema(frame.schema.json())
    _check_struct(given, schema, ())
    names = {found.name: field.name for field in given if (found := schema.find(field.name))}
    chosen = [
        column(names[field.name]).alias(field.name)
        if field.name in names
        else f.lit(None).cast(to_spark_type(field.type)).alias(field.name)
        for field in schema
    ]
    fitted = frame.select(chosen)
    wanted = to_spark_schema(schema)
    if any(
        here.dataType != field.dataType for here, field in zip(fitted.schema, wanted, strict=True)
    ):
        fitted = fitted.to(wanted)
    return _without_refused_nulls(fitted, schema)


def _check_struct(given: StructType, schema: StructType, path: Path) -> None:
    seen: set[str] = set()
    for field in given:
        here = (*path, field.name)
        known = schema.find(field.name)
        if known is None:
            raise SchemaError(f"{'.'.join(here)!r} is no column of the table", field=".".join(here))
        if known.name in seen:
            raise SchemaError(f"column {'.'.join(here)!r} appears twice", field=".".join(here))
        seen.add(known.name)
        _check_type(field.type, known.type, here)


def _check_type(given: DataType, kind: DataType, path: Path) -> None:
    match given, kind:
        case StructType(), StructType():
            _check_struct(given, kind, path)
        case ArrayType(), ArrayType():
            _check_type(given.element, kind.element, (*path, "element"))
        case MapType(), MapType():
            _check_type(given.key, kind.key, (*path, "key"))
            _check_type(given.value, kind.value, (*path, "value"))
        case _ if given == VOID or (given in _INTEGERS and kind in _INTEGERS):
            pass
        case _ if not can_widen(given, kind):
            name = ".".join(path)
            raise SchemaError(
                f"column {name!r} is {given} and the table's is {kind}: cast it first",
                field=name,
                given=str(given),
                type=str(kind),
            )


def _without_refused_nulls(frame: DataFrame, schema: StructType) -> DataFrame:
    """Let the job fail on a null where the table takes none."""
    refused = [
        (path, is_null)
        for field in schema
        for path, is_null in _nulls(column(field.name), field.type, (field.name,), field.nullable)
    ]
    if not refused:
        return frame
    first = schema.names[0]
    checked = column(first)
    for path, is_null in refused:
        failing = f.raise_error(f"{NULL_REFUSED}'{'.'.join(path)}'.")
        checked = f.when(is_null, failing.cast(to_spark_type(schema.field(first).type))).otherwise(
            checked
        )
    return frame.withColumn(first, checked)


def _nulls(
    value: Column,
    kind: DataType,
    path: Path,
    nullable: bool,  # noqa: FBT001 - a fact of the schema, passed on
) -> Iterator[tuple[Path, Column]]:
    """Yield, for everything inside a value that takes no nulls, whether there is one."""
    if not nullable:
        yield path, value.isNull()
    match kind:
        case StructType():
            for field in kind:
                inner = value.getField(field.name)
                for where, is_null in _nulls(
                    inner, field.type, (*path, field.name), field.nullable
                ):
                    yield where, value.isNotNull() & is_null
        case ArrayType():
            yield from _nulls_among(value, kind.element, (*path, "element"), kind.contains_null)
        case MapType():
            yield from _nulls_among(
                f.map_values(value), kind.value, (*path, "value"), kind.value_contains_null
            )
        case _:
            return


def _nulls_among(
    values: Column,
    kind: DataType,
    path: Path,
    nullable: bool,  # noqa: FBT001 - a fact of the schema, passed on
) -> Iterator[tuple[Path, Column]]:
    paths = [where for where, _ in _nulls(f.lit(None), kind, path, nullable)]
    for at, where in enumerate(paths):

        def is_null(item: Column, at: int = at) -> Column:
            return list(_nulls(item, kind, path, nullable))[at][1]

        yield where, f.exists(values, is_null)
