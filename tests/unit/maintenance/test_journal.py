"""What was done stays readable, and does not pile up."""

from __future__ import annotations

import logging

import pytest

from polylake.errors import ValidationError
from polylake.maintenance._journal import (
    JOURNAL_FOLDER,
    Journal,
    JournalEntry,
    Outcome,
    read_journal,
)
from polylake.storage import Fault, FaultKind, FaultyStorage, MemoryStorage


def entry(number: int, outcome: Outcome = Outcome.RAN) -> JournalEntry:
    return JournalEntry(
        time_ms=1_700_000_000_000 + number,
        kind="compaction",
        outcome=outcome,
        why="4 small files",
        what={"files_compacted": 4},
        version=number,
        duration_ms=12,
        holder="a",
    )


def test_an_entry_survives_being_stored() -> None:
    assert JournalEntry.from_json(entry(1).to_json()) == entry(1)


def test_an_entry_reads_as_a_sentence() -> None:
    assert str(entry(1)) == "compaction ran in 12 ms: 4 small files (files_compacted 4)"


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"outcome": "ran", "x": 1}'])
def test_what_is_no_entry_is_refused(data: bytes) -> None:
    with pytest.raises(ValidationError, match="not an entry"):
        JournalEntry.from_json(data)


def test_every_process_reads_what_was_done_newest_first() -> None:
    storage = MemoryStorage()
    for number in range(5):
        Journal(storage).record(entry(number), keep=100)
    assert read_journal(storage) == [entry(number) for number in (4, 3, 2, 1, 0)]
    assert read_journal(storage, limit=2) == [entry(4), entry(3)]


def test_what_was_passed_over_stays_in_memory() -> None:
    storage = MemoryStorage()
    journal = Journal(storage)
    journal.record(entry(1, Outcome.SKIPPED), keep=100)
    journal.record(entry(2, Outcome.FAILED), keep=100)
    assert [found.version for found in journal.entries()] == [2, 1]
    assert journal.entries(1) == [entry(2, Outcome.FAILED)]
    assert read_journal(storage) == [entry(2, Outcome.FAILED)]


def test_only_about_the_newest_entries_are_kept() -> None:
    storage = MemoryStorage()
    journal = Journal(storage)
    for number in range(100):
        journal.record(entry(number), keep=20)
    versions = [found.version for found in read_journal(storage, limit=None)]
    assert versions[:20] == list(range(99, 79, -1))
    assert len(versions) <= 22


def test_memory_holds_a_bounded_number_of_entries() -> None:
    journal = Journal(MemoryStorage())
    for number in range(1_500):
        journal.record(entry(number, Outcome.SKIPPED), keep=20)
    assert len(journal.entries()) == 1_000
    assert journal.entries(1)[0].version == 1_499


def test_a_journal_that_cannot_be_written_is_no_reason_to_fail(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault("put_if_absent", None, FaultKind.FAIL)])
    journal = Journal(storage)
    journal.record(entry(1), keep=20)
    assert journal.entries() == [entry(1)]
    assert "the journal cannot be written" in caplog.text


def test_entries_go_to_the_log_of_the_program(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="polylake.maintenance")
    journal = Journal(MemoryStorage())
    journal.record(entry(1), keep=20)
    journal.record(entry(2, Outcome.FAILED), keep=20)
    levels = [(record.levelname, record.message) for record in caplog.records]
    assert [level for level, _ in levels] == ["INFO", "WARNING"]
    assert "compaction ran in 12 ms" in levels[0][1]


def test_an_entry_that_is_pruned_while_it_is_read_is_passed_over() -> None:
    class Pruning(FaultyStorage):
        def get(self, key: str) -> bytes:
            self.delete([info.key for info in self.list(JOURNAL_FOLDER)][:1])
            return super().get(key)

    storage = Pruning(MemoryStorage())
    for number in range(3):
        Journal(storage).record(entry(number), keep=100)
    assert [found.version for found in read_journal(storage)] == [2]
