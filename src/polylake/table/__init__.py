"""What users hold: tables, scans, and a cache of tables."""

from polylake.table._alter import TableAlter
from polylake.table._cache import CacheCounts, TableCache
from polylake.table._delta_table import DeltaTable
from polylake.table._reader import TableDetail, TableReader, TableVersion
from polylake.table._scan import Scan
from polylake.table._transaction import TableTransaction

__all__ = [
    "CacheCounts",
    "DeltaTable",
    "Scan",
    "TableAlter",
    "TableCache",
    "TableDetail",
    "TableReader",
    "TableTransaction",
    "TableVersion",
]
