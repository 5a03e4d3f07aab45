"""Rows that a filter matches make way for others, file by file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from polylake.engine import FrameKind
from polylake.log import encode_inline, num_records, supports
from polylake.ops._change_files import ChangeType, to_cdc
from polylake.ops._edit import refuse_row_tracking
from polylake.ops._frames import arrow_batches, pieces
from polylake.ops._local_rows import ChangeFiles
from polylake.ops._overwrite import Removal
from polylake.ops._scan_plan import plan_scan
from polylake.ops._vectors import read_vector, write_vectors

if TYPE_CHECKING:
    from pyroaring import BitMap64

    from polylake.engine import WrittenFile
    from polylake.log import Add, AddCdc, Snapshot
    from polylake.ops._target import Target
    from polylake.ops._write_plan import WritePlan
    from polylake.query import Filter

_PIECE_ROWS = 50_000


def matching_rows(
    target: Target, plan: WritePlan, snapshot: Snapshot, where: Filter, written: list[WrittenFile]
) -> Removal:
    """Take away the rows that match, by deletion vectors or by writing files again.

    Raises:
        UnsupportedFeature: rows would have to move in a table with row tracking.
        StorageError: the store refused.
    """
    files = {add.file_path: add for add in plan_scan(snapshot, where).files}
    located = target.engine.locate(target.storage, plan.shape, tuple(files.values()), where)
    hit = {path: rows for path, rows in located.items() if rows}
    with_vectors = supports(snapshot.protocol, "deletionVectors") and snapshot.is_set(
        "delta.enableDeletionVectors"
    )
    marked: list[tuple[Add, BitMap64]] = []
    copied: list[Add] = []
    for path, rows in hit.items():
        deleted = read_vector(target.storage, files[path]) | rows
        count = num_records(files[path].stats)
        if count == len(deleted):
            continue
        if with_vectors and count is not None:
            marked.append((files[path], deleted))
        else:
            copied.append(replace(files[path], deletion_vector=encode_inline(deleted)))
    feed = snapshot.is_set("delta.enableChangeDataFeed") and bool(copied)
    return Removal(
        files=tuple(files[path] for path in hit),
        whole_table=True,
        adds=(
            *write_vectors(target.storage, marked),
            *_copy(target, plan, snapshot, copied),
        ),
        cdc=_changes(target, plan, [files[path] for path in hit], where, written) if feed else (),
    )


def _copy(target: Target, plan: WritePlan, snapshot: Snapshot, files: list[Add]) -> tuple[Add, ...]:
    """Write the rows that stay to new files."""
    if not files:
        return ()
    refuse_row_tracking(snapshot)
    if target.engine.frames is FrameKind.SPARK:
        from polylake.ops.spark import copy_rows  # noqa: PLC0415 - an extra

        kept = copy_rows(target, plan, files)
    else:
        frame = target.engine.read(target.storage, plan.shape, files)
        batches = arrow_batches(pieces(frame, rows=_PIECE_ROWS))
        kept = target.engine.write(target.storage, plan.shape, batches, plan.layout)
    now = target.log.settings.clock_ms()
    return tuple(file.to_add(modification_time=now) for file in kept)


def _changes(
    target: Target, plan: WritePlan, files: list[Add], where: Filter, written: list[WrittenFile]
) -> tuple[AddCdc, ...]:
    """Write what went and what came for the change data feed, which else would show copies."""
    added = [file.to_add(modification_time=0) for file in written]
    if target.engine.frames is FrameKind.SPARK:
        from polylake.ops.spark import record_replaced  # noqa: PLC0415 - an extra

        return tuple(map(to_cdc, record_replaced(target, plan, files, where, added)))
    feed = ChangeFiles(target, plan.shape, plan.layout)
    old = target.engine.read(target.storage, plan.shape, files, filter=where)
    for part in pieces(old, rows=_PIECE_ROWS):
        feed.add(part, ChangeType.DELETE)
    new = target.engine.read(target.storage, plan.shape, added)
    for part in pieces(new, rows=_PIECE_ROWS):
        feed.add(part, ChangeType.INSERT)
    return tuple(map(to_cdc, feed.finish()))
