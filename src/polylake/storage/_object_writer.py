"""Streaming an object to an object store."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from polylake.errors import FileNotFound, OutcomeUnknown, StorageError
from polylake.storage._writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from obstore import WritableFile

    from polylake.storage._connect import Connection
    from polylake.storage._request import Request

PART_BYTES = 5 << 20
"""The smallest part a multipart upload may have, so that memory is bounded tightly."""

PARTS_IN_FLIGHT = 4


class ObjectWriter(Writer):
    """One put for a small object, a multipart upload for a larger one.

    A failed ``write`` or ``close`` aborts the upload, so that no parts are left to be paid for.
    """

    def __init__(self, file: WritableFile, request: Request, connection: Connection) -> None:
        self._file = file
        self._request = request
        self._connection = connection
        self._written = 0
        self._closed = False

    def write(self, chunk: bytes, /) -> int:
        """Append bytes and return how many.

        Raises:
            ValueError: the writer is closed.
        """
        if self._closed:
            raise ValueError("the writer is closed")
        view = memoryview(chunk).cast("B")
        # The client takes a chunk whole, whatever its size: feed it part by part.
        for start in range(0, len(view), PART_BYTES):
            part = view[start : start + PART_BYTES]
            self._or_abort(partial(self._file.write, part))
        self._written += len(view)
        return len(view)

    def tell(self) -> int:
        """Return how many bytes were written so far."""
        return self._written

    def close(self) -> None:
        """Publish the object.

        Raises:
            OutcomeUnknown: the store finished the upload, but its reply was lost.
        """
        if not self._closed:
            self._or_abort(self._file.close)
            self._closed = True

    def abort(self) -> None:
        """Give up the write and remove what was staged."""
        if not self._closed:
            self._closed = True
            self._call(self._drop)

    @property
    def closed(self) -> bool:
        """Whether the write was closed or aborted."""
        return self._closed

    def _or_abort(self, step: Callable[[], object]) -> None:
        try:
            self._call(step)
        except StorageError as failure:
            self._closed = True
            # What the caller has to know is why it failed, whether or not the parts could go.
            with suppress(StorageError):
                self._call(self._drop)
            if not isinstance(failure, FileNotFound):
                raise
            # Finishing an upload is repeated when its reply is lost; the upload is then gone.
            raise OutcomeUnknown(
                f"the upload of {self._request.key!r} to {self._request.url} is gone: it may have "
                "been finished; read it back",
                **failure.facts,
            ) from failure

    def _call(self, step: Callable[[], object]) -> None:
        self._connection.call(self._request, step)

    def _drop(self) -> None:
        # Leaving the client's own ``with`` block by an error is its way to abort an upload.
        self._file.__exit__(InterruptedError, InterruptedError(), None)
