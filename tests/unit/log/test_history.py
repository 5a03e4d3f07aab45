"""The history of a table, and time travel by timestamp."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.unit.log.small_table import NOON_MS, SmallTable

from polylake.errors import (
    CorruptCommit,
    InvalidTableState,
    TimestampNotFound,
    ValidationError,
)
from polylake.log._history import CommitEntry, history, version_at
from polylake.log._names import commit_key
from polylake.storage import MeteredStorage

HOUR_MS = 3_600_000


def hourly_table(versions: int = 5) -> SmallTable:
    table = SmallTable()
    table.grow(versions - 1, every_ms=HOUR_MS)
    return table


def in_commit_table(versions: int) -> SmallTable:
    """Each version's own timestamp is an hour after the last; the files are all of one time."""
    table = SmallTable(
        configuration={
            "delta.enableInCommitTimestamps": "true",
            "delta.inCommitTimestampEnablementVersion": "2",
            "delta.inCommitTimestampEnablementTimestamp": str(NOON_MS + 2 * HOUR_MS),
        },
        features=("inCommitTimestamp",),
    )
    table.append()
    for version in range(2, versions):
        table.append(inCommitTimestamp=NOON_MS + version * HOUR_MS)
    return table


def test_history_comes_newest_first() -> None:
    table = hourly_table()
    assert [entry.version for entry in history(table.storage)] == [4, 3, 2, 1, 0]


def test_history_can_be_limited_at_both_ends() -> None:
    table = hourly_table()
    assert [entry.version for entry in history(table.storage, limit=2)] == [4, 3]
    assert [entry.version for entry in history(table.storage, since=3)] == [4, 3]


@pytest.mark.parametrize("options", [{"limit": -1}, {"since": -1}])
def test_a_negative_limit_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        history(hourly_table(1).storage, **options)


def test_an_entry_holds_what_the_writer_recorded() -> None:
    table = SmallTable()
    recorded = {
        "operationParameters": {"mode": "Append"},
        "operationMetrics": {"numFiles": "1"},
        "engineInfo": "engine/1",
        "userId": "7",
        "userName": "ann",
        "userMetadata": "nightly",
        "isBlindAppend": True,
    }
    table.append(**recorded)
    entry = next(history(table.storage))
    assert isinstance(entry, CommitEntry)
    assert (entry.operation, entry.engine_info, entry.is_blind_append) == (
        "WRITE",
        "engine/1",
        True,
    )
    assert (entry.user_id, entry.user_name, entry.user_metadata) == ("7", "ann", "nightly")
    assert (entry.parameters, entry.metrics) == ({"mode": "Append"}, {"numFiles": "1"})
    assert entry.timestamp == datetime.fromtimestamp((NOON_MS + 1) / 1000, UTC)
    assert entry.info is not None
    assert entry.info.values["userName"] == "ann"


def test_fields_of_unexpected_types_are_left_out() -> None:
    table = SmallTable()
    table.append(engineInfo=3, operationMetrics="many", isBlindAppend="yes")
    entry = next(history(table.storage))
    assert (entry.engine_info, entry.metrics, entry.is_blind_append) == (None, {}, None)


def test_a_commit_without_commit_info_is_in_the_history() -> None:
    table = SmallTable()
    table.append()
    lines = table.storage.get(commit_key(1)).splitlines(keepends=True)
    table.storage.put(commit_key(1), b"".join(lines[1:]))
    entry = next(history(table.storage))
    assert (entry.version, entry.operation, entry.info) == (1, None, None)


def test_file_times_are_made_to_rise_with_versions() -> None:
    table = SmallTable()
    table.append()
    table.clock.ms -= 5_000
    table.append()
    assert [e.timestamp_ms for e in history(table.storage)] == [NOON_MS + 2, NOON_MS + 1, NOON_MS]


def test_commits_carry_their_own_time_from_the_enablement_on() -> None:
    times = [entry.timestamp_ms for entry in history(in_commit_table(4).storage)]
    hours = [NOON_MS + 3 * HOUR_MS, NOON_MS + 2 * HOUR_MS]
    assert times == [*hours, NOON_MS + 1, NOON_MS]


def test_a_commit_that_lacks_its_own_time_is_named() -> None:
    table = in_commit_table(3)
    table.append()
    with pytest.raises(InvalidTableState) as caught:
        list(history(table.storage))
    assert caught.value.facts["version"] == 3


def test_history_reads_no_more_commits_than_are_asked_for() -> None:
    table = hourly_table(200)
    table.checkpoint()
    metered = MeteredStorage(table.storage)
    assert next(history(metered, limit=3)).version == 199
    assert metered.counts["get"].requests <= 6


def test_an_unreadable_commit_info_stops_the_history() -> None:
    table = hourly_table(3)
    table.checkpoint()
    table.storage.put(commit_key(1), b'{"commitInfo":{"oper')
    with pytest.raises(CorruptCommit) as caught:
        list(history(table.storage))
    assert caught.value.facts["path"] == commit_key(1)


@pytest.mark.parametrize(
    ("offset_ms", "version"),
    [(0, 0), (1, 0), (HOUR_MS - 1, 0), (HOUR_MS, 1), (3 * HOUR_MS, 3), (4 * HOUR_MS, 4)],
)
def test_the_version_at_a_time_is_the_latest_not_after_it(offset_ms: int, version: int) -> None:
    assert version_at(hourly_table().storage, NOON_MS + offset_ms) == version


def test_a_time_may_be_a_datetime_or_text() -> None:
    table = hourly_table()
    moment = datetime.fromtimestamp((NOON_MS + 2 * HOUR_MS) / 1000, UTC)
    assert version_at(table.storage, moment) == 2
    assert version_at(table.storage, moment.isoformat()) == 2
    assert version_at(table.storage, moment.isoformat().replace("+00:00", "Z")) == 2


@pytest.mark.parametrize(
    "timestamp",
    [datetime(2026, 1, 1), "2026-01-01T00:00:00", "yesterday", True, 1.5],  # noqa: DTZ001  # what is refused
)
def test_a_time_without_a_zone_is_refused(timestamp: object) -> None:
    with pytest.raises(ValidationError):
        version_at(hourly_table(1).storage, timestamp)  # type: ignore[arg-type]


def test_a_time_before_the_oldest_version_names_it() -> None:
    with pytest.raises(TimestampNotFound) as caught:
        version_at(hourly_table().storage, NOON_MS - 1)
    assert caught.value.facts["version"] == 0


def test_a_time_after_the_newest_version_names_it_unless_the_latest_will_do() -> None:
    table = hourly_table()
    with pytest.raises(TimestampNotFound) as caught:
        version_at(table.storage, NOON_MS + 5 * HOUR_MS)
    assert caught.value.facts["version"] == 4
    assert version_at(table.storage, NOON_MS + 5 * HOUR_MS, latest_if_after=True) == 4


def test_versions_that_cannot_be_rebuilt_do_not_count() -> None:
    table = hourly_table(4)
    table.checkpoint()
    table.grow(2, every_ms=HOUR_MS)
    table.storage.delete([commit_key(0)])
    with pytest.raises(TimestampNotFound) as caught:
        version_at(table.storage, NOON_MS + 2 * HOUR_MS)
    assert caught.value.facts["version"] == 3
    assert version_at(table.storage, NOON_MS + 3 * HOUR_MS) == 3


def test_own_times_decide_from_the_enablement_on() -> None:
    table = in_commit_table(6)
    assert version_at(table.storage, NOON_MS + HOUR_MS) == 1
    assert version_at(table.storage, NOON_MS + 2 * HOUR_MS) == 2
    assert version_at(table.storage, NOON_MS + 5 * HOUR_MS - 1) == 4


def test_own_times_are_found_by_halving() -> None:
    table = in_commit_table(300)
    table.checkpoint()
    metered = MeteredStorage(table.storage)
    assert version_at(metered, NOON_MS + 123 * HOUR_MS) == 123
    assert metered.counts["get_range"].requests <= 12
