"""The options of reads, by the names that Delta's users know."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from polylake.pipeline._option_texts import OptionTexts, camel, count, flag, size, whole
from polylake.pipeline._table_address import TableAddress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.pipeline._option_texts import Reader

FILES_PER_TRIGGER = 1000
"""How many files a batch of a stream has at most, unless an option says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What to read of a table."""

    version_as_of: int | None = None
    timestamp_as_of: datetime | None = None
    read_change_feed: bool = False
    starting_version: int | Literal["latest"] | None = None
    starting_timestamp: datetime | None = None
    ending_version: int | None = None
    ending_timestamp: datetime | None = None
    max_files_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False


def read_options(
    given: Mapping[str, str], *, streaming: bool | None = None
) -> tuple[TableAddress, ReadOptions]:
    """Take the options of a read apart.

    Args:
        given: the options as Spark has them.
        streaming: what kind of read they have to make sense for; ``None`` for either.

    Raises:
        ValidationError: options are unknown, have no such value or exclude each other; the
            message says all that is wrong.
    """
    texts = OptionTexts(given)
    address = TableAddress.take(texts)
    options = ReadOptions(**texts.take(_READERS))
    for problem in _problems(options, streaming=streaming):
        texts.refuse(problem)
    texts.check()
    return address, options


def _problems(options: ReadOptions, *, streaming: bool | None) -> list[str]:
    problems = []
    for one, other in _EXCLUSIVE:
        if getattr(options, one) is not None and getattr(options, other) is not None:
            problems.append(f"{camel(one)} and {camel(other)} exclude each other")
    given = sorted(_given(options))
    if streaming:
        problems += [f"{camel(name)} is for spark.read" for name in given if name in _OF_BATCHES]
    elif streaming is False:
        problems += [f"{camel(n)} is for spark.readStream" for n in given if n in _OF_STREAMS]
        if options.read_change_feed:
            problems += _feed_problems(options)
        else:
            problems += [f"{camel(n)} needs readChangeFeed" for n in given if n in _OF_FEEDS]
    return problems


def _feed_problems(options: ReadOptions) -> list[str]:
    problems = [
        f"{camel(name)} and readChangeFeed exclude each other; give startingVersion"
        for name in _given(options) & {"version_as_of", "timestamp_as_of"}
    ]
    if options.starting_version == "latest":
        problems.append("startingVersion is latest for spark.readStream only")
    if options.starting_version is None and options.starting_timestamp is None:
        problems.append("readChangeFeed needs startingVersion or startingTimestamp")
    return problems


def _given(options: ReadOptions) -> frozenset[str]:
    return frozenset(
        field.name for field in fields(options) if getattr(options, field.name) != field.default
    )


def _version(value: str) -> int | str:
    if value.lower() == "latest":
        return "latest"
    try:
        return whole(value)
    except ValueError:
        raise ValueError("a version or latest") from None


def _moment(value: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("a time such as 2026-01-31T12:00:00Z, in UTC without a zone") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


_READERS: Mapping[str, Reader] = {
    "version_as_of": whole,
    "timestamp_as_of": _moment,
    "read_change_feed": flag,
    "starting_version": _version,
    "starting_timestamp": _moment,
    "ending_version": whole,
    "ending_timestamp": _moment,
    "max_files_per_trigger": count,
    "max_bytes_per_trigger": size,
    "ignore_deletes": flag,
    "ignore_changes": flag,
    "skip_change_commits": flag,
}
_EXCLUSIVE = (
    ("version_as_of", "timestamp_as_of"),
    ("starting_version", "starting_timestamp"),
    ("ending_version", "ending_timestamp"),
)
_OF_BATCHES = frozenset({"version_as_of", "timestamp_as_of", "ending_version", "ending_timestamp"})
_OF_FEEDS = frozenset(
    {"starting_version", "starting_timestamp", "ending_version", "ending_timestamp"}
)
_OF_STREAMS = frozenset(
    {
        "max_files_per_trigger",
        "max_bytes_per_trigger",
        "ignore_deletes",
        "ignore_changes",
        "skip_change_commits",
    }
)
