"""Logs that other writers wrote, against what a correct reader says of them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.golden.judged import GOLDEN, judge, load_cases

from polylake.log._load import load_snapshot
from polylake.schema import (
    check_mapping,
    parse_partition_value,
    physical_name,
    to_arrow,
    to_physical,
)
from polylake.storage import open_storage

CASES = load_cases()
JUDGED = [case for case in CASES if case["group"] in {"log-only", "refuse", "golden-refuse"}]
READABLE: dict[str, set[int | None]] = {}
for _case in CASES:
    if not _case["kind"].endswith("refuse"):
        READABLE.setdefault(_case["table"], {None}).add(_case.get("version"))

pytestmark = pytest.mark.skipif(not CASES, reason=f"no golden tables at {GOLDEN}")


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in JUDGED])
def test_the_judge_accepts_the_answer(case: dict[str, Any]) -> None:
    verdict = judge(case)
    assert verdict["verdict"] == "pass", verdict["why"]


@pytest.mark.parametrize(
    ("table", "versions"),
    [
        pytest.param(table, versions, id=table.removeprefix(f"{GOLDEN}/"))
        for table, versions in READABLE.items()
    ],
)
def test_every_version_makes_sense(table: str, versions: set[int | None]) -> None:
    """Schema, mapping, partition values and statistics all read, whoever wrote them."""
    for version in versions:
        snapshot = load_snapshot(open_storage(table), version=version)
        mode = snapshot.mapping_mode
        check_mapping(snapshot.schema, mode)
        to_arrow(to_physical(snapshot.schema, mode))
        columns = {
            physical_name(field, mode): field.type
            for field in snapshot.schema
            if field.name in snapshot.partition_columns
        }
        assert len(columns) == len(snapshot.partition_columns)
        adds = list(snapshot.files.adds())
        assert len({add.file_path for add in adds}) == len(adds) == snapshot.files.num_files
        for add in adds:
            assert add.partition_values.keys() == columns.keys()
            for name, kind in columns.items():
                parse_partition_value(add.partition_values[name], kind, column=name)
            assert isinstance(orjson.loads(add.stats or "null"), dict | None)
