"""Change feeds of tables that other writers wrote."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING, Any

import pytest
from tests.golden.judged import GOLDEN, load_cases

from polylake.engine.local import LocalEngine
from polylake.log import DeltaLog
from polylake.ops._changes import changes
from polylake.ops._target import Target
from polylake.storage import open_storage

if TYPE_CHECKING:
    import pyarrow as pa

CASES = [case for case in load_cases() if case["kind"] in {"cdf", "cdf-refuse"}]

pytestmark = pytest.mark.skipif(not CASES, reason=f"no golden tables at {GOLDEN}")


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_the_judge_accepts_the_feed(case: dict[str, Any]) -> None:
    spec = spec_from_file_location("golden_judge", GOLDEN / "judge.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    verdict = module.run_case(case, {"cdf": read_feed}, strict_types=True)
    assert verdict["verdict"] == "pass", verdict["why"]
    if case["kind"] == "cdf-refuse":
        assert verdict["why"].startswith("CDCError"), verdict["why"]


def read_feed(path: str, start: int, end: int | None) -> pa.Table:
    target = Target(DeltaLog(open_storage(path)), LocalEngine())
    return changes(target, start, end).to_arrow()
