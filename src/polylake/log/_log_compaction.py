"""Log compaction files: one file for a range of commits (PROTOCOL.md, "Log Compaction Files")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import orjson

from polylake.errors import (
    AlreadyExists,
    FileNotFound,
    InvalidTableState,
    LogGap,
    OutcomeUnknown,
    UnsupportedFeature,
    ValidationError,
)
from polylake.log._columns import check_add, check_remove
from polylake.log._commit_file import read_rows
from polylake.log._fields import JsonObject, required_text
from polylake.log._live_files import Overlay
from polylake.log._names import commit_key, compaction_key
from polylake.log._replay import Replay

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from polylake.storage import Storage

_NAMED_BY = {"txn": "appId", "domainMetadata": "domain"}
_SINGLE = frozenset({"protocol", "metaData"})
# Provenance and change data belong to their own commits and to no other.
_DROPPED = frozenset({"commitInfo", "cdc"})


def compact_log(storage: Storage, first: int, last: int) -> str:
    """Write one file that stands for the commits ``first`` to ``last``, and return its key.

    A file that is there already and says the same stays as it is.

    Raises:
        ValidationError: ``last`` is not above ``first``, or the commits hold nothing to keep.
        LogGap: one of the commits is missing.
        CorruptCommit: one of the commits, or the file that is there already, cannot be read.
        UnsupportedFeature: a commit holds a kind of action that polylake does not know.
        InvalidTableState: the file would not say the same as the commits.
    """
    if not 0 <= first < last:
        raise ValidationError(
            f"versions {first} to {last} cannot be compacted: the last must be above the first",
            field="last",
            first=first,
            last=last,
        )
    key = compaction_key(first, last)
    original, reconciled = Replay(), _Reconciled()
    for source, data in _commits(storage, first, last):
        original.apply(data, source)
        reconciled.apply(data, source)
    body = b"".join(orjson.dumps({kind: action}) + b"\n" for kind, action in reconciled.actions())
    if not body:
        raise ValidationError(
            f"versions {first} to {last} hold no action that a compaction keeps", field="first"
        )
    _check_same(original, body, key)
    try:
        storage.put_if_absent(key, body)
    except (AlreadyExists, OutcomeUnknown):
        _check_same(original, storage.get(key), key)
    return key


@dataclass(slots=True)
class _Reconciled:
    """The newest action for each thing that actions are about, as the log spells it."""

    files: Overlay = field(default_factory=Overlay)
    named: dict[tuple[str, str], JsonObject] = field(default_factory=dict)

    def apply(self, data: bytes, source: str) -> None:
        """Take in a commit that ``Replay`` has found readable."""
        for line, kind, body in read_rows(data, source=source):
            if kind == "add":
                self.files.add(check_add(body), body)
            elif kind == "remove":
                self.files.remove(check_remove(body), body)
            elif kind in _NAMED_BY:
                self.named[kind, required_text(body, _NAMED_BY[kind])] = body
            elif kind in _SINGLE:
                self.named[kind, ""] = body
            elif kind not in _DROPPED:
                raise UnsupportedFeature(
                    f"{source}, line {line} holds a {kind!r} action, which polylake does not know "
                    "and so cannot keep",
                    path=source,
                    line=line,
                )

    def actions(self) -> Iterator[tuple[str, Mapping[str, object]]]:
        """Yield kinds and bodies. Removed domains stay: they hide what came before the range."""
        for (kind, _), body in self.named.items():
            yield kind, body
        for body in self.files.adds.values():
            yield "add", body
        for body in self.files.removes.values():
            yield "remove", body


def _commits(storage: Storage, first: int, last: int) -> Iterator[tuple[str, bytes]]:
    keys = [commit_key(version) for version in range(first, last + 1)]
    bodies = storage.get_many(keys)
    for key in keys:
        try:
            yield key, next(bodies)
        except FileNotFound as error:
            raise LogGap(
                f"{key} is missing, so versions {first} to {last} cannot be compacted",
                path=key,
                first=first,
                last=last,
            ) from error


def _check_same(original: Replay, body: bytes, key: str) -> None:
    compacted = Replay()
    compacted.apply(body, key)
    same = (
        _files(original) == _files(compacted)
        and original.protocol == compacted.protocol
        and original.metadata == compacted.metadata
        and original.txns == compacted.txns
        and original.domains == compacted.domains
    )
    if not same:
        raise InvalidTableState(
            f"{key} does not say the same as the commits it stands for; nothing was written. "
            "Delete the file if it exists: it is only a copy.",
            path=key,
        )


def _files(replay: Replay) -> tuple[dict[str, JsonObject], dict[str, JsonObject]]:
    return replay.overlay.adds, replay.overlay.removes
