"""Objects in S3, R2, Google Cloud Storage, Azure and what speaks their protocols."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from polylake.errors import (
    FileNotFound,
    ObjectStoreError,
    StorageError,
    StorageUnavailable,
)
from polylake.storage._contract import ObjectInfo
from polylake.storage._keys import check_key, check_prefix
from polylake.storage._probe import probe_once
from polylake.storage._ranges import Chunks, check_range, coalesce, split
from polylake.storage._reader import RangeReader
from polylake.storage._request import Condition, Request
from polylake.storage._urls import Scheme

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from obstore import ObjectMeta, PutMode, PutResult

    from polylake.storage._connect import Connection
    from polylake.storage._contract import RandomAccessFile, StreamWriter

S = TypeVar("S")
T = TypeVar("T")

_BULK = 1000
_PAGE = 1000


class ObjectStorage:
    """The objects of a bucket below ``folder``. Safe for use by many threads.

    Whether the store honours put-if-absent is known for the vendors' own endpoints; any other is
    probed before its first conditional put, once per process.
    """

    def __init__(self, connection: Connection, folder: str = "") -> None:
        self._connection = connection
        self._store = connection.store
        self._scheme = connection.target.scheme
        self._folder = folder
        self._base = f"{check_key(folder)}/" if folder else ""

    def __repr__(self) -> str:
        return f"ObjectStorage({self.url!r})"

    @property
    def url(self) -> str:
        """The store's address, free of secrets."""
        return (
            f"{self._connection.target.url}/{self._folder}"
            if self._folder
            else self._connection.target.url
        )

    def at(self, prefix: str) -> ObjectStorage:
        """Return the same store rooted at ``prefix``; connections are shared.

        Raises:
            ValidationError: ``prefix`` is not a folder of the store.
        """
        if not prefix:
            return self
        return ObjectStorage(self._connection, self._base + check_key(prefix.removesuffix("/")))

    def get(self, key: str) -> bytes:
        """Return the object's bytes.

        Raises:
            FileNotFound: nothing is stored under ``key``.
        """
        path = self._path(key)
        return self._ask("read", key, lambda: self._store.get(path).bytes().to_bytes())

    def get_many(self, keys: Sequence[str]) -> Iterator[bytes]:
        """Yield the objects in the order of ``keys``, fetched with bounded parallelism.

        Raises:
            FileNotFound: when the turn of a missing key comes.
        """
        for key in keys:
            check_key(key)
        return self._in_parallel(self.get, keys)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``start`` (included) to ``end`` (excluded), fewer where the object ends.

        Raises:
            FileNotFound: nothing is stored under ``key``.
            ValidationError: ``start`` is negative or ``end`` lies before it.
        """
        check_range(start, end)
        path = self._path(key)
        if start == end:
            self.head(key)
            return b""
        try:
            return self._ask(
                "read",
                key,
                lambda: self._store.get_range(path, start=start, end=end).to_bytes(),
            )
        except ObjectStoreError as error:
            # 416: the range starts at or after the end of the object.
            if error.facts.get("status") != 416:
                raise
            return b""

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> Chunks:
        """Return several ranges in the order asked; neighbours are fetched as one request.

        Raises:
            FileNotFound: nothing is stored under ``key``.
            ValidationError: a range is not a range.
        """
        requests = coalesce(ranges)
        if not requests:
            self.head(key)
        chunks = list(self._in_parallel(lambda r: self.get_range(key, r[0], r[1]), requests))
        return split(ranges, requests, chunks)

    def head(self, key: str) -> ObjectInfo:
        """Return the object's facts without its bytes.

        Raises:
            FileNotFound: nothing is stored under ``key``.
        """
        path = self._path(key)
        return self._info(self._ask("look up", key, lambda: self._store.head(path)))

    def exists(self, key: str) -> bool:
        """Say whether something is stored under ``key``."""
        try:
            self.head(key)
        except FileNotFound:
            return False
        return True

    def open_reader(self, key: str, *, size: int | None = None) -> RandomAccessFile:
        """Open an object for reading at any position, without fetching it whole."""
        return RangeReader(self, check_key(key), size=size)

    def list(self, prefix: str = "", *, start_after: str | None = None) -> Iterator[ObjectInfo]:
        """Yield every object whose key starts with ``prefix``, in byte order of the keys.

        Streamed page by page, except from Azure: with a hierarchical namespace it lists in
        another order, so its answer is collected and sorted.

        Raises:
            ObjectStoreError: the store lists in another order than its protocol says.
        """
        check_prefix(prefix)
        return self._list(prefix, start_after or "")

    def put(self, key: str, body: bytes) -> str | None:
        """Create or replace an object atomically and return its version.

        Raises:
            QuotaExceeded: the store is full; nothing was written.
        """
        path = self._path(key)
        return self._version(self._ask("write", key, lambda: self._store.put(path, body)))

    def put_if_absent(
        self,
        key: str,
        body: bytes,
        *,
        durable: bool = True,  # noqa: ARG002 - an object store has nothing less to offer
    ) -> str | None:
        """Create an object atomically and return its version.

        Raises:
            AlreadyExists: another writer got there first; nothing was written.
            OutcomeUnknown: the request may have landed; read ``key`` back before retrying.
            ConditionalPutUnsupported: the store does not honour put-if-absent.
            QuotaExceeded: the store is full; nothing was written.
        """
        check_key(key)
        target = self._connection.target
        if not target.is_vendors_own:
            name = f"{target.endpoint} {target.url}"
            probe_once(name, create=self._create, delete=self.delete, url=self.url)
        return self._create(key, body)

    def put_if_match(self, key: str, body: bytes, version: str) -> str | None:
        """Replace an object atomically if it still has ``version``; return the new version.

        Raises:
            VersionMismatch: the object has another version or is gone; nothing was written.
            OutcomeUnknown: the request may have landed; read ``key`` back before retrying.
            QuotaExceeded: the store is full; nothing was written.
        """
        # Google compares generations, the others etags.
        is_google = self._scheme is Scheme.GCS
        mode: PutMode = {"version": version} if is_google else {"e_tag": version}
        return self._put_once(key, body, mode, "match", version)

    def open_writer(self, key: str) -> StreamWriter:
        """Open an object for streaming, in bounded memory (multipart above 5 MB)."""
        return self._connection.open_writer(self._path(key), self._request("write", key))

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects, in bulk where the store can. A missing key is not an error.

        Raises:
            StorageError: some could not be deleted; the rest were. ``facts["failed"]`` maps each
                failed key to its reason.
        """
        failed: dict[str, StorageError] = {}
        checked = (check_key(key) for key in keys)
        while batch := list(islice(checked, _BULK)):
            failed |= self._delete_batch(batch)
        if failed:
            first = next(iter(failed.values()))
            raise type(first)(
                f"could not delete {len(failed)} objects in {self.url}; the first: {first}",
                url=self.url,
                failed={key: str(reason) for key, reason in failed.items()},
            )

    def _create(self, key: str, body: bytes) -> str | None:
        return self._put_once(key, body, "create", "absent")

    def _put_once(
        self,
        key: str,
        body: bytes,
        mode: PutMode,
        condition: Condition,
        version: str | None = None,
    ) -> str | None:
        path = self._path(key)
        request = Request(verb="write", key=key, url=self.url, condition=condition, version=version)
        once = self._connection.once
        return self._version(
            self._connection.call(request, lambda: once.put(path, body, mode=mode))
        )

    def _list(self, prefix: str, start_after: str) -> Iterator[ObjectInfo]:
        full, after = self._base + prefix, self._base + start_after if start_after else ""
        pages = self._pages(full, after)
        if self._scheme is Scheme.AZURE:
            found = [info for page in pages for info in page]
            pages = iter([sorted(found, key=lambda info: info.key)])
        last = ""
        for info in (info for page in pages for info in page):
            if info.key <= last and info.size == 0:
                # A marker of a folder, "a/", which the client reports as the object "a".
                continue
            if info.key <= last:
                raise ObjectStoreError(
                    f"{self.url} lists {info.key!r} after {last!r}: the order of keys cannot be "
                    "relied on, so the log cannot be read from this store",
                    path=info.key,
                    url=self.url,
                )
            last = info.key
            key = self._base + info.key
            if key > full and not key.startswith(full):
                return
            if key.startswith(full) and key > after:
                yield info

    def _pages(self, full: str, after: str) -> Iterator[Sequence[ObjectInfo]]:
        # The client lists whole folders, so a prefix that ends inside a name is approached by
        # starting just before the first key that can have it.
        folder, _, name = full.rpartition("/")
        offset = max(after, _just_before(full) if name else "")
        stream = self._ask(
            "list",
            full,
            lambda: self._store.list(folder or None, offset=offset or None, chunk_size=_PAGE),
        )
        while True:
            page = self._ask("list", full, lambda: next(stream, None))
            if page is None:
                return
            yield [self._info(meta) for meta in page]

    def _delete_batch(self, keys: Sequence[str]) -> dict[str, StorageError]:
        paths = [self._path(key) for key in keys]
        try:
            self._ask("delete", keys[0], lambda: self._store.delete(paths))
        except StorageUnavailable as error:
            return dict.fromkeys(keys, error)
        except StorageError:
            # The client does not say which of them failed, and stops at the first.
            outcomes = self._in_parallel(self._delete_one, keys)
            pairs = zip(keys, outcomes, strict=True)
            return {key: error for key, error in pairs if error is not None}
        return {}

    def _delete_one(self, key: str) -> StorageError | None:
        path = self._path(key)
        try:
            self._ask("delete", key, lambda: self._store.delete(path))
        except FileNotFound:
            return None
        except StorageError as error:
            return error
        return None

    def _in_parallel(self, work: Callable[[S], T], items: Sequence[S]) -> Iterator[T]:
        if len(items) == 1:
            yield work(items[0])
            return
        waiting = iter(items)
        pool, parallelism = self._connection.pool, self._connection.parallelism
        running = deque(pool.submit(work, item) for item in islice(waiting, parallelism))
        try:
            while running:
                result = running.popleft().result()
                running.extend(pool.submit(work, item) for item in islice(waiting, 1))
                yield result
        finally:
            for future in running:
                future.cancel()

    def _ask(self, verb: str, key: str, call: Callable[[], T]) -> T:
        return self._connection.call(self._request(verb, key), call)

    def _request(self, verb: str, key: str) -> Request:
        return Request(verb=verb, key=key, url=self.url)

    def _path(self, key: str) -> str:
        return self._base + check_key(key)

    def _info(self, meta: ObjectMeta) -> ObjectInfo:
        return ObjectInfo(
            key=meta["path"].removeprefix(self._base),
            size=meta["size"],
            modified_ms=int(meta["last_modified"].timestamp() * 1000),
            version=self._version(meta),
        )

    def _version(self, found: ObjectMeta | PutResult) -> str | None:
        return found["version" if self._scheme is Scheme.GCS else "e_tag"]


def _just_before(name: str) -> str:
    """Return a string below ``name``, with hardly a key in between."""
    before = ord(name[-1]) - 1
    if before < ord("!"):
        return name[:-1]
    # No key has an empty segment, and surrogates are not characters: go one further down.
    before = {ord("/"): ord("."), 0xDFFF: 0xD7FF}.get(before, before)
    return f"{name[:-1]}{chr(before)}\U0010fffd"
