"""polylake behind the functions that the golden tables' judge calls."""

from __future__ import annotations

import json
import os
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from polylake.log._load import load_snapshot
from polylake.storage import open_storage

GOLDEN = Path(os.environ.get("POLYLAKE_GOLDEN", Path(__file__).parents[3] / "shared" / "golden"))


def load_cases() -> list[dict[str, Any]]:
    """Return every case with absolute paths; none where the golden tables are absent."""
    if not (GOLDEN / "cases.json").is_file():
        return []
    cases: list[dict[str, Any]] = json.loads((GOLDEN / "cases.json").read_bytes())
    for case in cases:
        for name in ("table", "expected"):
            if case.get(name):
                case[name] = str(GOLDEN / case[name])
    return cases


def judge(case: dict[str, Any]) -> dict[str, Any]:
    """Return the judge's own verdict on one case."""
    spec = spec_from_file_location("golden_judge", GOLDEN / "judge.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    verdict: dict[str, Any] = module.run_case(case, {"snapshot": snapshot, "read": open_files})
    return verdict


def snapshot(path: str, version: int | None = None) -> dict[str, Any]:
    """Say what the log holds, in the judge's words."""
    found = load_snapshot(open_storage(path), version=version)
    return {
        "version": found.version,
        "files": [add.file_path for add in found.files.adds()],
        "min_reader": found.protocol.min_reader_version,
        "min_writer": found.protocol.min_writer_version,
        "partition_columns": list(found.partition_columns),
        "txn": {app_id: txn.version for app_id, txn in found.txns.items()},
        "domains": {name: domain.configuration for name, domain in found.domains.items()},
    }


def open_files(path: str, version: int | None = None) -> pa.Table:
    """Open the footer of every live file; enough to tell a table that must be refused."""
    storage = open_storage(path)
    found = load_snapshot(storage, version=version)
    rows = 0
    for add in found.files.adds():
        with pq.ParquetFile(storage.open_reader(add.file_path, size=add.size)) as file:
            rows += file.metadata.num_rows
    return pa.table({"rows": [rows]})
