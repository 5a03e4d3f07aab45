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
from polylake.ops._changes import ChangeFeed, changes
from polylake.ops._create import create_table
from polylake.ops._delete import DeleteMetrics, delete
from polylake.ops._explain import describe_filter
from polylake.ops._merge import Merge, merge, upsert
from polylake.ops._merge_run import MergeMetrics
from polylake.ops._restore import RestoreResult, restore
from polylake.ops._scan_plan import ScanPlan, filter_parts, plan_scan
from polylake.ops._streaming import TableWriter
from polylake.ops._target import DEFAULT_MEMORY_BYTES, Target, layout_of
from polylake.ops._update import UpdateMetrics, update
from polylake.ops._vectors import read_vector, write_vectors
from polylake.ops._write import discard, write
from polylake.ops._write_options import WriteOptions, WriteResult
from polylake.ops._write_plan import fit_rows, plan_write

__all__ = [
    "DEFAULT_MEMORY_BYTES",
    "ChangeFeed",
    "DeleteMetrics",
    "EnabledFeatures",
    "Merge",
    "MergeMetrics",
    "RestoreResult",
    "ScanPlan",
    "TableWriter",
    "Target",
    "UpdateMetrics",
    "WriteOptions",
    "WriteResult",
    "add_columns",
    "add_constraint",
    "change_type",
    "changes",
    "create_table",
    "delete",
    "describe_filter",
    "discard",
    "drop_column",
    "drop_constraint",
    "enable_features",
    "filter_parts",
    "fit_rows",
    "layout_of",
    "merge",
    "plan_scan",
    "plan_write",
    "read_vector",
    "rename_column",
    "restore",
    "set_comment",
    "set_description",
    "set_name",
    "set_nullable",
    "set_properties",
    "unset_properties",
    "update",
    "upsert",
    "write",
    "write_vectors",
]
