"""Where data files and deletion vectors are."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from polylake.errors import FileNotFound
from polylake.storage import HasLocalPath, open_storage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polylake.storage import Storage


@dataclass(frozen=True, slots=True)
class Place:
    """A file in the table's own store, or in another that an absolute path names."""

    storage: Storage
    key: str
    local_path: str | None
    """Its path on this machine, if it is a file of this machine."""

    @contextmanager
    def open(self, size: int) -> Iterator[object]:
        """Lend what pyarrow reads the file from; ``size`` is the file's."""
        if self.local_path is not None:
            yield self.local_path
            return
        with closing(self.storage.open_reader(self.key, size=size)) as reader:
            yield reader


class Places:
    """Finds the files of one table."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._root = storage.url.rstrip("/") + "/"
        # Asked once: to find out whether an object follows a protocol takes a while.
        self._local = storage if isinstance(storage, HasLocalPath) else None

    @property
    def are_local(self) -> bool:
        """Whether the table's own files are files of this machine."""
        return self._local is not None

    def find(self, path: str) -> Place:
        """Return the place of a decoded path, relative to the table's root or absolute.

        Raises:
            ValidationError: the path can name no file of a store.
        """
        if ":/" in path or path.startswith("/"):
            url = path if "://" in path else f"file://{path.removeprefix('file:')}"
            if not url.startswith(self._root):
                folder, _, name = url.rpartition("/")
                return Places(open_storage(folder)).find(name)
            path = url.removeprefix(self._root)
        local_path = None if self._local is None else self._local.local_path(path)
        return Place(self._storage, path, local_path)

    def fetch(self, path: str, start: int, end: int) -> bytes:
        """Return a range of a file's bytes, fewer where it ends.

        Raises:
            FileNotFound: the file is not there.
        """
        place = self.find(path)
        return place.storage.get_range(place.key, start, end)


def missing_file(path: str, error: FileNotFoundError) -> FileNotFound:
    """Say that a file which the log names is not there, and why that may be."""
    return FileNotFound(
        f"the data file {path!r} is missing: it may have been vacuumed since the version that is "
        "read, or deleted by hand. Read a newer version; polylake.log.diagnose tells what is gone.",
        path=path,
        reason=str(error),
    )
