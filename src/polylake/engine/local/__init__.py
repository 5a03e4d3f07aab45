"""The engine that works on this machine: Polars for scans and bulk writes, pyarrow beside it."""

from polylake.engine.local._documents import keep_matching, to_documents
from polylake.engine.local._engine import LocalEngine
from polylake.engine.local._failures import reading
from polylake.engine.local._polars_types import to_polars_schema, to_polars_type
from polylake.engine.local._results import to_arrow, to_batches
from polylake.engine.local._take import take_rows

__all__ = [
    "LocalEngine",
    "keep_matching",
    "reading",
    "take_rows",
    "to_arrow",
    "to_batches",
    "to_documents",
    "to_polars_schema",
    "to_polars_type",
]
