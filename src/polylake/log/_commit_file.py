"""Commit files: newline-delimited JSON, one action a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, assert_never

import orjson

from polylake.errors import CorruptCommit, ValidationError
from polylake.log._actions import Add, AddCdc, DomainMetadata, Metadata, Protocol, Remove, Txn
from polylake.log._fields import JsonObject, optional_boolean, optional_integer, optional_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ACTION_COUNT = "actionCount"
"""The ``commitInfo`` field in which polylake states how many actions the commit holds.

A commit cut off at the end of a line is valid JSON; the count tells that it is not whole.
"""


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """Who made a commit, and why: free-form, so the fields stay as the log has them."""

    values: Mapping[str, object]

    @property
    def timestamp(self) -> int | None:
        """When the writer says it committed, in milliseconds."""
        return optional_integer(dict(self.values), "timestamp")

    @property
    def in_commit_timestamp(self) -> int | None:
        """The commit's own timestamp, where the table has in-commit timestamps."""
        return optional_integer(dict(self.values), "inCommitTimestamp")

    @property
    def operation(self) -> str | None:
        """What the commit did, such as ``WRITE``."""
        return optional_text(dict(self.values), "operation")

    @property
    def txn_id(self) -> str | None:
        """The commit's unique id, by which a writer knows its own commit."""
        return optional_text(dict(self.values), "txnId")

    @property
    def is_blind_append(self) -> bool:
        """Whether the commit only added files and read none."""
        return optional_boolean(dict(self.values), "isBlindAppend", default=False)

    @classmethod
    def from_log(cls, body: JsonObject) -> Self:
        """Read a ``commitInfo``."""
        return cls(body)

    def to_log(self) -> JsonObject:
        """Return the JSON object the log holds for this action."""
        return dict(self.values)


Action = Add | Remove | AddCdc | Metadata | Protocol | Txn | DomainMetadata | CommitInfo

_KINDS: Mapping[str, type[Action]] = {
    "commitInfo": CommitInfo,
    "protocol": Protocol,
    "metaData": Metadata,
    "txn": Txn,
    "domainMetadata": DomainMetadata,
    "add": Add,
    "remove": Remove,
    "cdc": AddCdc,
}
_OBJECTS = frozenset({*_KINDS, "checkpointMetadata", "sidecar"})


def parse_commit(data: bytes, *, source: str = "commit") -> list[Action]:
    """Read a commit file's actions; those of unknown kinds are left out.

    Raises:
        CorruptCommit: the bytes are not a whole commit; ``facts`` names ``source`` and the line.
    """
    return [
        _parse_action(kind, body, source, line)
        for line, kind, body in read_rows(data, source=source)
        if kind in _KINDS
    ]


def serialise_commit(actions: Iterable[Action]) -> bytes:
    """Write actions as a commit file, in the order given."""
    lines = [orjson.dumps({_kind_of(action): action.to_log()}) for action in actions]
    return b"\n".join(lines) + b"\n" if lines else b""


def read_rows(data: bytes, *, source: str) -> list[tuple[int, str, JsonObject]]:
    """Read a commit file without building actions: line, kind and body of each.

    Raises:
        CorruptCommit: the bytes are not a whole commit; ``facts`` names ``source`` and the line.
    """
    rows: list[tuple[int, str, JsonObject]] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line or line.isspace():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise corrupt_commit(source, number, f"not JSON ({error})") from error
        if not isinstance(row, dict):
            raise corrupt_commit(source, number, "not a JSON object")
        for kind, body in row.items():
            if isinstance(body, dict):
                rows.append((number, kind, body))
            elif kind in _OBJECTS and body is not None:
                raise corrupt_commit(source, number, f"{kind} is not an object")
    _check_whole(rows, source)
    return rows


def corrupt_commit(source: str, line: int, reason: str) -> CorruptCommit:
    """Return the error for a commit file that cannot be read."""
    return CorruptCommit(
        f"{source}, line {line}: {reason}. Nothing was read past it; "
        "polylake.log.diagnose tells what can be recovered.",
        path=source,
        line=line,
        reason=reason,
    )


def _check_whole(rows: list[tuple[int, str, JsonObject]], source: str) -> None:
    if not rows:
        raise corrupt_commit(source, 1, "no action in it")
    # commitInfo comes first where it states the count.
    _, kind, body = rows[0]
    expected = body.get(ACTION_COUNT) if kind == "commitInfo" else None
    if isinstance(expected, int) and expected != len(rows):
        reason = f"{len(rows)} actions where it announces {expected}"
        raise corrupt_commit(source, rows[-1][0], reason)


def _parse_action(kind: str, body: JsonObject, source: str, line: int) -> Action:
    try:
        return _KINDS[kind].from_log(body)
    except ValidationError as error:
        raise corrupt_commit(source, line, f"{kind}: {error}") from error


def _kind_of(action: Action) -> str:
    match action:
        case Add():
            return "add"
        case Remove():
            return "remove"
        case AddCdc():
            return "cdc"
        case Metadata():
            return "metaData"
        case Protocol():
            return "protocol"
        case Txn():
            return "txn"
        case DomainMetadata():
            return "domainMetadata"
        case CommitInfo():
            return "commitInfo"
        case _:
            assert_never(action)
