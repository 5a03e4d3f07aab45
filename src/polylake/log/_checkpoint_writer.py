"""Writing checkpoints: classic, multi-part and V2 with sidecars.

Live files pass through in slices, so what is held at once does not grow with the table. What was
written is read back and compared with the snapshot before ``_last_checkpoint`` points to it.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from polylake._html import ShownAsTable
from polylake.errors import CorruptCheckpoint, FileNotFound, ValidationError
from polylake.log._checkpoint_contents import CheckpointContents, difference, take_contents
from polylake.log._checkpoint_layout import (
    PART_ROWS,
    CheckpointOutput,
    WrittenCheckpoint,
    sidecar_action,
    write_classic,
    write_parts,
    write_v2,
)
from polylake.log._checkpoint_reader import CheckpointState, load_checkpoint
from polylake.log._features import check_writable, supports
from polylake.log._hint import CheckpointHint, V2CheckpointHint, format_hint
from polylake.log._load import read_hint
from polylake.log._names import HINT_KEY, Version, classic_checkpoint_key
from polylake.log._segment import CheckpointFiles, CheckpointKind
from polylake.log._settings import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from polylake.log._snapshot import Snapshot
    from polylake.storage import Storage

_EMBEDDED_ACTIONS = 30
"""How many actions or sidecars the hint repeats at most; Spark stops there as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointReport(ShownAsTable):
    """What a checkpoint consists of.

    Attributes:
        files: the keys of its files, sidecars included.
        num_actions: how many actions it holds, over all files.
        reused: whether it was there already, whole and right, so that nothing was written.
    """

    version: Version
    kind: CheckpointKind
    files: tuple[str, ...]
    num_actions: int
    num_adds: int
    num_removes: int
    size_bytes: int
    reused: bool


def write_checkpoint(
    storage: Storage,
    snapshot: Snapshot,
    *,
    kind: CheckpointKind | None = None,
    part_rows: int = PART_ROWS,
    clock_ms: Callable[[], int] = now_ms,
) -> CheckpointReport:
    """Write a checkpoint of the snapshot's version, check it, and let the hint point to it.

    Expired tombstones and transaction ids are left out. A classic checkpoint that is there
    already and right stays as it is. The hint never moves to an older version.

    Args:
        storage: the table's store.
        snapshot: the version to write; it came from the log, so it is committed.
        kind: how the checkpoint is laid out; by default what ``delta.checkpointPolicy`` asks for.
        part_rows: how many file actions a part or a sidecar holds.
        clock_ms: what decides which tombstones have expired.

    Raises:
        ValidationError: the table cannot have a checkpoint of this kind, ``part_rows`` is not
            positive, or a property of the table makes no sense.
        UnsupportedFeature: the table needs a writer polylake is not.
        SchemaError: a partition value is not of its column's type.
        CorruptCheckpoint: what was read back is not what was written; it was deleted again.
    """
    chosen = _choose_kind(snapshot, kind)
    if part_rows < 1:
        raise ValidationError(f"part_rows is {part_rows}, not positive", field="part_rows")
    contents = take_contents(snapshot, now_ms=clock_ms())
    existing = _existing(storage, contents) if chosen is CheckpointKind.CLASSIC else None
    written, state = existing or _write(storage, contents, chosen, part_rows)
    report = CheckpointReport(
        version=snapshot.version,
        kind=chosen,
        files=tuple(info.key for info in written.infos),
        num_actions=_num_actions(state),
        num_adds=_num_adds(state),
        num_removes=_num_removes(state),
        size_bytes=sum(info.size for info in written.infos),
        reused=existing is not None,
    )
    _move_hint(storage, contents, written, report)
    return report


def _choose_kind(snapshot: Snapshot, kind: CheckpointKind | None) -> CheckpointKind:
    # An action that a newer writer feature brought along would be lost.
    check_writable(snapshot.protocol, snapshot.table)
    has_v2 = supports(snapshot.protocol, "v2Checkpoint")
    if kind is None:
        policy = snapshot.configuration.get("delta.checkpointPolicy", "classic").lower()
        return CheckpointKind.V2 if has_v2 and policy == "v2" else CheckpointKind.CLASSIC
    if kind is CheckpointKind.V2 and not has_v2:
        raise ValidationError(
            f"{snapshot.table} does not have the v2Checkpoint feature. Set its property "
            "delta.checkpointPolicy to v2 to add it; clients that do not know the feature can "
            "then no longer read the table.",
            field="kind",
            table=snapshot.table,
        )
    if kind is CheckpointKind.MULTI_PART and has_v2:
        raise ValidationError(
            f"{snapshot.table} has the v2Checkpoint feature, with which the protocol forbids "
            "multi-part checkpoints; use a V2 or a classic one",
            field="kind",
            table=snapshot.table,
        )
    return kind


def _existing(
    storage: Storage, contents: CheckpointContents
) -> tuple[WrittenCheckpoint, CheckpointState] | None:
    try:
        info = storage.head(classic_checkpoint_key(contents.version))
        found = CheckpointFiles(contents.version, CheckpointKind.CLASSIC, (info,))
        state = load_checkpoint(storage, found)
        wrong = difference(state, contents)
    except (FileNotFound, CorruptCheckpoint):
        return None
    return None if wrong else (WrittenCheckpoint(found), state)


def _write(
    storage: Storage, contents: CheckpointContents, kind: CheckpointKind, part_rows: int
) -> tuple[WrittenCheckpoint, CheckpointState]:
    with ExitStack() as undo:
        files = CheckpointOutput(storage, undo)
        match kind:
            case CheckpointKind.CLASSIC:
                written = write_classic(files, contents)
            case CheckpointKind.MULTI_PART:
                written = write_parts(files, contents, part_rows)
            case CheckpointKind.V2:
                written = write_v2(files, contents, part_rows)
        state = load_checkpoint(storage, written.checkpoint)
        wrong = difference(state, contents)
        if wrong:
            key = written.checkpoint.files[0].key
            raise CorruptCheckpoint(
                f"{key} was written and does not read back: {wrong}. It was deleted again.",
                path=key,
                reason=wrong,
            )
        undo.pop_all()
    return written, state


def _move_hint(
    storage: Storage,
    contents: CheckpointContents,
    written: WrittenCheckpoint,
    report: CheckpointReport,
) -> None:
    current = read_hint(storage)
    if current is not None and current.version > report.version:
        return
    is_in_parts = report.kind is CheckpointKind.MULTI_PART
    hint = CheckpointHint(
        version=report.version,
        size=report.num_actions,
        parts=len(report.files) if is_in_parts else None,
        size_in_bytes=report.size_bytes,
        num_of_add_files=report.num_adds,
        v2_checkpoint=_v2_hint(contents, written),
    )
    storage.put(HINT_KEY, format_hint(hint))


def _v2_hint(contents: CheckpointContents, written: WrittenCheckpoint) -> V2CheckpointHint | None:
    if written.checkpoint.kind is not CheckpointKind.V2:
        return None
    (top,) = written.checkpoint.files
    # The hint's checksum knows the values of JSON only, so tuples have to become lists.
    actions = orjson.loads(orjson.dumps([{kind: body} for kind, body in contents.values()]))
    sidecars = [sidecar_action(info) for info in written.sidecars]
    return V2CheckpointHint(
        path=top.key.rsplit("/", 1)[-1],
        size_in_bytes=top.size,
        modified_ms=top.modified_ms,
        non_file_actions=actions if len(actions) <= _EMBEDDED_ACTIONS else None,
        sidecar_files=sidecars if len(sidecars) <= _EMBEDDED_ACTIONS else None,
    )


def _num_adds(state: CheckpointState) -> int:
    return sum(source.num_adds for source in state.sources)


def _num_removes(state: CheckpointState) -> int:
    return sum(int(source.removes().num_rows) for source in state.sources)


def _num_actions(state: CheckpointState) -> int:
    protocol_and_metadata = 2
    values = protocol_and_metadata + len(state.txns) + len(state.domains)
    return values + _num_adds(state) + _num_removes(state)
