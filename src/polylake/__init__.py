"""One Delta lake, many doors.

Tables in the open Delta Lake format on a local folder, an object store or in memory.
Names are loaded when they are first used: importing the package loads neither Arrow nor a client
of an object store.
"""

from typing import TYPE_CHECKING

from polylake._lazy import lazy_names
from polylake._version import __version__

if TYPE_CHECKING:
    from polylake.errors import PolylakeError as PolylakeError
    from polylake.log import DeltaLog as DeltaLog
    from polylake.retry import RetryPolicy as RetryPolicy
    from polylake.retry import with_retry as with_retry
    from polylake.storage import open_storage as open_storage

__getattr__ = lazy_names(
    __name__,
    {
        "DeltaLog": "polylake.log",
        "PolylakeError": "polylake.errors",
        "RetryPolicy": "polylake.retry",
        "open_storage": "polylake.storage",
        "with_retry": "polylake.retry",
    },
)

__all__ = ["DeltaLog", "PolylakeError", "RetryPolicy", "__version__", "open_storage", "with_retry"]
