"""What operations do to rows on a Spark cluster."""

from polylake.ops.spark._changes import read_changes
from polylake.ops.spark._duplicates import SparkDuplicates
from polylake.ops.spark._merge import merge_rows
from polylake.ops.spark._rows import SparkRows
from polylake.ops.spark._session import spark_engine
from polylake.ops.spark._update import update_rows
from polylake.ops.spark._write import copy_rows, record_replaced, write_rows

__all__ = [
    "SparkDuplicates",
    "SparkRows",
    "copy_rows",
    "merge_rows",
    "read_changes",
    "record_replaced",
    "spark_engine",
    "update_rows",
    "write_rows",
]
