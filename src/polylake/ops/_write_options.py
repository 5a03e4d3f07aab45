"""How rows are written, and what was written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import orjson

from polylake._html import ShownAsTable
from polylake.errors import ValidationError
from polylake.ops._target import layout_of
from polylake.schema import physical_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.engine import Layout, TableShape, WrittenFile
    from polylake.log import Version
    from polylake.schema import Path

WriteMode: TypeAlias = Literal["append", "overwrite", "error", "ignore"]
SchemaMode: TypeAlias = Literal["merge", "overwrite"]

_MODES = ("append", "overwrite", "error", "ignore")
_SCHEMA_MODES = (None, "merge", "overwrite")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How rows are written. What concerns files overrides the table's own properties."""

    mode: WriteMode = "append"
    """What to do if the table exists: add to it, replace its rows, raise, or do nothing."""
    replace_where: Mapping[str, Any] | None = None
    """With ``overwrite``: replace only the rows that match; all new rows must match as well."""
    dynamic_partitions: bool = False
    """With ``overwrite``: replace only the partitions that the rows belong to."""
    partition_by: tuple[str, ...] | None = None
    """The partition columns of a table to be created; an existing one must have the same."""
    schema_mode: SchemaMode | None = None
    """What to do with rows of another schema: add their columns, or take their schema."""
    txn: tuple[str, int] | None = None
    """An application's id and its version of this write: the same one is written once only."""
    user_metadata: str | Mapping[str, Any] | None = None
    """What the commit says besides, for the table's history."""
    target_bytes: int | None = None
    codec: str | None = None
    row_group_rows: int | None = None
    bloom_columns: tuple[str, ...] | None = None
    sort_by: tuple[str, ...] | None = None
    variant: Literal["refuse", "auto"] = "refuse"
    """What to do with a new column of values of several types: raise, or make it a VARIANT."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of a table to be created."""
    name: str | None = None
    """The name of a table to be created."""
    description: str | None = None
    """The description of a table to be created."""

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise _invalid("mode", self.mode, _MODES)
        for name in ("target_bytes", "row_group_rows"):
            number = getattr(self, name)
            if number is not None and (type(number) is not int or number < 1):
                raise ValidationError(f"{name} is {number!r}, not a whole number", field=name)
        if self.schema_mode not in _SCHEMA_MODES:
            raise _invalid("schema_mode", self.schema_mode, _SCHEMA_MODES)
        partly = self.replace_where is not None or self.dynamic_partitions
        if partly and self.mode != "overwrite":
            raise ValidationError(
                "replace_where and dynamic_partitions need mode='overwrite'", field="mode"
            )
        if self.replace_where is not None and self.dynamic_partitions:
            raise ValidationError(
                "replace_where and dynamic_partitions exclude each other", field="replace_where"
            )
        if self.schema_mode == "overwrite" and (self.mode != "overwrite" or partly):
            raise ValidationError(
                "schema_mode='overwrite' needs mode='overwrite' of the whole table",
                field="schema_mode",
            )

    @property
    def user_metadata_text(self) -> str | None:
        """What the commit says besides, as the log holds it."""
        if self.user_metadata is None or isinstance(self.user_metadata, str):
            return self.user_metadata
        return orjson.dumps(self.user_metadata, default=str).decode()

    def layout(self, configuration: Mapping[str, str]) -> Layout:
        """Return how files of a table with these properties are laid out.

        Raises:
            ValidationError: a property does not hold what it should.
        """
        given = {
            "target_bytes": self.target_bytes,
            "codec": self.codec,
            "row_group_rows": self.row_group_rows,
            "bloom_columns": self.bloom_columns,
            "sort_by": self.sort_by,
        }
        changes: dict[str, Any] = {n: value for n, value in given.items() if value is not None}
        return replace(layout_of(configuration), **changes)


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What is known of a column's values; ``None`` for what is not."""

    min: Any
    max: Any
    null_count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult(ShownAsTable):
    """What a write has done."""

    version: Version
    """The version it made; where nothing was to be written, the version that was there."""
    shape: TableShape = field(repr=False)
    """The table's columns after the write."""
    files: tuple[WrittenFile, ...] = field(default=(), repr=False)
    removed_files: int = 0
    applied: bool = True
    """False where nothing was written: the ``txn`` was recorded before, or the table exists."""

    @property
    def rows(self) -> int:
        """How many rows were written."""
        return sum(file.num_records for file in self.files)

    @property
    def bytes(self) -> int:
        """How many bytes the new files have."""
        return sum(file.size for file in self.files)

    @property
    def statistics(self) -> dict[str, ColumnStatistics]:
        """What is known of all rows written, by dotted column; bounds as the log writes them."""
        parsed = [orjson.loads(file.stats) for file in self.files]
        schema, mapping = self.shape.schema, self.shape.mapping
        found = {}
        for path in schema.leaves():
            combined = _combine(parsed, physical_path(schema, path, mapping))
            if combined is not None:
                found[".".join(path)] = combined
        return found

    def _shown(self) -> dict[str, object]:
        return {
            "version": self.version,
            "rows": self.rows,
            "files": len(self.files),
            "bytes": self.bytes,
            "removed_files": self.removed_files,
            "applied": self.applied,
        }


def _combine(files: list[dict[str, Any]], path: Path) -> ColumnStatistics | None:
    """Combine what files say of a column; a bound that any of them lacks is not known."""
    nulls = [_dig(stats.get("nullCount"), path) for stats in files]
    if all(count is None for count in nulls):
        return None
    bounds: dict[str, list[Any]] = {"minValues": [], "maxValues": []}
    for stats, count in zip(files, nulls, strict=True):
        if count != stats["numRecords"]:
            for kind, values in bounds.items():
                values.append(_dig(stats.get(kind), path))
    known = {kind: values for kind, values in bounds.items() if values and None not in values}
    return ColumnStatistics(
        min(known["minValues"]) if "minValues" in known else None,
        max(known["maxValues"]) if "maxValues" in known else None,
        None if None in nulls else sum(nulls),
    )


def _dig(values: Any, path: Path) -> Any:  # noqa: ANN401 - JSON
    for step in path:
        values = values.get(step) if isinstance(values, dict) else None
    return values


def _invalid(name: str, value: object, allowed: tuple[object, ...]) -> ValidationError:
    shown = ", ".join(map(repr, allowed))
    return ValidationError(f"{name} is {value!r}; it can be {shown}", field=name)
