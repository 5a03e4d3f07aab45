"""Delete the rows that match a filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polylake._html import ShownAsTable
from polylake.log import num_records
from polylake.ops._edit import Edit, predicate_text
from polylake.ops._local_rows import rows_of
from polylake.ops._scan_plan import plan_scan
from polylake.query import Not

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.log import Add
    from polylake.ops._scan_plan import ScanPlan
    from polylake.ops._target import Target
    from polylake.query import Filter


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteMetrics(ShownAsTable):
    """What a delete did."""

    version: int | None = None
    """The version it made; ``None`` where no row matched, so that nothing was committed."""
    rows_deleted: int = 0
    rows_copied: int = 0
    """Rows that stay, written again because their file was."""
    files_added: int = 0
    files_removed: int = 0
    vectors_added: int = 0
    """Files that stay, with a new deletion vector; also counted as removed and added."""
    duration_ms: int = 0


def delete(target: Target, where: Mapping[str, object] | Filter | None = None) -> DeleteMetrics:
    """Delete the rows that match a filter; all rows where there is none.

    Files that the log proves to match as a whole are not read. Of the others, only the columns
    of the filter are read to find the rows. Where the table has deletion vectors enabled
    (``delta.enableDeletionVectors``) the rows are marked there, otherwise the files that hold
    them are written again without them.

    Where the table is opened on Spark, the cluster finds the rows and writes files again.

    Memory: the positions of the matching rows, as bitmaps, and what the engine takes to read and
    to write a stream of rows.

    Raises:
        ValidationError: the filter is not one, or the table is append-only.
        ConcurrencyError: another writer changed what was read; run the delete again.
        UnsupportedFeature: rows would have to move in a table with row tracking.
    """
    edit = Edit(target, "DELETE", {"predicate": predicate_text(where)})
    plan = plan_scan(edit.snapshot, where)
    edit.depends_on(plan.files, plan.filter)
    whole, mixed = _split(plan)
    edit.remove_files(whole)
    rows = rows_of(edit)
    counted = all(num_records(file.stats) is not None for file in mixed)
    if edit.has_feed and not (edit.with_vectors and counted):
        rows.take_out(mixed, plan.filter)
        if rows.has_changes:
            # PROTOCOL.md, "Add CDC File": with one such file, all changes are read from those.
            rows.record_files(whole)
    else:
        # Readers of the feed tell deleted rows by comparing deletion vectors.
        rows.locate(mixed, plan.filter)
    deleted = rows.count_rows(whole) + len(edit.removed)
    if edit.removed:
        rows.remove(mixed)
    version = edit.commit({"numDeletedRows": deleted})
    counts = edit.counts
    return DeleteMetrics(
        version=version,
        rows_deleted=deleted,
        rows_copied=counts.rows_copied,
        files_added=counts.files_added,
        files_removed=counts.files_removed,
        vectors_added=counts.vectors_added,
        duration_ms=edit.elapsed_ms,
    )


def _split(plan: ScanPlan) -> tuple[list[Add], list[Add]]:
    """Return the files that match as a whole, and those that may hold other rows too."""
    others = {file.path for file in plan_scan(plan.snapshot, Not(plan.filter)).files}
    whole = [file for file in plan.files if file.path not in others]
    return whole, [file for file in plan.files if file.path in others]
