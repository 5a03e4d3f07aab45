"""How far a step has come, written down before each batch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import orjson

from polylake._ids import new_id
from polylake.errors import FileNotFound, InvalidTableState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What is written down of a step."""

    id: str
    """The name under which the step's batches are recorded in tables. Who deletes the ledger gets
    another, and the batches count anew."""
    epoch: int = -1
    """The number of the last batch that was begun."""
    offset: Mapping[str, Any] = field(default_factory=dict)
    """What that batch consists of, in the terms of its source."""
    is_done: bool = True


class Ledger:
    """One page for a step, replaced as a whole.

    A batch that was begun is made again from what is written down, exactly as it was: the tables
    know by its number which parts of it they have.
    """

    def __init__(self, storage: Storage, step: str) -> None:
        """Hold the ledger of a step, in the store of a pipeline's checkpoints."""
        self._storage = storage
        self._key = f"{step}/ledger.json"
        self.page = self._read() or self._write(Page(id=new_id()))

    def begin(self, offset: Mapping[str, Any]) -> Self:
        """Write down what the next batch consists of.

        Raises:
            StorageError: the store refused.
        """
        self._write(replace(self.page, epoch=self.page.epoch + 1, offset=offset, is_done=False))
        return self

    def end(self, offset: Mapping[str, Any] | None = None) -> None:
        """Write down that the batch is in the tables.

        Args:
            offset: what it consists of, if not of what was written down.

        Raises:
            StorageError: the store refused.
        """
        self._write(replace(self.page, offset=offset or self.page.offset, is_done=True))

    def _read(self) -> Page | None:
        try:
            data = self._storage.get(self._key)
        except FileNotFound:
            return None
        try:
            return Page(**orjson.loads(data))
        except (ValueError, TypeError) as error:
            raise InvalidTableState(
                f"{self._storage.url}/{self._key} cannot be read ({error}). Without it the step "
                "starts over: delete it if that is wanted.",
                path=self._key,
            ) from error

    def _write(self, page: Page) -> Page:
        self._storage.put(self._key, orjson.dumps(asdict(page)))
        self.page = page
        return page
