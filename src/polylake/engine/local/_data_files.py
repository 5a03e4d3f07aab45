"""The files of a snapshot and what their footers say."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from polylake.engine._places import Place, Places, missing_file
from polylake.engine.local._vectors import read_deleted
from polylake.errors import PolylakeError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyroaring import BitMap64

    from polylake.log import Add
    from polylake.storage import Storage

_FOOTERS_IN_FLIGHT = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A data file and what its footer says."""

    add: Add
    path: str
    """As the log has it, decoded."""
    place: Place
    row_groups: tuple[int, ...]
    """The number of rows in each."""
    footer: pq.FileMetaData | None
    """Kept where it saves reading it again."""
    deleted: BitMap64 | None

    @property
    def num_rows(self) -> int:
        """How many rows the file holds, deleted ones included."""
        return sum(self.row_groups)

    @contextmanager
    def open(self) -> Iterator[pq.ParquetFile]:
        """Open the file; timestamps of every year are read as they are.

        Raises:
            FileNotFound: it has gone.
            StorageError: it cannot be read, inside the ``with`` block too.
        """
        with _naming(self.path), self.place.open(self.add.size) as source:
            yield pq.ParquetFile(
                source, metadata=self.footer, coerce_int96_timestamp_unit="us", pre_buffer=True
            )


def open_files(storage: Storage, files: Sequence[Add]) -> Iterator[DataFile]:
    """Read the footer and the deletion vector of every file, in order.

    Raises:
        FileNotFound: a file is missing.
        StorageError: a file cannot be read, or is not a Parquet file.
        CorruptDeletionVector: a deletion vector cannot be read, or does not belong to its file.
    """
    places = Places(storage)
    if places.are_local or len(files) < 2:
        # A local footer takes less than handing it to another thread.
        yield from (_open_file(places, add) for add in files)
        return
    with ThreadPoolExecutor(min(_FOOTERS_IN_FLIGHT, len(files))) as pool:
        yield from pool.map(lambda add: _open_file(places, add), files)


def _open_file(places: Places, add: Add) -> DataFile:
    path = add.file_path
    place = places.find(path)
    with _naming(path), place.open(add.size) as source:
        footer = pq.ParquetFile(source).metadata
    deleted = None
    if add.deletion_vector is not None:
        deleted = read_deleted(add.deletion_vector, places.fetch, num_rows=footer.num_rows)
    return DataFile(
        add=add,
        path=path,
        place=place,
        row_groups=tuple(footer.row_group(at).num_rows for at in range(footer.num_row_groups)),
        footer=footer,
        deleted=deleted,
    )


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Turn what goes wrong with a file into errors that name it."""
    try:
        yield
    except FileNotFoundError as error:
        raise missing_file(path, error) from error
    except PolylakeError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise StorageError(
            f"{path!r} cannot be read as a Parquet file: {error}", path=path
        ) from error
