"""Apply changes to a table: one commit a call.

What a table is after a call, by mode:

``merge``        the rows that are there: creates, reads and updates upsert by key, deletes delete.
``soft-delete``  the same, but a deleted row stays, with ``_deleted`` and ``_deleted_at``.
``history``      every version of every row (SCD type 2), with ``valid_from``, ``valid_to``,
                 ``is_current``, and the sequence numbers that began and ended it.

Changes that come twice, or late:

- Within a call their order does not matter: ``_seq`` orders them, and repeated ones count once.
- With ``txn``, a call that was committed before is not made again. So calls that are made in
  order, and again after a failure, do what the changes do, once.
- With ``seq_column`` the table keeps each row's last sequence number, and a change applies only
  if its own is greater: changes of any earlier call are harmless. In mode ``merge`` that does not
  hold for rows that were deleted, as nothing is left of them to compare with: a late create or
  update brings the row back. In mode ``soft-delete`` it holds for them too. Of changes with one
  number, a delete comes before the others, as in ``collapse``.
- Without either, a change that comes again after a later one undoes that one.
- In mode ``history`` the column is always kept. A change that comes again is left out, and a late
  one splits the version it falls into. Only a delete of what has no version leaves no trace, so
  that an earlier change that comes after it begins a version without an end.

The sequence numbers of one key come from one source: those of several cannot be compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from time import perf_counter
from typing import TYPE_CHECKING, Literal, assert_never

import orjson

from polylake._html import ShownAsTable
from polylake.cdc._apply_history import history_columns, history_rows
from polylake.cdc._apply_rows import SOFT_COLUMNS, current_rows, soft_rows
from polylake.cdc._apply_states import open_records
from polylake.errors import ConcurrencyError, TableExists, TableNotFound, ValidationError
from polylake.ops import MergeOptions, WriteOptions, merge, write
from polylake.schema import StructType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from polylake.cdc._apply_rows import TableChange
    from polylake.cdc._apply_states import StateRecords
    from polylake.cdc._record import CDCRecord
    from polylake.log import Snapshot
    from polylake.ops import Target
    from polylake.table import DeltaTable

SEQ_COLUMN = "_seq"
"""Where a history keeps sequence numbers, unless told otherwise."""

_NOTE = "cdc"
"""Under which name a commit's ``userMetadata`` says what its changes are."""


class ApplyMode(StrEnum):
    """What becomes of the state that a change ends."""

    MERGE = "merge"
    SOFT_DELETE = "soft-delete"
    HISTORY = "history"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyMetrics(ShownAsTable):
    """What a call did."""

    version: int | None = None
    """The version it made; ``None`` where nothing was committed."""
    applied: bool = True
    """False where the ``txn`` had been recorded before, so that nothing was done again."""
    records: int = 0
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    duration_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """How changes are applied; ``apply`` says what the fields mean."""

    key: tuple[str, ...]
    mode: ApplyMode
    txn: tuple[str, int] | None
    seq_column: str | None
    schema_mode: str | None
    origin: str | None
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]

    def __post_init__(self) -> None:
        if not self.key or len(set(self.key)) < len(self.key):
            raise ValidationError(
                f"the key is one or more columns, not {list(self.key)}", field="key"
            )
        if self.schema_mode not in (None, "merge"):
            raise ValidationError(
                f"schema_mode is {self.schema_mode!r}; it can be 'merge' or None",
                field="schema_mode",
            )

    @property
    def own_columns(self) -> frozenset[str]:
        """The columns that the table has for the mode."""
        names = set() if self.seq_column is None else {self.seq_column}
        if self.mode is ApplyMode.SOFT_DELETE:
            names |= {field.name for field in SOFT_COLUMNS}
        if self.mode is ApplyMode.HISTORY:
            names |= {field.name for field in history_columns(self.seq_column or SEQ_COLUMN)}
        return frozenset(names)

    def plan(self, target: Target, base: Snapshot | None, opened: StateRecords) -> TableChange:
        """Return what the records make of a table."""
        match self.mode:
            case ApplyMode.MERGE:
                return current_rows(opened, self.key, self.seq_column)
            case ApplyMode.SOFT_DELETE:
                return soft_rows(opened, self.key, self.seq_column)
            case ApplyMode.HISTORY:
                return history_rows(target, base, opened, self.key, self.seq_column or SEQ_COLUMN)
            case _:
                assert_never(self.mode)


def apply(  # noqa: PLR0913 - what to apply, and how
    table: DeltaTable,
    records: Iterable[CDCRecord] | pa.Table,
    *,
    key: str | Sequence[str],
    mode: ApplyMode | str = ApplyMode.MERGE,
    txn: tuple[str, int] | None = None,
    seq_column: str | None = None,
    schema_mode: Literal["merge"] | None = None,
    origin: str | None = None,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
) -> ApplyMetrics:
    """Apply changes to a table, as one commit; a table that does not exist begins with it.

    A state is whole: a column that it does not name becomes null, but for those that typed
    states (a table of records whose states are structs) do not have at all, which stay as they
    are. All records are held in memory.

    Args:
        table: the table.
        records: the changes, in any order.
        key: the columns that tell rows apart. A delete that does not say what was there has its
            key from its ``id``.
        mode: what becomes of deleted and replaced states.
        txn: an application's id and its number of this call, which rises: a call is made once.
        seq_column: where the table keeps the sequence number of each row's last change.
        schema_mode: ``merge`` adds the columns that the states have and the table does not, in
            the same commit; without it they are refused. What the mode needs is always added.
        origin: the system the changes were made in first, which the commit names for ``follow``;
            what the records say unless given.
        partition_by: the partition columns of a table to be created.
        properties: the properties of a table to be created.

    Raises:
        CDCError: a record is not one, lacks its key, changes it, or has a column that is kept
            for the mode.
        SchemaError: a state does not fit the table.
        ValidationError: an option is not acceptable, or a row breaks a constraint.
        ConcurrencyError: another writer changed what was read, or created the table; make the
            call again.
        StorageError: the store refused. With ``txn``, making the call again is harmless.
    """
    started = perf_counter()
    options = _Options(
        key=(key,) if isinstance(key, str) else tuple(key),
        mode=_mode(mode),
        txn=txn,
        seq_column=seq_column,
        schema_mode=schema_mode,
        origin=origin,
        partition_by=tuple(partition_by),
        properties=properties or {},
    )
    # The records are here, and so they are merged here, whatever engine the table has.
    target = replace(table.target, engine=table.target.reader)
    snapshot = _current(target)
    if snapshot is not None and _is_recorded(snapshot, txn):
        return ApplyMetrics(applied=False, duration_ms=_since(started))
    opened = open_records(
        records,
        None if snapshot is None else snapshot.schema,
        options.key,
        evolve=schema_mode is not None,
        own=options.own_columns,
    )
    if snapshot is None:
        return _create(target, opened, options, started)
    return _merge(target, snapshot, opened, options, started)


def origins_of(note: str | None) -> tuple[str, ...]:
    """Return the systems that a commit's ``userMetadata`` names as the origin of its changes."""
    try:
        said = orjson.loads(note or "null")
    except orjson.JSONDecodeError:
        return ()
    facts = said.get(_NOTE) if isinstance(said, dict) else None
    origins = facts.get("origins") if isinstance(facts, dict) else None
    return tuple(map(str, origins)) if isinstance(origins, list) else ()


def _create(
    target: Target, opened: StateRecords, options: _Options, started: float
) -> ApplyMetrics:
    change = options.plan(target, None, opened)
    how = WriteOptions(
        mode="error",
        partition_by=options.partition_by,
        properties=options.properties,
        txn=options.txn,
        user_metadata=_note(opened, options),
    )
    try:
        written = write(target, change.first_rows, how)
    except TableExists as error:
        raise ConcurrencyError(
            f"{target.storage.url}: another writer has created the table meanwhile",
            expected_version=0,
            actual_version=0,
        ) from error
    return ApplyMetrics(
        version=written.version,
        records=opened.table.num_rows,
        rows_inserted=written.rows,
        duration_ms=_since(started),
    )


def _merge(
    target: Target, snapshot: Snapshot, opened: StateRecords, options: _Options, started: float
) -> ApplyMetrics:
    change = options.plan(target, snapshot, opened)
    new = StructType((*(opened.states if options.schema_mode else ()), *change.own))
    merged = change.clauses(merge(target, change.source, on=change.on)).execute(
        options=MergeOptions(
            txn=options.txn,
            user_metadata=_note(opened, options),
            new_columns=new if new.fields else None,
            base_version=change.base_version,
        )
    )
    return ApplyMetrics(
        version=merged.version,
        applied=merged.applied,
        records=opened.table.num_rows,
        rows_inserted=merged.rows_inserted,
        rows_updated=merged.rows_updated,
        rows_deleted=merged.rows_deleted,
        duration_ms=_since(started),
    )


def _note(opened: StateRecords, options: _Options) -> str | None:
    origins = opened.origins() if options.origin is None else [options.origin]
    return orjson.dumps({_NOTE: {"origins": origins}}).decode() if origins else None


def _mode(mode: str) -> ApplyMode:
    try:
        return ApplyMode(mode)
    except ValueError as error:
        allowed = ", ".join(ApplyMode)
        raise ValidationError(f"mode is {mode!r}; it can be {allowed}", field="mode") from error


def _current(target: Target) -> Snapshot | None:
    try:
        return target.fresh()
    except TableNotFound:
        return None


def _is_recorded(snapshot: Snapshot, txn: tuple[str, int] | None) -> bool:
    return txn is not None and txn[0] in snapshot.txns and snapshot.txns[txn[0]].version >= txn[1]


def _since(started: float) -> int:
    return round((perf_counter() - started) * 1000)
