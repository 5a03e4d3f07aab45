"""One Delta lake, many doors.

Tables in the open Delta Lake format on a local folder, an object store or in memory.
Names are loaded when they are first used: importing the package loads neither Arrow, nor Polars,
nor a client of an object store.
"""

from typing import TYPE_CHECKING

from polylake._lazy import lazy_names
from polylake._version import __version__

if TYPE_CHECKING:
    from polylake.errors import PolylakeError as PolylakeError
    from polylake.log import DeltaLog as DeltaLog
    from polylake.query import matches as matches
    from polylake.retry import RetryPolicy as RetryPolicy
    from polylake.retry import with_retry as with_retry
    from polylake.storage import open_storage as open_storage
    from polylake.table import DeltaTable as DeltaTable
    from polylake.table import TableCache as TableCache
    from polylake.variant import decode_variant as decode_variant
    from polylake.variant import encode_variant as encode_variant
    from polylake.variant import is_encodable as is_encodable

__getattr__ = lazy_names(
    __name__,
    {
        "DeltaLog": "polylake.log",
        "DeltaTable": "polylake.table",
        "PolylakeError": "polylake.errors",
        "RetryPolicy": "polylake.retry",
        "TableCache": "polylake.table",
        "decode_variant": "polylake.variant",
        "encode_variant": "polylake.variant",
        "is_encodable": "polylake.variant",
        "matches": "polylake.query",
        "open_storage": "polylake.storage",
        "with_retry": "polylake.retry",
    },
)

__all__ = [
    "DeltaLog",
    "DeltaTable",
    "PolylakeError",
    "RetryPolicy",
    "TableCache",
    "__version__",
    "decode_variant",
    "encode_variant",
    "is_encodable",
    "matches",
    "open_storage",
    "with_retry",
]
