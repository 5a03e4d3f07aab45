"""Finding out what is wrong with a table."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from pyroaring import BitMap64
from tests.unit.log.small_table import DAY_MS, NOON_MS, SmallTable, add

from polylake.errors import TableNotFound
from polylake.log._actions import Protocol
from polylake.log._checksum import VersionChecksum, format_checksum
from polylake.log._commit_file import parse_commit, serialise_commit
from polylake.log._deletion_vector import DeletionVectorFile
from polylake.log._doctor import Diagnosis, diagnose
from polylake.log._findings import (
    BadHint,
    BrokenCheckpoint,
    ChecksumMismatch,
    CorruptCommitFound,
    Finding,
    IncompleteCheckpoint,
    MissingCheckpoint,
    MissingCommit,
    MissingDataFile,
    MoreOrphans,
    NotChecked,
    OrphanFile,
    Severity,
    TornUpload,
    UnreadableDeletionVector,
    UnsupportedTable,
    UnusableState,
    WrongSize,
)
from polylake.log._load import load_snapshot
from polylake.log._log_compaction import compact_log
from polylake.log._names import (
    HINT_KEY,
    LOG_FOLDER,
    SIDECAR_FOLDER,
    checksum_key,
    classic_checkpoint_key,
    commit_key,
    compaction_key,
    part_checkpoint_key,
)
from polylake.log._segment import CheckpointKind
from polylake.storage import LocalStorage, MemoryStorage

if TYPE_CHECKING:
    from pathlib import Path

    from polylake.storage import Storage

FAR_FUTURE_MS = NOON_MS + 100_000 * DAY_MS


@pytest.fixture(params=["memory", "local"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return MemoryStorage() if request.param == "memory" else LocalStorage(tmp_path)


@pytest.fixture
def table(storage: Storage) -> SmallTable:
    """Versions 0 to 9, a checkpoint of version 5."""
    table = SmallTable(storage=storage)
    table.grow(5)
    table.checkpoint()
    table.grow(4)
    return table


def look(storage: Storage) -> Diagnosis:
    """Diagnose at a time at which every file is old."""
    return diagnose(storage, now_ms=FAR_FUTURE_MS)


def only(diagnosis: Diagnosis) -> Finding:
    (finding,) = diagnosis.findings
    return finding


def truncate(storage: Storage, key: str) -> None:
    body = storage.get(key)
    storage.put(key, body[: len(body) // 2])


def test_a_healthy_table_has_nothing_to_report(table: SmallTable) -> None:
    diagnosis = look(table.storage)
    assert (diagnosis.findings, diagnosis.healthy, diagnosis.last_good) == ((), True, 9)
    assert "nothing to report" in str(diagnosis)


def test_no_log_is_no_table() -> None:
    with pytest.raises(TableNotFound):
        look(MemoryStorage())


def test_a_truncated_last_commit_is_an_error(table: SmallTable) -> None:
    truncate(table.storage, commit_key(9))
    diagnosis = look(table.storage)
    finding = only(diagnosis)
    assert isinstance(finding, CorruptCommitFound)
    assert (finding.version, finding.line, finding.severity) == (9, 2, Severity.ERROR)
    assert (finding.covered_by, diagnosis.last_good, diagnosis.healthy) == (None, 8, False)


def test_flipped_bytes_in_a_commit_are_found(table: SmallTable) -> None:
    body = bytearray(table.storage.get(commit_key(7)))
    body[body.index(b'"add"')] ^= 0xFF
    table.storage.put(commit_key(7), bytes(body))
    diagnosis = look(table.storage)
    finding = only(diagnosis)
    assert isinstance(finding, CorruptCommitFound)
    assert (finding.version, diagnosis.last_good) == (7, 6)
    assert [lost.files_added for lost in diagnosis.lost] == [None, 1, 1]


def test_a_corrupt_commit_below_a_checkpoint_is_a_warning(table: SmallTable) -> None:
    truncate(table.storage, commit_key(3))
    diagnosis = look(table.storage)
    finding = only(diagnosis)
    assert isinstance(finding, CorruptCommitFound)
    assert (finding.severity, finding.covered_by, diagnosis.last_good) == (Severity.WARNING, 5, 9)
    assert "versions 3 to 4 cannot be rebuilt" in str(finding)


def test_every_corrupt_commit_is_found(table: SmallTable) -> None:
    for version in (2, 4, 8):
        truncate(table.storage, commit_key(version))
    found = look(table.storage).findings
    assert [f.version for f in found if isinstance(f, CorruptCommitFound)] == [2, 4, 8]
    assert len(found) == 3


def test_a_missing_commit_in_the_middle_is_an_error(table: SmallTable) -> None:
    table.storage.delete([commit_key(7)])
    diagnosis = look(table.storage)
    finding = only(diagnosis)
    assert isinstance(finding, MissingCommit)
    assert (finding.version, finding.last, finding.severity) == (7, 7, Severity.ERROR)
    assert diagnosis.last_good == 6


def test_missing_commits_below_a_checkpoint_are_a_warning(table: SmallTable) -> None:
    table.storage.delete([commit_key(2), commit_key(3)])
    finding = only(look(table.storage))
    assert isinstance(finding, MissingCommit)
    assert (finding.version, finding.last, finding.covered_by) == (2, 3, 5)
    assert finding.severity is Severity.WARNING


def test_a_gap_that_a_log_compaction_fills_does_not_keep_the_table_from_opening(
    table: SmallTable,
) -> None:
    compact_log(table.storage, 6, 8)
    table.storage.delete([commit_key(7)])
    finding = only(look(table.storage))
    assert isinstance(finding, MissingCommit)
    assert finding.severity is Severity.WARNING


def test_a_log_cleaned_up_to_a_checkpoint_is_healthy(table: SmallTable) -> None:
    table.storage.delete([commit_key(version) for version in range(5)])
    assert look(table.storage).healthy


def test_a_truncated_log_without_a_checkpoint_is_an_error(table: SmallTable) -> None:
    table.storage.delete([commit_key(0), classic_checkpoint_key(5), HINT_KEY])
    diagnosis = look(table.storage)
    finding = only(diagnosis)
    assert isinstance(finding, MissingCheckpoint)
    assert (finding.oldest, diagnosis.last_good) == (1, None)


def test_a_broken_checkpoint_is_a_warning_while_the_log_is_whole(table: SmallTable) -> None:
    truncate(table.storage, classic_checkpoint_key(5))
    diagnosis = look(table.storage)
    finding = only(diagnosis)
    assert isinstance(finding, BrokenCheckpoint)
    assert (finding.version, finding.severity) == (5, Severity.WARNING)
    assert diagnosis.snapshot is not None


def test_a_broken_checkpoint_that_the_log_needs_is_an_error(table: SmallTable) -> None:
    truncate(table.storage, classic_checkpoint_key(5))
    table.storage.delete([commit_key(version) for version in range(5)])
    finding = only(look(table.storage))
    assert isinstance(finding, BrokenCheckpoint)
    assert finding.severity is Severity.ERROR


def test_a_missing_part_makes_a_checkpoint_incomplete(storage: Storage) -> None:
    table = SmallTable(storage=storage)
    table.grow(3)
    table.checkpoint(CheckpointKind.MULTI_PART, part_rows=1)
    storage.delete([part_checkpoint_key(3, 2, 3), HINT_KEY])
    finding = only(look(storage))
    assert isinstance(finding, IncompleteCheckpoint)
    assert (finding.missing_parts, finding.severity) == ((2,), Severity.WARNING)


def test_a_missing_sidecar_breaks_its_checkpoint(storage: Storage) -> None:
    table = SmallTable(storage=storage, features=("v2Checkpoint",))
    table.grow(3)
    table.checkpoint(CheckpointKind.V2)
    storage.delete([info.key for info in storage.list(SIDECAR_FOLDER)])
    finding = only(look(storage))
    assert isinstance(finding, BrokenCheckpoint)
    assert "gone" in finding.reason


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"version":3,"size":1}',
        b'{"version":5,"size":1,"checksum":"0"}',
    ],
    ids=["broken", "leads nowhere", "wrong checksum"],
)
def test_a_hint_that_cannot_be_followed_is_bad(table: SmallTable, body: bytes) -> None:
    table.storage.put(HINT_KEY, body)
    assert isinstance(only(look(table.storage)), BadHint)


def test_a_missing_data_file_is_named(table: SmallTable) -> None:
    table.storage.delete(["part-00004.parquet"])
    finding = only(look(table.storage))
    assert isinstance(finding, MissingDataFile)
    assert (finding.path, finding.version) == ("part-00004.parquet", 9)


def test_encoded_paths_are_looked_up_decoded(storage: Storage) -> None:
    table = SmallTable(storage=storage)
    storage.put("day=1 2/ä%41.parquet", b"x")
    table.commit(add("day=1%202/%C3%A4%2541.parquet", size=1))
    assert look(storage).findings == ()


def test_a_cut_off_data_file_has_the_wrong_size(table: SmallTable) -> None:
    truncate(table.storage, "part-00004.parquet")
    assert isinstance(only(look(table.storage)), WrongSize)


def test_a_file_that_nothing_names_is_an_orphan_once_it_is_old(table: SmallTable) -> None:
    table.storage.put("part-lost.parquet", b"four")
    diagnosis = look(table.storage)
    assert only(diagnosis) == OrphanFile(path="part-lost.parquet", size=4)
    assert diagnosis.healthy
    written_ms = table.storage.head("part-lost.parquet").modified_ms
    assert diagnose(table.storage, now_ms=written_ms + DAY_MS).findings == ()


def test_removed_files_are_no_orphans(table: SmallTable) -> None:
    removed = add("part-00004.parquet").to_remove(deletion_timestamp=FAR_FUTURE_MS)
    table.commit(removed)
    assert look(table.storage).findings == ()


@pytest.mark.parametrize("path", ["_change_data/x.parquet", ".hidden/x", "a/_tmp/x", ".x.crc"])
def test_hidden_files_are_no_orphans(table: SmallTable, path: str) -> None:
    table.storage.put(path, b"x")
    assert look(table.storage).findings == ()


def test_orphans_beyond_the_first_thousand_are_counted() -> None:
    table = SmallTable()
    for number in range(1_003):
        table.storage.put(f"lost-{number:04d}", b"four")
    found = look(table.storage).findings
    assert found[999] == OrphanFile(path="lost-0999", size=4)
    assert found[1_000:] == (MoreOrphans(count=3, size_bytes=12),)


def test_files_outside_the_table_are_said_not_to_be_checked(table: SmallTable) -> None:
    table.commit(add("s3://elsewhere/x.parquet"))
    finding = only(look(table.storage))
    assert finding == NotChecked(count=1, example="s3://elsewhere/x.parquet")


@pytest.mark.parametrize("form", ["{url}/{path}", "file:{plain}/{path}", "{plain}/{path}"])
def test_absolute_paths_within_the_table_are_checked(tmp_path: Path, form: str) -> None:
    table = SmallTable(storage=LocalStorage(tmp_path))
    table.storage.put("here.parquet", b"x")
    for path in ("here.parquet", "gone.parquet"):
        absolute = form.format(url=table.storage.url, plain=tmp_path, path=path)
        table.commit(add(absolute, size=1))
    finding = only(look(table.storage))
    assert finding == MissingDataFile(path="gone.parquet", size=1, version=table.version)  # type: ignore[arg-type]


def with_vector(table: SmallTable) -> str:
    file = DeletionVectorFile(UUID(int=7))
    vector = file.add(BitMap64([0, 3]))
    table.storage.put(file.path, file.to_bytes())
    table.commit(add("part-00001.parquet", deletion_vector=vector))
    return file.path


@pytest.fixture
def vector_table(storage: Storage) -> SmallTable:
    table = SmallTable(storage=storage, features=("deletionVectors",))
    table.append()
    return table


def test_a_readable_deletion_vector_is_no_finding(vector_table: SmallTable) -> None:
    with_vector(vector_table)
    assert look(vector_table.storage).findings == ()


@pytest.mark.parametrize("damage", ["a byte is flipped", "the file is gone"])
def test_a_damaged_deletion_vector_is_found(vector_table: SmallTable, damage: str) -> None:
    path = with_vector(vector_table)
    body = bytearray(vector_table.storage.get(path))
    body[-1] ^= 1
    vector_table.storage.delete([path])
    if damage == "a byte is flipped":
        vector_table.storage.put(path, bytes(body))
    finding = only(look(vector_table.storage))
    assert isinstance(finding, UnreadableDeletionVector)
    assert (finding.path, finding.vector) == ("part-00001.parquet", path)


def test_a_checksum_that_agrees_is_no_finding(table: SmallTable) -> None:
    checksum = VersionChecksum.of(load_snapshot(table.storage))
    table.storage.put(checksum_key(9), format_checksum(checksum))
    assert look(table.storage).findings == ()


@pytest.mark.parametrize("version", [5, 9], ids=["of a checkpoint", "of the latest version"])
def test_a_checksum_that_disagrees_is_found(table: SmallTable, version: int) -> None:
    wrong = VersionChecksum.of(load_snapshot(table.storage, version=2))
    table.storage.put(checksum_key(version), format_checksum(wrong))
    finding = only(look(table.storage))
    assert isinstance(finding, ChecksumMismatch)
    assert finding.version == version


@pytest.mark.parametrize(
    ("body", "agrees"),
    [
        (b'{"tableSizeBytes":234,"numFiles":9,"numMetadata":1,"numProtocol":1}', True),
        (b'{"tableSizeBytes":234,"numFiles":8}', False),
        (b"{", False),
    ],
)
def test_checksums_of_old_writers_are_compared_by_their_numbers(
    table: SmallTable, body: bytes, agrees: bool
) -> None:
    table.storage.put(checksum_key(9), body)
    assert look(table.storage).healthy is agrees


def test_a_table_that_needs_another_reader_is_said_to(table: SmallTable) -> None:
    table.commit(Protocol(min_reader_version=99, min_writer_version=99))
    assert isinstance(only(look(table.storage)), UnsupportedTable)


def test_a_log_without_metadata_is_unusable(storage: Storage) -> None:
    SmallTable(storage=storage)
    actions = parse_commit(storage.get(commit_key(0)))
    storage.put(commit_key(0), serialise_commit(actions[:-1]))
    assert isinstance(only(look(storage)), UnusableState)


def test_a_broken_log_compaction_is_a_warning(table: SmallTable) -> None:
    compact_log(table.storage, 6, 8)
    truncate(table.storage, compaction_key(6, 8))
    finding = only(look(table.storage))
    assert isinstance(finding, CorruptCommitFound)
    assert finding.severity is Severity.WARNING


def test_temporary_files_in_the_log_are_leftovers_once_they_are_old(table: SmallTable) -> None:
    table.storage.put(f"{LOG_FOLDER}_commit_1.json.tmp", b"{")
    diagnosis = look(table.storage)
    assert isinstance(only(diagnosis), TornUpload)
    assert diagnosis.healthy


def test_progress_is_told_by_phase(table: SmallTable) -> None:
    told: list[tuple[str, int, int | None]] = []
    diagnose(table.storage, now_ms=FAR_FUTURE_MS, progress=lambda *step: told.append(step))
    assert ("commits", 10, 10) in told
    assert ("checkpoints", 1, 1) in told
    assert any(phase == "files" for phase, _, _ in told)


def test_the_report_leads_with_the_worst_and_says_what_mends_it(table: SmallTable) -> None:
    table.storage.put("part-lost.parquet", b"four")
    table.storage.delete(["part-00004.parquet"])
    diagnosis = look(table.storage)
    lines = str(diagnosis).splitlines()
    assert lines[1].startswith("error: part-00004.parquet")
    assert all(finding.remedy in str(diagnosis) for finding in diagnosis.findings)
