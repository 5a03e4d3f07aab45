"""How a table is doing, on real tables in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from polylake.errors import TableNotFound
from polylake.log import CommitSettings, commit_key
from polylake.maintenance._health import Health, health
from polylake.maintenance._health_checks import HealthCheck, HealthSeverity, HealthThresholds
from polylake.storage import MemoryStorage
from polylake.table import DeltaTable

DAY_MS = 86_400_000
OK, WARNING, CRITICAL = HealthSeverity
SOON = HealthThresholds(small_files=4, commits=5, clustered_files=4)


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table(clock: Clock) -> DeltaTable:
    return DeltaTable(MemoryStorage(), settings=CommitSettings(clock_ms=clock))


def fill(table: DeltaTable, files: int, *, rows: int = 10, **options: Any) -> None:
    for number in range(files):
        ids = (at * files + number for at in range(rows))
        table.write([{"id": at, "day": number} for at in ids], **options)


def found(report: Health, name: str) -> HealthCheck:
    (check,) = [check for check in report.checks if check.name == name]
    return check


def test_a_fresh_table_is_healthy_and_its_figures_are_told(table: DeltaTable) -> None:
    fill(table, 2)
    report = health(table)
    snapshot = table.snapshot()
    assert report.healthy
    assert (report.version, report.file_count, report.rows) == (snapshot.version, 2, 20)
    assert report.total_bytes == snapshot.totals.size_bytes
    assert all(check.mend is None for check in report.checks)
    assert report.open_latency_ms is not None
    assert report.commit_latency_ms is not None


def test_an_empty_table_is_healthy(table: DeltaTable) -> None:
    table.write([{"id": 1}])
    table.delete()
    report = health(table)
    assert (report.healthy, report.rows, report.file_count) == (True, 0, 0)


def test_there_has_to_be_a_table(table: DeltaTable) -> None:
    with pytest.raises(TableNotFound):
        health(table)


def test_small_files_are_mended_by_a_compaction(table: DeltaTable) -> None:
    fill(table, 6)
    check = found(health(table, thresholds=SOON), "small files")
    assert check.severity is WARNING
    assert check.measured["mergeable"] == 6
    assert check.mend is not None
    assert check.mend.command == f"polylake compact {table.url}"
    table.compact()
    assert found(health(table, thresholds=SOON), "small files").severity is OK


def test_very_many_small_files_are_critical(table: DeltaTable) -> None:
    fill(table, 6)
    report = health(table, thresholds=HealthThresholds(critical_small_files=6))
    assert found(report, "small files").severity is CRITICAL
    assert report.severity is CRITICAL


@pytest.mark.parametrize(("commits", "severity"), [(4, OK), (5, WARNING), (9, CRITICAL)])
def test_commits_since_the_checkpoint_are_counted(
    table: DeltaTable, commits: int, severity: HealthSeverity
) -> None:
    fill(table, 1)
    table.checkpoint()
    fill(table, commits)
    limits = HealthThresholds(commits=5, critical_commits=9)
    check = found(health(table, thresholds=limits), "checkpoint")
    assert (check.severity, check.measured["commits_since"]) == (severity, commits)
    table.checkpoint()
    check = found(health(table, thresholds=limits), "checkpoint")
    assert (check.severity, check.measured["commits_since"]) == (OK, 0)


def test_commits_of_a_table_without_a_checkpoint_all_count(table: DeltaTable) -> None:
    fill(table, 3)
    check = found(health(table), "checkpoint")
    assert check.measured == {"commits_since": 3, "checkpoint_version": None}


def test_a_table_that_was_never_clustered_is_not_measured(table: DeltaTable) -> None:
    fill(table, 8)
    assert "clustering" not in {check.name for check in health(table).checks}


def test_columns_of_the_policy_are_measured_and_mended_by_clustering(table: DeltaTable) -> None:
    fill(table, 8, rows=10_000)
    table.alter.set_properties(
        {
            "polylake.maintenance.compaction.cluster.columns": "id",
            "delta.targetFileSize": str(table.snapshot().totals.size_bytes // 8),
        }
    )
    check = found(health(table, thresholds=SOON), "clustering")
    assert check.severity is WARNING
    assert check.measured["columns"] == ["id"]
    assert check.mend is not None
    assert check.mend.call == "table.cluster(['id'])"
    before = check.measured["skip_rate"]
    table.cluster("id", memory_bytes=1 << 20)  # in batches small enough to cut files
    after = found(health(table, thresholds=SOON), "clustering").measured["skip_rate"]
    assert isinstance(before, float)
    assert isinstance(after, float)
    assert after > before


def test_columns_of_the_policy_that_have_no_bounds_are_passed_over(table: DeltaTable) -> None:
    named = {"polylake.maintenance.compaction.cluster.columns": "tags,gone,day,id"}
    rows = [{"id": at, "tags": ["a"], "day": at} for at in range(9)]
    table.write(rows, partition_by=("day",), properties=named)
    check = found(health(table), "clustering")
    assert check.measured["columns"] == ["id"]
    assert check.measured["skip_rate"] is not None


def test_columns_that_files_were_clustered_on_are_measured(table: DeltaTable) -> None:
    fill(table, 8)
    table.cluster(["day", "id"])
    check = found(health(table), "clustering")
    assert check.measured["columns"] == ["day", "id"]


def test_a_policy_that_cannot_be_used_is_told(table: DeltaTable) -> None:
    table.write([{"id": 1}], properties={"polylake.maintenance.nonsense": "1"})
    check = found(health(table), "policy")
    assert check.severity is WARNING
    assert "nonsense" in check.why


@pytest.mark.parametrize(("deleted", "severity"), [(0, OK), (2, WARNING), (5, CRITICAL)])
def test_deleted_rows_are_counted(
    table: DeltaTable, deleted: int, severity: HealthSeverity
) -> None:
    fill(table, 1, properties={"delta.enableDeletionVectors": "true"})
    table.delete({"id": {"$lt": deleted}})
    report = health(table)
    check = found(report, "deleted rows")
    assert (check.severity, check.measured["deleted_rows"]) == (severity, deleted)
    assert report.rows == 10 - deleted
    table.compact()
    assert found(health(table), "deleted rows").severity is OK


def test_expired_files_are_counted_from_the_log(table: DeltaTable, clock: Clock) -> None:
    fill(table, 4)
    size = table.snapshot().totals.size_bytes
    table.compact()
    assert found(health(table), "vacuum").measured == {"expired_files": 0, "expired_bytes": 0}
    clock.now_ms += 8 * DAY_MS
    check = found(health(table), "vacuum")
    assert check.measured == {"expired_files": 4, "expired_bytes": size}
    assert check.severity is WARNING
    table.vacuum()
    table.checkpoint()
    assert found(health(table), "vacuum").measured["expired_files"] == 0


def test_a_file_with_a_new_vector_is_not_expired(table: DeltaTable, clock: Clock) -> None:
    fill(table, 1, properties={"delta.enableDeletionVectors": "true"})
    table.delete({"id": 1})
    table.delete({"id": 2})
    clock.now_ms += 8 * DAY_MS
    check = found(health(table), "vacuum")
    assert check.measured["expired_bytes"] == 0
    assert check.measured["expired_files"] == 1  # the first deletion vector


@pytest.mark.parametrize(
    ("properties", "word"),
    [
        ({"delta.logRetentionDuration": "interval 1 day"}, "outlive"),
        ({"delta.deletedFileRetentionDuration": "interval 2 hours"}, "slow readers"),
        (
            {
                "delta.deletedFileRetentionDuration": "interval 2 hours",
                "delta.enableChangeDataFeed": "true",
            },
            "change feed",
        ),
    ],
    ids=["log", "files", "feed"],
)
def test_retentions_that_lose_versions_are_told_and_mended(
    table: DeltaTable, properties: dict[str, str], word: str
) -> None:
    table.write([{"id": 1}], properties=properties)
    check = found(health(table), "retention")
    assert check.severity is WARNING
    assert word in check.why
    assert check.mend is not None
    eval(check.mend.call, {"table": table})
    assert found(health(table), "retention").severity is OK


def test_a_retention_that_is_none_is_told(table: DeltaTable) -> None:
    table.write([{"id": 1}])
    metadata = table.snapshot().metadata
    properties = {**metadata.configuration, "delta.logRetentionDuration": "soon"}
    transaction = table.target.log.begin("SET")
    transaction.set_metadata(replace(metadata, configuration=properties))
    table.target.log.commit(transaction)
    check = found(health(table), "retention")
    assert check.measured == {"property": "delta.logRetentionDuration"}


@pytest.mark.parametrize(("ttl_s", "severity"), [(3600, OK), (60, WARNING)])
def test_leases_that_end_soon_are_told(
    table: DeltaTable, ttl_s: int, severity: HealthSeverity
) -> None:
    table.write([{"id": 1}])
    with table.pin(ttl_s=ttl_s):
        check = found(health(table), "leases")
    assert (check.severity, check.measured["next_ends_in_ms"]) == (severity, ttl_s * 1000)


def test_a_lease_that_cannot_be_read_is_critical(table: DeltaTable) -> None:
    table.write([{"id": 1}])
    with table.pin() as lease:
        table.target.storage.put(lease.key, b"{")
        check = found(health(table), "leases")
    assert (check.severity, check.measured["file"]) == (CRITICAL, lease.key)


def test_files_without_statistics_are_counted_and_mended(table: DeltaTable) -> None:
    fill(table, 4)
    transaction = table.target.log.begin("WRITE")
    transaction.add_again(*(replace(add, stats=None) for add in table.snapshot().files.adds()))
    table.target.log.commit(transaction)
    report = health(table)
    check = found(report, "statistics")
    assert report.rows is None
    assert (check.severity, check.measured["files"]) == (WARNING, 4)
    assert check.mend is not None
    eval(check.mend.call, {"table": table})
    assert health(table).rows == 40


def test_a_broken_commit_is_critical_and_names_the_file(table: DeltaTable) -> None:
    fill(table, 2)
    key = commit_key(1)
    table.target.storage.put(key, b'{"add":')
    report = health(table)
    (check,) = report.checks
    assert (check.name, check.severity, check.measured["file"]) == ("log", CRITICAL, key)
    assert check.mend is not None
    assert check.mend.command == f"polylake doctor {table.url}"
    assert (report.healthy, report.version) == (False, None)
    assert "cannot be opened" in str(report)


def test_a_missing_commit_is_critical(table: DeltaTable) -> None:
    fill(table, 3)
    table.target.storage.delete([commit_key(1)])
    assert found(health(table), "log").severity is CRITICAL


def test_only_a_deep_look_finds_missing_data_files(table: DeltaTable) -> None:
    fill(table, 1)
    (file,) = table.snapshot().files.adds()
    table.target.storage.delete([file.file_path])
    assert health(table).healthy
    check = found(health(table, deep=True), "doctor")
    assert check.severity is CRITICAL
    assert file.file_path in check.why


def test_a_deep_look_at_a_sound_table_finds_nothing(table: DeltaTable) -> None:
    fill(table, 1)
    check = found(health(table, deep=True), "doctor")
    assert (check.severity, check.mend) == (OK, None)


def test_a_deep_look_at_a_broken_log_tells_what_the_doctor_found(table: DeltaTable) -> None:
    fill(table, 2)
    table.target.storage.put(commit_key(1), b"{")
    report = health(table, deep=True)
    assert [check.name for check in report.checks] == ["log", "doctor"]
    assert all(check.severity is CRITICAL for check in report.checks)


def test_a_report_reads_well(table: DeltaTable) -> None:
    fill(table, 6)
    text = str(health(table, thresholds=SOON))
    assert "6 files" in text
    assert f"-> polylake compact {table.url}  or  table.compact()" in text


def test_a_report_is_json(table: DeltaTable) -> None:
    fill(table, 6)
    report = health(table, thresholds=SOON)
    document = orjson.loads(orjson.dumps(report.to_dict()))
    assert (document["healthy"], document["severity"]) == (False, "warning")
    assert [check["name"] for check in document["checks"]] == [c.name for c in report.checks]
    assert document["checks"][1]["mend"]["call"] == "table.compact()"
