"""Update the rows that match a filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polylake._html import ShownAsTable
from polylake.engine import FILE_COLUMN, ROW_COLUMN, FrameKind
from polylake.ops._change_files import ChangeType
from polylake.ops._edit import Edit, predicate_text, refuse_row_tracking
from polylake.ops._local_rows import LocalRows
from polylake.ops._row_change import compile_update
from polylake.ops._row_rules import RowRules
from polylake.ops._scan_plan import plan_scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import polars as pl

    from polylake.ops._row_change import RowChange, RowUpdate
    from polylake.ops._scan_plan import ScanPlan
    from polylake.ops._target import Target
    from polylake.query import Filter


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetrics(ShownAsTable):
    """What an update did."""

    version: int | None = None
    """The version it made; ``None`` where no row matched, so that nothing was committed."""
    rows_updated: int = 0
    rows_copied: int = 0
    """Rows that stay as they are, written again because their file was."""
    files_added: int = 0
    files_removed: int = 0
    vectors_added: int = 0
    """Files that stay, with a new deletion vector; also counted as removed and added."""
    duration_ms: int = 0


def update(
    target: Target, where: Mapping[str, object] | Filter | None, change: RowUpdate
) -> UpdateMetrics:
    """Change the rows that match a filter; all rows where there is none.

    A function is called with some of the matching rows at a time, a Polars frame, and returns as
    many; where the table is opened on Spark, with all of them, a Spark frame. Changes that the
    cluster cannot make, such as those to arrays, this machine makes to the matching rows. A row
    whose partition column changes moves to the other partition. Where the table has deletion
    vectors enabled, the old rows are marked there and the new ones written to new files;
    otherwise the files that held them are written again.

    Memory: the positions of the matching rows, as bitmaps, an eighth of ``target.memory_bytes``
    for the change data feed, and what the engine takes to read and to write a stream of rows.

    Raises:
        ValidationError: the filter or the update is not one, a row breaks a constraint, or the
            table is append-only.
        SchemaError: a value does not fit its column.
        ConcurrencyError: another writer changed what was read; run the update again.
        UnsupportedFeature: the table has row tracking.
    """
    edit = Edit(target, "UPDATE", {"predicate": predicate_text(where)})
    refuse_row_tracking(edit.snapshot)
    prepared = compile_update(change, edit.snapshot.schema)
    plan = plan_scan(edit.snapshot, where)
    edit.depends_on(plan.files, plan.filter)
    if not _by_cluster(edit, plan, prepared):
        _by_this_machine(edit, plan, prepared)
    updated = len(edit.removed)
    version = edit.commit({"numUpdatedRows": updated})
    counts = edit.counts
    return UpdateMetrics(
        version=version,
        rows_updated=updated,
        rows_copied=counts.rows_copied,
        files_added=counts.files_added,
        files_removed=counts.files_removed,
        vectors_added=counts.vectors_added,
        duration_ms=edit.elapsed_ms,
    )


def _by_cluster(edit: Edit, plan: ScanPlan, change: RowChange) -> bool:
    """Let Spark make the change, if the table is opened on it and it can."""
    if edit.target.engine.frames is not FrameKind.SPARK:
        return False
    from polylake.ops.spark import update_rows  # noqa: PLC0415 - an extra

    return update_rows(edit, plan, change)


def _by_this_machine(edit: Edit, plan: ScanPlan, change: RowChange) -> None:
    rules = RowRules(edit.snapshot)
    rows = LocalRows(edit)

    def changed_rows() -> Iterator[pl.DataFrame]:
        for part in rows.matching(plan.files, plan.filter):
            edit.removed.take(part)
            before = part.drop(FILE_COLUMN, ROW_COLUMN)
            after = rules.updated(change.apply(before), change.given)
            rows.record(before, ChangeType.BEFORE)
            rows.record(after, ChangeType.AFTER)
            yield after

    rows.write(changed_rows(), plan.files)
