"""Bytes under keys: local folders, object stores and memory, behind one contract.

``open_storage`` opens a store by its address. What each verb promises is written in ``Storage``.
Importing this package loads no client of an object store; opening one does.
"""

from polylake.storage._cache import CachedStorage
from polylake.storage._contract import (
    HasLocalPath,
    HasStagedFiles,
    ListKeys,
    ObjectInfo,
    Storage,
)
from polylake.storage._faulty import Fault, FaultKind, FaultyStorage
from polylake.storage._local import LocalStorage
from polylake.storage._memory import MemoryStorage
from polylake.storage._metered import MeteredStorage
from polylake.storage._object_store import ObjectStorage
from polylake.storage._open import open_storage
from polylake.storage._options import AccessKey, BearerToken, SasToken, StorageOptions
from polylake.storage._probe import probe

__all__ = [
    "AccessKey",
    "BearerToken",
    "CachedStorage",
    "Fault",
    "FaultKind",
    "FaultyStorage",
    "HasLocalPath",
    "HasStagedFiles",
    "ListKeys",
    "LocalStorage",
    "MemoryStorage",
    "MeteredStorage",
    "ObjectInfo",
    "ObjectStorage",
    "SasToken",
    "Storage",
    "StorageOptions",
    "open_storage",
    "probe",
]
