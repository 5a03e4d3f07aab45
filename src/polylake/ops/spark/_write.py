"""Write a Spark frame to a table, by the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from polylake.engine.spark._filter import to_spark
from polylake.engine.spark._fit import fit_frame
from polylake.engine.spark._values import column
from polylake.errors import SchemaError, ValidationError
from polylake.ops._change_files import CHANGE_TYPE, ChangeType, change_layout, change_shape
from polylake.ops._evolve import explain_difference
from polylake.ops.spark._rules import SparkRules
from polylake.ops.spark._session import spark_engine
from polylake.query import filter_paths
from polylake.schema import StructType, parse_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from polylake.engine import WrittenFile
    from polylake.log import Add
    from polylake.ops._target import Target
    from polylake.ops._write_plan import WritePlan
    from polylake.query import Filter


def write_rows(
    target: Target, plan: WritePlan, frame: DataFrame, where: Filter | None
) -> list[WrittenFile] | None:
    """Write the rows of a frame as files that keep the rules of the table and of the write.

    Args:
        target: the table.
        plan: how it is to be.
        frame: the rows.
        where: what every row has to match.

    Returns:
        The files; ``None``, and nothing was done, where this machine has to write the rows: those
        of identity columns are numbered one by one, and some filters are not for Spark to tell.

    Raises:
        SchemaError: a value or a column does not fit; the message says what would help.
        ValidationError: a row breaks a constraint, or does not match ``where``.
        StorageError: the store refused.
    """
    matching = None if where is None else to_spark(where, plan.schema)
    rules = SparkRules(plan.schema, plan.checks, plan.computed)
    if rules.has_identity or (where is not None and matching is None):
        return None
    given = parse_schema(frame.schema.json())
    try:
        rows = rules.kept(_filled(frame, given, plan, rules))
    except SchemaError as error:
        raise explain_difference(error, plan.schema, given) from error
    if where is not None and matching is not None:
        shown = sorted({path[0] for path in filter_paths(where)} & set(plan.schema.names))
        broken = ~matching.eqNullSafe(other=True)
        rows = rules.refusals.checked(rows, broken, shown, _outside)
    with rules.refusals.reported():
        engine = spark_engine(target.engine)
        return engine.write_frame(target.storage, plan.shape, rows, plan.layout)


def copy_rows(target: Target, plan: WritePlan, files: Sequence[Add]) -> list[WrittenFile]:
    """Write the live rows of files to new ones.

    Raises:
        StorageError: the store refused.
    """
    engine = spark_engine(target.engine)
    rows = engine.read(target.storage, plan.shape, files)
    return engine.write_frame(target.storage, plan.shape, rows, plan.layout)


def record_replaced(
    target: Target, plan: WritePlan, files: Sequence[Add], where: Filter, added: Sequence[Add]
) -> list[WrittenFile]:
    """Write the rows of files that matched, and those that came for them, to change files.

    Raises:
        StorageError: the store refused.
    """
    engine, storage = spark_engine(target.engine), target.storage
    went = engine.read(storage, plan.shape, files, filter=where)
    came = engine.read(storage, plan.shape, added)
    rows = went.withColumn(CHANGE_TYPE, f.lit(ChangeType.DELETE.value)).unionAll(
        came.withColumn(CHANGE_TYPE, f.lit(ChangeType.INSERT.value))
    )
    return engine.write_frame(storage, change_shape(plan.shape), rows, change_layout(plan.layout))


def _filled(frame: DataFrame, given: StructType, plan: WritePlan, rules: SparkRules) -> DataFrame:
    """Return the rows with all of the table's columns, in its types."""
    named = {found.name for field in given if (found := plan.schema.find(field.name))}
    fitted = fit_frame(frame, rules.loose)
    columns = rules.inserted({name: column(name) for name in named})
    return fitted.select(*(value.alias(name) for name, value in columns.items()))


def _outside(row: dict[str, str]) -> ValidationError:
    values = ", ".join(f"{name} = {text}" for name, text in row.items())
    return ValidationError(
        f"a row with {values} does not match replace_where", field="replace_where", row=row
    )
