"""Where somebody who follows a table is, as a short text."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from dataclasses import dataclass
from hashlib import sha256

from polylake.errors import CDCError

_PARTS = 4


@dataclass(frozen=True, slots=True)
class Position:
    """How far a table has been followed.

    Attributes:
        version: the version to go on with.
        rows: how many rows of it have been given.
        in_snapshot: whether it is the rows of the version that are given, and not its changes.
    """

    version: int
    rows: int = 0
    in_snapshot: bool = False

    def to_token(self, table_id: str) -> str:
        """Return the position as a text that holds for one table."""
        kind = "s" if self.in_snapshot else "c"
        text = f"{kind}.{self.version}.{self.rows}.{_mark(table_id)}"
        return urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def from_token(cls, token: str, table_id: str) -> Position:
        """Return the position that a text stands for.

        Raises:
            CDCError: it is none, or one in another table.
        """
        try:
            raw = urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
        except (NotBase64, ValueError, TypeError) as error:
            raise _not_one(token) from error
        parts = raw.split(".")
        if len(parts) != _PARTS or parts[0] not in {"s", "c"}:
            raise _not_one(token)
        kind, version, rows, mark = parts
        if not (version.isdecimal() and rows.isdecimal()):
            raise _not_one(token)
        if mark != _mark(table_id):
            raise CDCError(f"the token {token!r} is of another table", field="token")
        return cls(int(version), int(rows), kind == "s")


def _mark(table_id: str) -> str:
    return sha256(table_id.encode()).hexdigest()[:8]


def _not_one(token: object) -> CDCError:
    return CDCError(f"{token!r} is no token of a followed table", field="token")
