"""Engines read and write data files; what they do is written in ``Engine``."""

from polylake.engine._contract import (
    FILE_COLUMN,
    ROW_COLUMN,
    Engine,
    Layout,
    TableShape,
    WrittenFile,
)
from polylake.engine._rows import InferredRows, RowSource, infer_schema, to_batches

__all__ = [
    "FILE_COLUMN",
    "ROW_COLUMN",
    "Engine",
    "InferredRows",
    "Layout",
    "RowSource",
    "TableShape",
    "WrittenFile",
    "infer_schema",
    "to_batches",
]
