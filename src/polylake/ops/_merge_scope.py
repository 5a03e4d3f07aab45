"""What a merge reads, and what it has done, whichever engine works on the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polylake.errors import SchemaError, ValidationError
from polylake.ops._edit import refuse_row_tracking
from polylake.ops._merge_clauses import Action, When
from polylake.ops._scan_plan import plan_scan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from polylake.log import Add
    from polylake.ops._edit import Edit
    from polylake.ops._merge_clauses import Clause
    from polylake.query import Filter
    from polylake.schema import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeScope:
    """The files that a merge reads."""

    candidates: tuple[Add, ...]
    """Those that may hold a key of the source."""
    files: tuple[Add, ...]
    """Those that rows may go from."""
    key_filter: Filter
    """Matched by every row that has a key of the source."""
    reads_all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCounts:
    """What a merge did to rows."""

    source_rows: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    scan_ms: int = 0


def plan_merge(edit: Edit, key_filter: Filter, clauses: Sequence[Clause]) -> MergeScope:
    """Choose the files that clauses are about, and declare that they were read.

    Raises:
        UnsupportedFeature: rows would have to move in a table with row tracking.
    """
    if any(clause.action is Action.UPDATE for clause in clauses):
        refuse_row_tracking(edit.snapshot)
    plan = plan_scan(edit.snapshot, key_filter)
    files = plan.files
    reads_all = any(clause.when is When.BY_SOURCE for clause in clauses)
    if reads_all:
        edit.depends_on_all()
        files = plan_scan(edit.snapshot).files
    else:
        edit.depends_on(plan.files, plan.filter)
    return MergeScope(
        candidates=plan.files, files=files, key_filter=plan.filter, reads_all=reads_all
    )


def check_upsert(
    repeated_key: Mapping[str, Any] | None, source: StructType, schema: StructType
) -> None:
    """Refuse rows that a merge can make sense of, but that an upsert would lose something of.

    Raises:
        ValidationError: a key occurs more than once.
        SchemaError: the table does not have a column of the source.
    """
    if repeated_key is not None:
        key = dict(repeated_key)
        raise ValidationError(f"the rows hold the key {key} more than once", field="on", key=key)
    unknown = [column.name for column in source if schema.find(column.name) is None]
    if unknown:
        raise SchemaError(
            f"the table has no column {unknown[0]!r}; it has {', '.join(schema.names)}. Add it "
            "with alter.add_columns first, or leave it out.",
            field=unknown[0],
        )


def several_change(key: Mapping[str, Any]) -> ValidationError:
    """Return the error for a row that more than one row of the source would change."""
    return ValidationError(
        f"several rows of the source would change the row with the key {dict(key)}",
        field="on",
        key=dict(key),
    )
