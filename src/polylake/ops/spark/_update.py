"""Update the rows that match a filter, by the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from polylake.engine.spark._values import column
from polylake.errors import ValidationError
from polylake.ops._change_files import ChangeType
from polylake.ops.spark._rows import SparkRows
from polylake.ops.spark._rules import SparkRules
from polylake.ops.spark._update_columns import update_to_spark
from polylake.query import Update

if TYPE_CHECKING:
    from polylake.ops._edit import Edit
    from polylake.ops._row_change import FrameFunction, RowChange
    from polylake.ops._scan_plan import ScanPlan
    from polylake.schema import StructType


def update_rows(edit: Edit, plan: ScanPlan, change: RowChange) -> bool:
    """Make a change to the rows that match; say whether it is one for the cluster to make.

    Raises:
        ValidationError: a function's rows are not those it was given; a row breaks a constraint.
        SchemaError: a value does not fit its column.
        StorageError: the store refused.
    """
    schema, rules = edit.snapshot.schema, SparkRules.of(edit.snapshot)
    changed = update_to_spark(change.by, schema) if isinstance(change.by, Update) else {}
    if changed is None:
        return False
    rows = SparkRows(edit)
    rows.locate(plan.files, plan.filter)
    found = len(edit.removed)
    if not found:
        return True
    before = rows.gathered(rows.read(plan.files, where=plan.filter), found, plan.files)
    if isinstance(change.by, Update):
        after = before.withColumns(changed)
    else:
        after = _called(change.by, before, schema)
    values = {name: column(name) for name in schema.names}
    columns = rules.changed(values, change.given)
    after = rules.kept(after.select(*(value.alias(name) for name, value in columns.items())))
    with rules.refusals.reported():
        new: DataFrame | None = after
        if edit.has_feed:
            rows.record(before, ChangeType.BEFORE, found)
            rows.record(after, ChangeType.AFTER, found)
            new = rows.write_changes()
        written = rows.write(new, plan.files)
    if written != found:
        edit.discard()
        raise ValidationError(
            f"the update function made {written} rows out of {found}; rows have to stay",
            field="update",
        )
    return True


def _called(function: FrameFunction, rows: DataFrame, schema: StructType) -> DataFrame:
    changed = function(rows)
    if not isinstance(changed, DataFrame):
        raise ValidationError(
            f"the update function returned a {type(changed).__name__}, not a Spark DataFrame",
            field="update",
        )
    if sorted(changed.columns) != sorted(schema.names):
        raise ValidationError(
            f"the update function made columns {changed.columns} out of {list(schema.names)}; "
            "columns have to stay",
            field="update",
        )
    return changed
