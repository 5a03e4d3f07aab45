"""Comparing a version's files with what is in the table's folder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from polylake.errors import (
    CorruptDeletionVector,
    FileNotFound,
    InvalidTableState,
    ValidationError,
)
from polylake.log._columns import key_columns
from polylake.log._deletion_vector import DeletionVectorDescriptor, read_deletion_vector
from polylake.log._findings import (
    MissingDataFile,
    MoreOrphans,
    NotChecked,
    OrphanFile,
    UnreadableDeletionVector,
    WrongSize,
)
from polylake.log._names import LOG_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from polylake.log._check_log import Progress
    from polylake.log._findings import Finding
    from polylake.log._snapshot import Snapshot
    from polylake.storage import ObjectInfo, Storage

_ORPHANS_SHOWN = 1_000
_BATCH = 10_000


@dataclass(frozen=True, slots=True)
class _Reference:
    """A path that the log names; ``live_size`` is set for a file of the version itself."""

    path: str
    live_size: int | None


def check_files(
    storage: Storage, snapshot: Snapshot, *, written_before_ms: int, progress: Progress
) -> Iterator[Finding]:
    """Compare the files of a version with one listing of the table's folder.

    Both come sorted and are walked side by side, so neither is held as objects.

    Args:
        storage: the table.
        snapshot: its latest version.
        written_before_ms: only older files count as orphans: others may be on their way in.
        progress: told how many files were listed.

    Raises:
        CorruptCheckpoint: a column of the checkpoint cannot be read.
    """
    listed = _data_files(storage, progress)
    references = _references(storage, snapshot)
    outside = _Outside()
    orphans = _Orphans(written_before_ms)
    info = next(listed, None)
    for reference in references:
        if _is_outside(reference.path):
            outside.count(reference)
            continue
        while info is not None and info.key < reference.path:
            yield from orphans.take(info)
            info = next(listed, None)
        if info is not None and info.key == reference.path:
            yield from _compare_size(reference, info)
            info = next(listed, None)
        elif reference.live_size is not None:
            yield MissingDataFile(
                path=reference.path, size=reference.live_size, version=snapshot.version
            )
    while info is not None:
        yield from orphans.take(info)
        info = next(listed, None)
    yield from orphans.rest()
    yield from outside.found()


def check_deletion_vectors(
    storage: Storage, snapshot: Snapshot, progress: Progress
) -> Iterator[UnreadableDeletionVector]:
    """Read the deletion vector of every live file that has one within the table's folder.

    Raises:
        CorruptCheckpoint: a column of the checkpoint cannot be read.
    """
    table = _with_vectors(snapshot)
    for done, row in enumerate(_rows(table), 1):
        path, vector = str(row["path"]), "the log"
        try:
            assert isinstance(row["deletionVector"], dict)  # noqa: S101 - a struct that is not null
            descriptor = DeletionVectorDescriptor.from_log(row["deletionVector"])
            location = descriptor.location
            if location is not None:
                vector = relative_path(storage.url, location)
            if not _is_outside(vector):
                read_deletion_vector(descriptor, _Within(storage).get_range)
        except (CorruptDeletionVector, InvalidTableState, FileNotFound, ValidationError) as error:
            yield UnreadableDeletionVector(path=path, vector=vector, reason=str(error))
        progress("deletion vectors", done, table.num_rows)


def relative_path(url: str, path: str) -> str:
    """Return a file's path relative to the table, or as it is where it lies outside."""
    for root in _roots(url):
        if path.startswith(root):
            return path[len(root) :]
    return path


def spellings(url: str, path: str) -> list[str]:
    """Return every path by which the log may name a file that is in the table's folder."""
    return [path, *(root + path for root in _roots(url))]


def _roots(url: str) -> list[str]:
    base = url.rstrip("/") + "/"
    if not url.startswith("file://"):
        return [base]
    # Hadoop writes one slash; a plain absolute path names the same file.
    plain = base.removeprefix("file://")
    return [base, "file:" + plain, plain]


def _is_outside(path: str) -> bool:
    return path.startswith(("/", "file:/")) or "://" in path


@dataclass(frozen=True, slots=True)
class _Within:
    """A table's files by the paths that the log has for them, absolute ones included."""

    storage: Storage

    def get_range(self, path: str, start: int, end: int) -> bytes:
        return self.storage.get_range(relative_path(self.storage.url, path), start, end)


def _data_files(storage: Storage, progress: Progress) -> Iterator[ObjectInfo]:
    for done, info in enumerate(storage.list(), 1):
        progress("files", done, None)
        if not info.key.startswith(LOG_FOLDER):
            yield info


def _references(storage: Storage, snapshot: Snapshot) -> Iterator[_Reference]:
    """Yield every path that the version or a tombstone of it names, sorted, each once."""
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import, and only doctor comes here

    parts: list[tuple[pa.ChunkedArray, pa.ChunkedArray | None]] = []
    live = snapshot.files.table(["path", "deletionVector", "size"])
    gone = snapshot.files.tombstone_table().select(["path", "deletionVector"])
    parts.append((key_columns(live)[0], live["size"]))
    parts.append((key_columns(gone)[0], None))
    parts += [(_vector_files(storage, rows), None) for rows in (live, gone)]
    tables = []
    for paths, sizes in parts:
        filled = pa.nulls(len(paths), pa.int64()) if sizes is None else sizes
        tables.append(pa.table({"path": paths, "size": filled}))
    table = pa.concat_tables(tables)
    if any(pc.any(pc.match_substring(table["path"], sign)).as_py() for sign in (":/", "//")) or (
        pc.any(pc.starts_with(table["path"], "/")).as_py()
    ):
        paths = [relative_path(storage.url, path) for path in table["path"].to_pylist()]
        table = table.set_column(0, "path", pa.array(paths, pa.string()))
    # Nulls come last, so a path that is live is seen as that first.
    order = pc.sort_indices(table, [("path", "ascending"), ("size", "ascending")])
    before: str | None = None
    for row in _rows(table.take(order)):
        path, size = row["path"], row["size"]
        assert isinstance(path, str)  # noqa: S101 - a column of strings without nulls
        if path != before:
            yield _Reference(path, size if isinstance(size, int) else None)
        before = path


def _with_vectors(snapshot: Snapshot) -> pa.Table:
    table = snapshot.files.table(["path", "deletionVector"])
    return table.filter(table["deletionVector"].is_valid())


def _vector_files(storage: Storage, rows: pa.Table) -> pa.Array:
    vectors = rows["deletionVector"].drop_null()
    found = set()
    for chunk in vectors.chunks:
        for fields in chunk.to_pylist():
            try:
                location = DeletionVectorDescriptor.from_log(fields).location
            except InvalidTableState:
                continue  # reported where the deletion vector itself is looked at
            if location is not None:
                found.add(relative_path(storage.url, location))
    return pa.array(found, pa.string())


def _rows(table: pa.Table) -> Iterator[dict[str, object]]:
    for batch in table.to_batches(max_chunksize=_BATCH):
        yield from batch.to_pylist()


def _compare_size(reference: _Reference, info: ObjectInfo) -> Iterable[WrongSize]:
    expected = reference.live_size
    if expected is None or expected == info.size:
        return ()
    return (WrongSize(path=reference.path, expected=expected, found=info.size),)


class _Orphans:
    """Files that nothing refers to: the first ones by name, the rest counted."""

    def __init__(self, written_before_ms: int) -> None:
        self._written_before_ms = written_before_ms
        self._seen = 0
        self._more = 0
        self._more_bytes = 0

    def take(self, info: ObjectInfo) -> Iterator[OrphanFile]:
        if info.modified_ms >= self._written_before_ms or _is_hidden(info.key):
            return
        self._seen += 1
        if self._seen <= _ORPHANS_SHOWN:
            yield OrphanFile(path=info.key, size=info.size)
        else:
            self._more += 1
            self._more_bytes += info.size

    def rest(self) -> Iterator[MoreOrphans]:
        if self._more:
            yield MoreOrphans(count=self._more, size_bytes=self._more_bytes)


class _Outside:
    """Live files that are not in the table's folder."""

    def __init__(self) -> None:
        self._count = 0
        self._example = ""

    def count(self, reference: _Reference) -> None:
        if reference.live_size is not None:
            self._count += 1
            self._example = self._example or reference.path

    def found(self) -> Iterator[NotChecked]:
        if self._count:
            yield NotChecked(count=self._count, example=self._example)


def _is_hidden(key: str) -> bool:
    # A partition column may start with an underscore; its folders hold data.
    return any(part.startswith((".", "_")) and "=" not in part for part in key.split("/"))
