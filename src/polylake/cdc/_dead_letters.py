"""Records that could not be handled, kept in a table with the reason."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from polylake.cdc._arrow import record_schema, source_row
from polylake.errors import PolylakeError
from polylake.schema import INTEGER, STRING, TIMESTAMP, StructField, StructType
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polylake.cdc._record import CDCRecord

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

DEAD_LETTER_SCHEMA = StructType(
    (
        *record_schema(),
        StructField("error_code", STRING, nullable=False),
        StructField("error_message", STRING, nullable=False),
        StructField("handler", STRING, nullable=False),
        StructField("attempts", INTEGER, nullable=False),
        StructField("group", STRING, nullable=False),
        StructField("failed_at", TIMESTAMP, nullable=False),
    )
)
"""The columns of a table of dead letters: those of a record, then why it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A record that a handler could not handle."""

    record: CDCRecord
    error: Exception
    handler: str
    attempts: int
    group: str
    failed_at: int
    """When it was given up, in nanoseconds since 1970."""

    @property
    def error_code(self) -> str:
        """The error's code, or the name of its type where it has none."""
        if isinstance(self.error, PolylakeError):
            return self.error.code
        kind = type(self.error)
        return f"{kind.__module__}.{kind.__qualname__}"

    def to_row(self) -> dict[str, Any]:
        """Return it as a row of a table of dead letters."""
        return self.record.to_dict() | {
            "_source": source_row(self.record.source),
            "error_code": self.error_code,
            "error_message": str(self.error),
            "handler": self.handler,
            "attempts": self.attempts,
            "group": self.group,
            "failed_at": _EPOCH + timedelta(microseconds=self.failed_at // 1000),
        }


class DeadLetters:
    """A Delta table of records that could not be handled.

    It can be read as any table, and is itself a table of records: ``RecordTable`` reads them in
    order, to be handled once more. A record is in it at least once for each handler that gave it
    up: a consumer that dies before it commits its offset writes it again.
    """

    def __init__(self, table: DeltaTable, *, clock: Callable[[], int] = time.time_ns) -> None:
        """Keep dead letters in ``table``, which is created with the first if it does not exist."""
        self.table = table
        self.clock = clock

    def write(self, letters: Sequence[DeadLetter]) -> None:
        """Append letters as one commit.

        Raises:
            SchemaError: the table has other columns, or no variant can hold a state.
            StorageError: the store refused.
        """
        if not self.table.exists():
            DeltaTable.create(self.table.target.storage, DEAD_LETTER_SCHEMA, mode="ignore")
        self.table.write([letter.to_row() for letter in letters])
