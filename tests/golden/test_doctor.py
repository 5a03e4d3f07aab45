"""What doctor says of tables that other writers wrote."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from polylake.errors import LogError
from polylake.log._doctor import diagnose
from polylake.log._findings import (
    MissingCommit,
    MissingDataFile,
    Severity,
    UnreadableDeletionVector,
    UnsupportedTable,
    UnusableState,
)
from polylake.log._load import load_snapshot
from polylake.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = Path(os.environ.get("POLYLAKE_GOLDEN", Path(__file__).parents[3] / "shared" / "golden"))
NOW_MS = 4_000_000_000_000

# Only the logs of some tables are among the golden files.
DATA_IS_ELSEWHERE = (MissingDataFile, UnreadableDeletionVector)


def tables() -> Iterator[Any]:
    for log in sorted(GOLDEN.rglob("_delta_log")):
        yield pytest.param(log.parent, id=str(log.parent.relative_to(GOLDEN)))


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="set POLYLAKE_GOLDEN to the golden tables")
@pytest.mark.parametrize("root", list(tables()))
def test_the_log_of_a_table_is_sound_if_and_only_if_it_loads(root: Path) -> None:
    storage = LocalStorage(root)
    diagnosis = diagnose(storage, now_ms=NOW_MS)
    errors = [
        finding
        for finding in diagnosis.findings
        if finding.severity is Severity.ERROR and not isinstance(finding, DATA_IS_ELSEWHERE)
    ]
    try:
        load_snapshot(storage)
    except LogError:
        assert errors
        assert all(isinstance(f, UnsupportedTable | UnusableState | MissingCommit) for f in errors)
    else:
        assert errors == []
