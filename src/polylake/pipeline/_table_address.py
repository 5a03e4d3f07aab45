"""Where a table is, in a form that travels between Spark's processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polylake.pipeline._option_texts import text
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from polylake.engine import Engine
    from polylake.pipeline._option_texts import OptionTexts
    from polylake.storage import StorageOptions


@dataclass(frozen=True, slots=True)
class TableAddress:
    """A table's URL and the options of its store, secrets included, which ``repr`` hides."""

    url: str
    options: StorageOptions

    @classmethod
    def take(cls, options: OptionTexts) -> TableAddress:
        """Take the address from the options of a read or a write."""
        given = options.take({"path": text})
        if "path" not in given:
            options.refuse("path must say where the table is, as in load(path)")
        path = given.get("path", ".")
        if ":/" not in path:
            # Tasks may run in other folders than the driver.
            path = str(Path(path).absolute())
        return cls(path, options.take_storage())

    def open(self, engine: Engine[Any] | None = None) -> DeltaTable:
        """Return the table.

        Raises:
            ValidationError: the URL or an option of its store is not acceptable.
        """
        return DeltaTable(self.url, engine=engine, options=self.options)
