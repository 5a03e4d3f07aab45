"""Engines read and write data files; what they do is written in ``Engine``."""

from polylake.engine._contract import (
    FILE_COLUMN,
    MOVED_FROM,
    MOVED_TO,
    ROW_COLUMN,
    Curve,
    CurveOrder,
    Engine,
    FrameKind,
    Layout,
    RewriteOptions,
    Rewritten,
    RowOrder,
    SortOrder,
    TableShape,
    WrittenFile,
)
from polylake.engine._rows import InferredRows, RowSource, infer_schema, to_batches

__all__ = [
    "FILE_COLUMN",
    "MOVED_FROM",
    "MOVED_TO",
    "ROW_COLUMN",
    "Curve",
    "CurveOrder",
    "Engine",
    "FrameKind",
    "InferredRows",
    "Layout",
    "RewriteOptions",
    "Rewritten",
    "RowOrder",
    "RowSource",
    "SortOrder",
    "TableShape",
    "WrittenFile",
    "infer_schema",
    "to_batches",
]
