"""The Delta transaction log: read it, commit to it, look into it, mend it.

``DeltaLog`` is what a reader or writer holds. The rest are its parts, for tools that work on logs.
"""

from polylake.log._actions import Add, AddCdc, DomainMetadata, Metadata, Protocol, Remove, Txn
from polylake.log._checkpoint_reader import CheckpointState
from polylake.log._checkpoint_writer import CheckpointReport, write_checkpoint
from polylake.log._checksum import VersionChecksum, format_checksum, parse_checksum
from polylake.log._cleanup import (
    apply_cleanup,
    cleanable_log_versions,
    cleanup_checkpoints,
    cleanup_logs,
)
from polylake.log._cleanup_plan import LogCleanupPlan, plan_checkpoint_cleanup, plan_log_cleanup
from polylake.log._columns import rows_to_adds
from polylake.log._commit import (
    CommitOutcome,
    Committed,
    LostRace,
    PendingCommit,
    Unsettled,
    publish,
    put_commit,
    settle_commit,
)
from polylake.log._commit_file import Action, CommitInfo, parse_commit, serialise_commit
from polylake.log._conflict import (
    CommitSummary,
    Conflict,
    IsolationLevel,
    ReadSet,
    find_conflict,
)
from polylake.log._deletion_vector import (
    DeletionVectorDescriptor,
    DeletionVectorFile,
    DeletionVectorStorage,
    encode_inline,
    read_deletion_vector,
    rows_from_arrow,
    rows_to_arrow,
)
from polylake.log._delta_log import DeltaLog
from polylake.log._doctor import Diagnosis, diagnose
from polylake.log._features import (
    FEATURES,
    Feature,
    check_readable,
    check_writable,
    creation_features,
    lowest_protocol,
    required_features,
    supports,
    with_features,
)
from polylake.log._findings import Finding, Severity
from polylake.log._hint import CheckpointHint
from polylake.log._history import CommitEntry, from_epoch_ms, history, version_at
from polylake.log._inspect import (
    DiscoveredCheckpoint,
    discover_checkpoints,
    read_checkpoint,
    read_last_checkpoint,
    verify_checkpoint,
)
from polylake.log._live_files import LiveFiles
from polylake.log._load import load_snapshot, refresh_snapshot
from polylake.log._log_compaction import compact_log
from polylake.log._names import (
    Version,
    commit_key,
    decode_path,
    encode_absolute,
    encode_path,
    format_version,
    parse_version,
)
from polylake.log._new_table import (
    MAX_COLUMN_ID,
    TableOptions,
    creation_parameters,
    new_table,
    with_schema,
    without_mapping,
)
from polylake.log._repair import RepairReport, apply_repair
from polylake.log._repair_plan import RepairPlan, plan_repair
from polylake.log._segment import CheckpointFiles, CheckpointKind, LogListing, list_log
from polylake.log._settings import CommitSettings
from polylake.log._snapshot import Snapshot, Totals, table_exists
from polylake.log._stats import format_stats, indexed_schema, num_records, parse_stats, stats_type
from polylake.log._tail import LogTail, TailCommit, gone
from polylake.log._transaction import CommitResult, Transaction
from polylake.log._watch import Watch

__all__ = [
    "FEATURES",
    "MAX_COLUMN_ID",
    "Action",
    "Add",
    "AddCdc",
    "CheckpointFiles",
    "CheckpointHint",
    "CheckpointKind",
    "CheckpointReport",
    "CheckpointState",
    "CommitEntry",
    "CommitInfo",
    "CommitOutcome",
    "CommitResult",
    "CommitSettings",
    "CommitSummary",
    "Committed",
    "Conflict",
    "DeletionVectorDescriptor",
    "DeletionVectorFile",
    "DeletionVectorStorage",
    "DeltaLog",
    "Diagnosis",
    "DiscoveredCheckpoint",
    "DomainMetadata",
    "Feature",
    "Finding",
    "IsolationLevel",
    "LiveFiles",
    "LogCleanupPlan",
    "LogListing",
    "LogTail",
    "LostRace",
    "Metadata",
    "PendingCommit",
    "Protocol",
    "ReadSet",
    "Remove",
    "RepairPlan",
    "RepairReport",
    "Severity",
    "Snapshot",
    "TableOptions",
    "TailCommit",
    "Totals",
    "Transaction",
    "Txn",
    "Unsettled",
    "Version",
    "VersionChecksum",
    "Watch",
    "apply_cleanup",
    "apply_repair",
    "check_readable",
    "check_writable",
    "cleanable_log_versions",
    "cleanup_checkpoints",
    "cleanup_logs",
    "commit_key",
    "compact_log",
    "creation_features",
    "creation_parameters",
    "decode_path",
    "diagnose",
    "discover_checkpoints",
    "encode_absolute",
    "encode_inline",
    "encode_path",
    "find_conflict",
    "format_checksum",
    "format_stats",
    "format_version",
    "from_epoch_ms",
    "gone",
    "history",
    "indexed_schema",
    "list_log",
    "load_snapshot",
    "lowest_protocol",
    "new_table",
    "num_records",
    "parse_checksum",
    "parse_commit",
    "parse_stats",
    "parse_version",
    "plan_checkpoint_cleanup",
    "plan_log_cleanup",
    "plan_repair",
    "publish",
    "put_commit",
    "read_checkpoint",
    "read_deletion_vector",
    "read_last_checkpoint",
    "refresh_snapshot",
    "required_features",
    "rows_from_arrow",
    "rows_to_adds",
    "rows_to_arrow",
    "serialise_commit",
    "settle_commit",
    "stats_type",
    "supports",
    "table_exists",
    "verify_checkpoint",
    "version_at",
    "with_features",
    "with_schema",
    "without_mapping",
    "write_checkpoint",
]
