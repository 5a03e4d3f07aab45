"""Where in the log of a database a change stands, as one number that grows with the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polylake.errors import CDCError

if TYPE_CHECKING:
    from collections.abc import Mapping

# MySQL's position in 63 bits: 20 for the number of the file, 32 for the byte in it, 11 for the row
# of the event, which is a few kilobytes long.
_FILE_BITS, _BYTE_BITS, _ROW_BITS = 20, 32, 11


def log_position(source: Mapping[str, Any]) -> int:
    """Return the position that the source block of an envelope tells.

    Raises:
        CDCError: it tells none, or none that a sequence number can hold.
    """
    match source:
        case {"connector": "postgresql", "lsn": int(position)}:
            return position
        case {"connector": "mysql" | "mariadb", "file": str(file), "pos": int(pos), **rest}:
            return _binlog_position(file, pos, rest.get("row") or 0)
        case {"connector": "mongodb", "ts_ms": int(milliseconds), "ord": int(ordinal)}:
            # A snapshot has the ordinal -1.
            return milliseconds // 1000 << 32 | max(ordinal, 0)
        case _:
            raise CDCError(
                f"the source of {source.get('connector')!r} tells no position in its log: give "
                "the message's offset",
                field="_seq",
            )


def _binlog_position(file: str, pos: int, row: int) -> int:
    number = file.rpartition(".")[2]
    fits = number.isdecimal() and int(number) < 1 << _FILE_BITS
    if not fits or pos >= 1 << _BYTE_BITS or row >= 1 << _ROW_BITS:
        raise CDCError(
            f"{file}:{pos}:{row} is beyond what a sequence number can hold: give the message's "
            "offset",
            field="_seq",
        )
    return (int(number) << _BYTE_BITS | pos) << _ROW_BITS | row
