"""Who changed a table, when and how; and which version was the latest at some time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from polylake.errors import FileNotFound, TimestampNotFound, ValidationError
from polylake.log._commit_times import CommitTimes, find_commit_info, rebuildable_versions
from polylake.log._load import load_snapshot
from polylake.log._names import Version, commit_key
from polylake.log._segment import list_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polylake.log._commit_file import CommitInfo
    from polylake.log._snapshot import Snapshot
    from polylake.storage import Storage

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# What datetime can show: the years 1 to 9999.
_SHOWABLE_MS = range(-62_135_596_800_000, 253_402_300_800_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEntry:
    """One version in a table's history; what its writer did not record is ``None`` or empty."""

    version: Version
    timestamp_ms: int
    operation: str | None
    parameters: Mapping[str, object]
    metrics: Mapping[str, object]
    engine_info: str | None
    user_id: str | None
    user_name: str | None
    user_metadata: str | None
    is_blind_append: bool | None
    info: CommitInfo | None
    """The whole ``commitInfo``, as the log has it."""

    @property
    def timestamp(self) -> datetime:
        """When the version was committed."""
        return from_epoch_ms(self.timestamp_ms)


def history(
    storage: Storage,
    *,
    limit: int | None = None,
    since: int | None = None,
    snapshot: Snapshot | None = None,
) -> Iterator[CommitEntry]:
    """Yield the commits that are in the log, newest first, reading them as they are asked for.

    Args:
        storage: the table.
        limit: how many to give at most.
        since: the oldest version to give.
        snapshot: the latest version, where the caller has it already.

    Raises:
        ValidationError: ``limit`` or ``since`` is negative.
        LogError: as ``load_snapshot``; a ``commitInfo`` cannot be read.
    """
    for name, value in (("limit", limit), ("since", since)):
        if value is not None and value < 0:
            raise ValidationError(f"{name} is {value}, which is negative", field=name, value=value)
    return _entries(storage, limit, since or 0, snapshot)


def version_at(
    storage: Storage,
    timestamp: datetime | str | int,
    *,
    latest_if_after: bool = False,
    snapshot: Snapshot | None = None,
) -> Version:
    """Return the latest version committed not after ``timestamp`` that can still be rebuilt.

    Costs one list and, where commits carry their own timestamps, the start of a few of them.

    Args:
        storage: the table.
        timestamp: a datetime with a time zone, ISO 8601 text with an offset, or milliseconds
            since the epoch.
        latest_if_after: give the latest version for a time after it, instead of raising.
        snapshot: the latest version, where the caller has it already.

    Raises:
        ValidationError: ``timestamp`` is not one, or has no time zone.
        TimestampNotFound: it lies before the oldest version, or after the latest.
        LogError: as ``load_snapshot``.
    """
    wanted = to_epoch_ms(timestamp)
    latest = snapshot or load_snapshot(storage)
    listing = list_log(storage, until=latest.version)
    times = CommitTimes.of(storage, listing, latest)
    bases = [checkpoint.version for checkpoint in listing.checkpoints]
    versions = [v for v in rebuildable_versions(listing.commits, bases) if v in listing.commits]
    if not versions:
        raise TimestampNotFound(
            f"{storage.url} holds no commit, so the time of version {latest.version} is not known",
            table=storage.url,
        )
    if wanted > times.at(versions[-1]) and not latest_if_after:
        raise _not_found(storage, wanted, versions[-1], times, "after its newest version")
    found = newest_not_after(versions, times, wanted)
    if found is None:
        raise _not_found(storage, wanted, versions[0], times, "before its oldest version")
    return found


def newest_not_after(versions: list[Version], times: CommitTimes, wanted: int) -> Version | None:
    """Return the newest of some ascending versions that was committed not after a time.

    Raises:
        LogError: the time of a commit cannot be read.
    """
    # PROTOCOL.md, "In-Commit Timestamps": from the first of them on they alone decide.
    split = next((i for i, v in enumerate(versions) if times.carries_own(v)), len(versions))
    considered = versions[:split]
    if split < len(versions) and wanted >= times.at(versions[split]):
        considered = versions[split:]
    position = bisect_right(considered, wanted, key=times.at)
    return considered[position - 1] if position else None


def to_epoch_ms(timestamp: datetime | str | int) -> int:
    """Read a point in time.

    Raises:
        ValidationError: it is not one, or has no time zone.
    """
    if isinstance(timestamp, int) and not isinstance(timestamp, bool):
        return timestamp
    moment: object = timestamp
    if isinstance(timestamp, str):
        try:
            moment = datetime.fromisoformat(timestamp)
        except ValueError as error:
            raise _not_a_time(timestamp, "is not ISO 8601, such as 2026-01-31T12:00:00Z") from error
    if not isinstance(moment, datetime):
        raise _not_a_time(timestamp, "is not a datetime, ISO 8601 text or milliseconds")
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise _not_a_time(timestamp, "has no time zone; add one, such as Z or +00:00")
    return (moment - _EPOCH) // _MILLISECOND


def from_epoch_ms(milliseconds: int) -> datetime:
    """Return a point in time as a datetime in UTC.

    Raises:
        ValidationError: the year is not one that a datetime can hold.
    """
    if milliseconds not in _SHOWABLE_MS:
        raise _not_a_time(milliseconds, "is not in the years 1 to 9999")
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _entries(
    storage: Storage, limit: int | None, since: int, snapshot: Snapshot | None
) -> Iterator[CommitEntry]:
    latest = snapshot or load_snapshot(storage)
    # From the start: the time of a version may depend on its predecessors.
    listing = list_log(storage, until=latest.version)
    times = CommitTimes.of(storage, listing, latest)
    versions = sorted((v for v in listing.commits if v >= since), reverse=True)[:limit]
    bodies = storage.get_many([commit_key(version) for version in versions])
    for version in versions:
        try:
            data = next(bodies)
        except FileNotFound:
            if min(list_log(storage).commits, default=version) > version:
                return  # cleaned up meanwhile, from the oldest upwards
            raise
        info = find_commit_info(data, commit_key(version))
        own = times.carries_own(version)
        timestamp = times.own_time(version, info) if own else times.at(version)
        yield _entry(version, timestamp, info)


def _entry(version: Version, timestamp_ms: int, info: CommitInfo | None) -> CommitEntry:
    values = {} if info is None else info.values
    blind = values.get("isBlindAppend")
    return CommitEntry(
        version=version,
        timestamp_ms=timestamp_ms,
        operation=_text(values, "operation"),
        parameters=_mapping(values, "operationParameters"),
        metrics=_mapping(values, "operationMetrics"),
        engine_info=_text(values, "engineInfo"),
        user_id=_text(values, "userId"),
        user_name=_text(values, "userName"),
        user_metadata=_text(values, "userMetadata"),
        is_blind_append=blind if isinstance(blind, bool) else None,
        info=info,
    )


# commitInfo is free-form: a field of another type than ours is as good as none.
def _text(values: Mapping[str, object], name: str) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) else None


def _mapping(values: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = values.get(name)
    return value if isinstance(value, Mapping) else {}


def _not_found(
    storage: Storage, wanted: int, version: Version, times: CommitTimes, where: str
) -> TimestampNotFound:
    known = times.at(version)
    return TimestampNotFound(
        f"{_show(wanted)} is {where} of {storage.url}: "
        f"version {version} was committed at {_show(known)}",
        table=storage.url,
        timestamp_ms=wanted,
        version=version,
        version_timestamp_ms=known,
    )


def _show(milliseconds: int) -> str:
    if milliseconds not in _SHOWABLE_MS:
        return f"{milliseconds} ms"
    return from_epoch_ms(milliseconds).isoformat(timespec="milliseconds")


def _not_a_time(value: object, flaw: str) -> ValidationError:
    return ValidationError(f"{value!r} {flaw}", field="timestamp", value=str(value))
