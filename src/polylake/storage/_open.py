"""Open a store by its address."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from polylake.errors import ValidationError
from polylake.storage._cache import DEFAULT_CACHE_BYTES, CachedStorage
from polylake.storage._local import LocalStorage
from polylake.storage._memory import MemoryStorage
from polylake.storage._object_store import ObjectStorage
from polylake.storage._options import (
    StorageOptions,
    check_scheme,
    parse_options,
    with_environment,
)
from polylake.storage._target import resolve
from polylake.storage._urls import Location, Scheme, parse_location

if TYPE_CHECKING:
    from polylake.storage._contract import Storage

DEFAULT_LOCATION = "./.polylake"

_lock = threading.Lock()
_shared_memory: dict[str, MemoryStorage] = {}


def open_storage(
    location: str | os.PathLike[str] | None = None,
    options: StorageOptions | None = None,
    **keywords: object,
) -> Storage:
    """Open the store at a path or URL; nothing is sent or created yet.

        open_storage()                              the folder ./.polylake
        open_storage("/data/lake")                  a folder; file:///data/lake is the same
        open_storage("memory://")                   in memory, new; memory://name is shared by name
        open_storage("s3://bucket/lake", region="eu-west-1")
        open_storage("s3://bucket", endpoint="http://localhost:9000", allow_http=True)
        open_storage("r2://account/bucket/lake", access_key_id=..., secret_access_key=...)
        open_storage("gs://bucket/lake"), open_storage("az://container/lake", account="name")

    Options are the fields of ``StorageOptions``, given by keyword or as that value. What they
    leave open is taken from the environment variables that AWS and Azure tools read.

    Raises:
        ValidationError: the location or an option is unknown, missing or makes no sense here.
    """
    if options is not None and keywords:
        raise ValidationError("give options or keywords, not both", field="options")
    chosen = parse_options(keywords) if options is None else options
    if location is None or isinstance(location, os.PathLike):
        path = DEFAULT_LOCATION if location is None else os.fspath(location)
        place = Location(scheme=Scheme.FILE, prefix=path)
    else:
        place = parse_location(location)
    check_scheme(chosen, place.scheme)
    match place.scheme:
        case Scheme.FILE:
            return LocalStorage(place.prefix)
        case Scheme.MEMORY:
            return _memory(place.bucket).at(place.prefix)
        case _:
            return _open_bucket(place, chosen)


def _open_bucket(place: Location, options: StorageOptions) -> Storage:
    from polylake.storage._connect import connect  # noqa: PLC0415  # loads obstore, which is slow

    options = with_environment(options, place, os.environ)
    storage = ObjectStorage(connect(resolve(place, options), options), place.prefix)
    if options.cache_dir is None:
        return storage
    return CachedStorage(storage, options.cache_dir, options.cache_bytes or DEFAULT_CACHE_BYTES)


def _memory(name: str) -> MemoryStorage:
    if not name:
        return MemoryStorage()
    with _lock:
        return _shared_memory.setdefault(name, MemoryStorage())
