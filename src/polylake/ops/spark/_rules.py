"""What a table asks of rows, asked of Spark frames.

Spark evaluates the table's own SQL. It has been read by our parser first, so that a rule which
this machine could not evaluate stops the write here as well.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

from polylake.engine.spark._fit import fit_frame
from polylake.engine.spark._types import to_spark_type
from polylake.engine.spark._values import column
from polylake.errors import UnsupportedFeature, ValidationError
from polylake.ops._computed import ComputedColumns
from polylake.ops._constraints import checks_of
from polylake.ops.spark._constants import constant
from polylake.ops.spark._refusals import Refusals
from polylake.schema import StructType, as_nullable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import Column, DataFrame

    from polylake.log import Snapshot
    from polylake.ops._constraints import Check
    from polylake.ops._sql import SqlExpression


class SparkRules:
    """Fills in the columns that a table computes, and has jobs fail on rows that break a rule."""

    def __init__(
        self, schema: StructType, checks: tuple[Check, ...], computed: ComputedColumns
    ) -> None:
        """Apply rules that were read before."""
        self.refusals = Refusals()
        self._schema = schema
        nullable = as_nullable(schema)
        assert isinstance(nullable, StructType)  # noqa: S101 - the type of a struct's type
        self.loose = nullable
        """The table's columns before nulls are looked at."""
        self._checks = checks
        self._computed = computed

    @classmethod
    def of(cls, snapshot: Snapshot) -> SparkRules:
        """Read a table's rules.

        Raises:
            ValidationError: one uses what polylake cannot evaluate.
        """
        schema = snapshot.schema
        checks = checks_of(schema, snapshot.configuration)
        return cls(schema, checks, ComputedColumns(schema))

    @property
    def has_identity(self) -> bool:
        """Whether a column counts the rows that come."""
        return bool(self._computed.identities)

    def changed(self, values: Mapping[str, Column], given: Collection[str]) -> dict[str, Column]:
        """Return the columns of changed rows; generated ones are emptied, to be computed anew.

        But for those among ``given``, the columns that were set outright: what stands there has
        to be what the column generates.
        """
        anew = {name for name in self._computed.generated if name not in given}
        return {
            field.name: constant(None, field.type) if field.name in anew else values[field.name]
            for field in self._schema
        }

    def inserted(self, values: Mapping[str, Column]) -> dict[str, Column]:
        """Return the columns of new rows; defaults stand for those that are absent.

        Raises:
            UnsupportedFeature: the table has an identity column.
        """
        if self.has_identity:
            raise UnsupportedFeature(
                f"rows cannot be inserted by Spark, as {self._computed.identities[0]!r} is an "
                "identity column; write them instead",
                features=("identityColumns",),
            )
        defaults = self._computed.defaults
        return {
            field.name: values[field.name]
            if field.name in values
            else constant(defaults.get(field.name), field.type)
            for field in self._schema
        }

    def kept(self, frame: DataFrame) -> DataFrame:
        """Return rows that have all of the table's columns, as the table takes them.

        Generated columns are computed where they are null. A job fails on a row that has
        something else there, or that breaks a constraint: ``refusals.reported`` says so.

        Raises:
            SchemaError: a column does not fit.
            ValidationError: Spark cannot evaluate a rule.
        """
        rows = fit_frame(frame, self.loose)
        try:
            for name, expression in self._computed.generated.items():
                rows = self._generated(rows, name, expression)
            for check in self._checks:
                broken = ~f.expr(check.condition.text).eqNullSafe(other=True)
                shown = check.condition.columns or self._schema.names
                rows = self.refusals.checked(rows, broken, shown, partial(_breaks, check))
        except AnalysisException as error:
            raise ValidationError(
                f"Spark cannot evaluate a rule of the table: {error}", field="rules"
            ) from error
        return rows

    def _generated(self, rows: DataFrame, name: str, expression: SqlExpression) -> DataFrame:
        value = f.expr(expression.text).cast(to_spark_type(self._schema.field(name).type))
        given = column(name)
        broken = given.isNotNull() & ~given.eqNullSafe(value)
        shown = list(dict.fromkeys((name, *expression.columns)))
        checked = self.refusals.checked(
            rows, broken, shown, partial(_not_generated, name, expression.text)
        )
        return checked.withColumn(name, f.coalesce(column(name), value))


def _breaks(check: Check, row: dict[str, str]) -> ValidationError:
    values = ", ".join(f"{name} = {text}" for name, text in row.items())
    return ValidationError(
        f"{check.title} ({check.condition.text}) does not hold for a row with {values}; "
        "nothing was written",
        field=check.title,
        expression=check.condition.text,
        row=row,
    )


def _not_generated(name: str, text: str, row: dict[str, str]) -> ValidationError:
    values = ", ".join(f"{key} = {shown}" for key, shown in row.items())
    return ValidationError(
        f"column {name!r} is generated as {text}, which it is not for a row with {values}",
        field=name,
        row=row,
    )
