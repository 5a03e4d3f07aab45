"""What a table asks of rows that are changed or inserted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from polylake.engine._rows import to_batches
from polylake.errors import UnsupportedFeature
from polylake.ops._computed import (
    DEFAULT_KEY,
    GENERATION_KEY,
    IDENTITY_START,
    ComputedColumns,
)
from polylake.ops._constraints import check_batches, checks_of
from polylake.ops._frames import fit_rows, from_batches
from polylake.schema import StructType

if TYPE_CHECKING:
    from collections.abc import Collection

    from polylake.log import Snapshot
    from polylake.schema import StructField


class RowRules:
    """Fills in the columns that a table computes, and checks rows against its constraints."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Read a table's rules.

        Raises:
            ValidationError: one uses what polylake cannot evaluate.
        """
        schema = snapshot.schema
        self._table = snapshot.table
        self._schema = schema
        self._checks = checks_of(schema, snapshot.configuration)
        self._generated = [field.name for field in schema if GENERATION_KEY in field.metadata]
        self._identities = [field.name for field in schema if IDENTITY_START in field.metadata]
        self._defaults = [field.name for field in schema if DEFAULT_KEY in field.metadata]
        # Rows that are there have their identity, and a default is for rows that come new.
        kept = {IDENTITY_START, DEFAULT_KEY}
        self._changing = ComputedColumns(StructType(tuple(_without(f, kept) for f in schema)))
        self._inserting = ComputedColumns(schema)

    def updated(self, rows: pl.DataFrame, given: Collection[str]) -> pl.DataFrame:
        """Return changed rows as the table takes them.

        Generated columns are computed again, but for those among ``given``, the columns that
        were set outright: what stands there has to be what the column generates.

        Raises:
            SchemaError: a value does not fit its column.
            ValidationError: a row breaks a constraint.
        """
        if not self._checks and not self._generated:
            return fit_rows(rows, self._schema)
        anew = [name for name in self._generated if name not in given]
        rows = rows.with_columns(pl.lit(None).alias(name) for name in anew)
        return self._checked(rows, self._changing)

    def inserted(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return new rows as the table takes them; columns that are absent are filled in.

        Raises:
            SchemaError: a value does not fit its column.
            ValidationError: a row breaks a constraint.
            UnsupportedFeature: the table has an identity column.
        """
        if self._identities:
            raise UnsupportedFeature(
                f"{self._table}: rows cannot be inserted by a merge, as {self._identities[0]!r} is "
                "an identity column; write them instead",
                features=("identityColumns",),
            )
        absent = [
            field
            for field in self._schema
            if field.name not in rows.columns and field.name not in self._defaults
        ]
        rows = rows.with_columns(pl.lit(None).alias(field.name) for field in absent)
        if not self._checks and not self._inserting:
            return fit_rows(rows, self._schema)
        return self._checked(rows, self._inserting)

    def _checked(self, rows: pl.DataFrame, computed: ComputedColumns) -> pl.DataFrame:
        named = [field for field in computed.input_schema if field.name in rows.columns]
        filled = computed.fill(to_batches(rows, StructType(tuple(named))).batches)
        return from_batches(check_batches(self._schema, self._checks, filled), self._schema)


def _without(field: StructField, keys: Collection[str]) -> StructField:
    metadata = {key: value for key, value in field.metadata.items() if key not in keys}
    return replace(field, metadata=metadata)
