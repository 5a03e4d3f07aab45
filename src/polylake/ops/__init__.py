"""Operations on a table, one a module: read a snapshot, plan, let an engine work, commit."""

from polylake.ops._alter import (
    EnabledFeatures,
    enable_features,
    set_description,
    set_name,
    set_properties,
    unset_properties,
)
from polylake.ops._alter_columns import (
    add_columns,
    change_type,
    drop_column,
    rename_column,
    set_comment,
    set_nullable,
)
from polylake.ops._alter_constraints import add_constraint, drop_constraint
from polylake.ops._bins import Strategy
from polylake.ops._changes import ChangeFeed, changes, commit_changes, feed_schema
from polylake.ops._cluster import ClusterMetrics, cluster
from polylake.ops._cluster_plan import ClusterOptions, ClusterPlan, plan_cluster
from polylake.ops._compact import CompactMetrics, compact
from polylake.ops._compact_plan import CompactOptions, CompactPlan, plan_compact
from polylake.ops._convert import (
    ConvertOptions,
    ConvertPlan,
    apply_convert,
    convert,
    plan_convert,
)
from polylake.ops._create import create_table
from polylake.ops._deduplicate import (
    DeduplicateMetrics,
    DeduplicateOptions,
    DeduplicatePlan,
    deduplicate,
    plan_deduplicate,
)
from polylake.ops._delete import DeleteMetrics, delete
from polylake.ops._duplicates import Keep
from polylake.ops._evolve import merge_incoming
from polylake.ops._explain import describe_filter
from polylake.ops._guard import Guard
from polylake.ops._leases import Lease, pin, read_leases
from polylake.ops._log_upkeep import (
    CleanLogMetrics,
    CleanLogOptions,
    CleanLogPlan,
    clean_log,
    plan_clean_log,
    should_checkpoint,
    with_newest_checkpoint,
)
from polylake.ops._merge import Merge, merge, upsert
from polylake.ops._merge_options import MergeOptions
from polylake.ops._merge_run import MergeMetrics
from polylake.ops._rearrange import RowMoves
from polylake.ops._restore import RestoreResult, restore
from polylake.ops._scan_plan import ScanPlan, filter_parts, plan_scan
from polylake.ops._streaming import TableWriter
from polylake.ops._target import DEFAULT_MEMORY_BYTES, Target, layout_of
from polylake.ops._update import UpdateMetrics, update
from polylake.ops._vacuum import VacuumMetrics, plan_vacuum, vacuum
from polylake.ops._vacuum_plan import VacuumMode, VacuumOptions, VacuumPlan
from polylake.ops._vectors import read_vector, write_vectors
from polylake.ops._write import discard, write
from polylake.ops._write_options import WriteOptions, WriteResult
from polylake.ops._write_plan import fit_rows, plan_write

__all__ = [
    "DEFAULT_MEMORY_BYTES",
    "ChangeFeed",
    "CleanLogMetrics",
    "CleanLogOptions",
    "CleanLogPlan",
    "ClusterMetrics",
    "ClusterOptions",
    "ClusterPlan",
    "CompactMetrics",
    "CompactOptions",
    "CompactPlan",
    "ConvertOptions",
    "ConvertPlan",
    "DeduplicateMetrics",
    "DeduplicateOptions",
    "DeduplicatePlan",
    "DeleteMetrics",
    "EnabledFeatures",
    "Guard",
    "Keep",
    "Lease",
    "Merge",
    "MergeMetrics",
    "MergeOptions",
    "RestoreResult",
    "RowMoves",
    "ScanPlan",
    "Strategy",
    "TableWriter",
    "Target",
    "UpdateMetrics",
    "VacuumMetrics",
    "VacuumMode",
    "VacuumOptions",
    "VacuumPlan",
    "WriteOptions",
    "WriteResult",
    "add_columns",
    "add_constraint",
    "apply_convert",
    "change_type",
    "changes",
    "clean_log",
    "cluster",
    "commit_changes",
    "compact",
    "convert",
    "create_table",
    "deduplicate",
    "delete",
    "describe_filter",
    "discard",
    "drop_column",
    "drop_constraint",
    "enable_features",
    "feed_schema",
    "filter_parts",
    "fit_rows",
    "layout_of",
    "merge",
    "merge_incoming",
    "pin",
    "plan_clean_log",
    "plan_cluster",
    "plan_compact",
    "plan_convert",
    "plan_deduplicate",
    "plan_scan",
    "plan_vacuum",
    "plan_write",
    "read_leases",
    "read_vector",
    "rename_column",
    "restore",
    "set_comment",
    "set_description",
    "set_name",
    "set_nullable",
    "set_properties",
    "should_checkpoint",
    "unset_properties",
    "update",
    "upsert",
    "vacuum",
    "with_newest_checkpoint",
    "write",
    "write_vectors",
]
