"""Policies as values, as options and as table properties."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polylake.engine import Curve
from polylake.errors import ValidationError
from polylake.log import DeltaLog, TableOptions
from polylake.maintenance import OPTIONS, MaintenancePolicy, policy_reference
from polylake.ops import Strategy, VacuumMode
from polylake.schema import LONG, StructField, StructType
from polylake.storage import MemoryStorage
from polylake.table import DeltaTable

SCHEMA = StructType((StructField("id", LONG),))


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("maintenance.enabled", "false", "enabled", False),
        ("compaction.enabled", " FALSE ", "compaction_enabled", False),
        ("compaction.min-files", "7", "min_files", 7),
        ("compaction.min-files", 7, "min_files", 7),
        ("compaction.target-file-size", "128MB", "target_bytes", 128 * 2**20),
        ("compaction.target-file-size", "134217728", "target_bytes", 128 * 2**20),
        ("compaction.target-file-size", "1.5 GiB", "target_bytes", 3 * 2**29),
        ("compaction.target-file-size", "64k", "target_bytes", 64 * 2**10),
        ("compaction.target-file-size", "100b", "target_bytes", 100),
        ("compaction.check-interval-commits", "3", "check_interval_commits", 3),
        ("compaction.strategy", "greedy", "strategy", Strategy.GREEDY),
        ("compaction.strategy", "BIN_PACKING", "strategy", Strategy.BIN_PACKING),
        ("compaction.cluster.columns", "a, b", "cluster_columns", ("a", "b")),
        ("compaction.cluster.curve", "z-order", "cluster_curve", Curve.Z_ORDER),
        ("checkpoint.interval", "0", "checkpoint_interval", 0),
        ("vacuum.enabled", "True", "vacuum_enabled", True),
        ("vacuum.mode", "lite", "vacuum_mode", VacuumMode.LITE),
        ("vacuum.retention-hours", "24.5", "vacuum_retention_hours", 24.5),
        ("log-cleanup.keep-versions", "100", "log_keep_versions", 100),
        ("maintenance.memory", "512MB", "memory_bytes", 512 * 2**20),
        ("maintenance.pause-seconds", "0", "pause_s", 0),
    ],
)
def test_an_option_sets_its_field(name: str, text: object, field: str, value: object) -> None:
    assert getattr(MaintenancePolicy.from_options({name: text}), field) == value


def test_columns_for_z_order_choose_the_curve() -> None:
    policy = MaintenancePolicy.from_options({"compaction.z-order.columns": "a,b"})
    assert (policy.cluster_columns, policy.cluster_curve) == (("a", "b"), Curve.Z_ORDER)


def test_every_field_has_an_option_and_every_option_a_field() -> None:
    names = {field.name for field in fields(MaintenancePolicy)}
    assert {option.field for option in OPTIONS.values()} == names


def test_one_error_names_all_problems() -> None:
    options = {
        "compaction.min_files": "4",
        "compaction.target-file-size": "big",
        "vacuum.retention-hours": "0",
        "checkpoint.interval": "1.5",
        "zzz": "",
    }
    with pytest.raises(ValidationError) as caught:
        MaintenancePolicy.from_options(options)
    text = str(caught.value)
    assert "compaction.min_files is no option; did you mean compaction.min-files?" in text
    assert "compaction.target-file-size must be a size such as 128MB" in text
    assert "vacuum.retention-hours must be 1 or more" in text
    assert "checkpoint.interval must be a whole number, not '1.5'" in text
    assert "zzz is no option" in text
    assert len(caught.value.facts["problems"]) == 5  # type: ignore[arg-type]  # a tuple
    assert caught.value.field == "compaction.min_files"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("maintenance.enabled", "yes"),
        ("compaction.min-files", "1"),
        ("compaction.min-files", None),
        ("compaction.min-files", ""),
        ("compaction.target-file-size", "-1"),
        ("compaction.target-file-size", "infMB"),
        ("compaction.strategy", "best"),
        ("vacuum.retention-hours", "nan"),
        ("maintenance.interval-seconds", "0"),
        ("compaction.cluster.columns", ["a"]),
    ],
)
def test_a_value_that_is_none_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValidationError, match=name):
        MaintenancePolicy.from_options({name: value})


@pytest.mark.parametrize(
    "options",
    [
        {"compaction.z-order.columns": "a", "compaction.cluster.columns": "b"},
        {"compaction.z-order.columns": "a", "compaction.cluster.curve": "hilbert"},
    ],
    ids=["columns twice", "another curve"],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match=r"z-order"):
        MaintenancePolicy.from_options(options)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("enabled", "true"),
        ("min_files", True),
        ("min_files", 1),
        ("target_bytes", 0),
        ("strategy", "greedy"),
        ("cluster_columns", ["a"]),
        ("cluster_columns", ("a,b",)),
        ("cluster_columns", ("",)),
        ("interval_s", float("inf")),
        ("interval_s", None),
    ],
)
def test_a_policy_checks_its_fields(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        MaintenancePolicy(**{field: value})  # type: ignore[arg-type]  # on purpose


def _value(option: Any) -> st.SearchStrategy[Any]:
    least = option.least or 0
    numbers = {
        "a whole number": st.integers(int(least), 10**6),
        "a number": st.floats(max(least, 0.01), 10**6).map(lambda x: float(f"{x:.15g}")),
        "a size such as 128MB, or bytes": st.integers(int(least), 2**50),
        "true or false": st.booleans(),
        "column names with commas between them": st.lists(
            st.text("abc_é ", min_size=1).filter(lambda n: n == n.strip()), max_size=3
        ).map(tuple),
    }
    if option.kind.name in numbers:
        return numbers[option.kind.name]
    return st.sampled_from(
        {"strategy": Strategy, "cluster_curve": Curve, "vacuum_mode": VacuumMode}[option.field]
    ).map(lambda value: value)


@given(st.fixed_dictionaries({}, optional={o.field: _value(o) for o in OPTIONS.values()}))
def test_options_and_properties_read_back_as_the_policy(values: dict[str, Any]) -> None:
    policy = MaintenancePolicy(**values)
    assert MaintenancePolicy.from_options(policy.to_options()) == policy
    assert MaintenancePolicy.of(policy.to_properties()) == policy


def test_a_policy_of_defaults_needs_no_options() -> None:
    assert MaintenancePolicy().to_options() == {}


def test_explicit_options_win_over_properties() -> None:
    properties = {
        "polylake.maintenance.compaction.min-files": "9",
        "polylake.maintenance.checkpoint.interval": "3",
        "polylake.maintenance.compaction.z-order.columns": "a",
        "delta.appendOnly": "false",
    }
    overrides = {"compaction.min-files": "5", "compaction.cluster.columns": "b"}
    policy = MaintenancePolicy.of(properties, overrides)
    assert (policy.min_files, policy.checkpoint_interval) == (5, 3)
    assert (policy.cluster_columns, policy.cluster_curve) == (("b",), Curve.HILBERT)


def test_a_bad_property_is_named_in_full() -> None:
    properties = {
        "polylake.maintenance.compaction.min-file": "9",
        "polylake.maintenance.vacuum.enabled": "?",
    }
    with pytest.raises(ValidationError) as caught:
        MaintenancePolicy.of(properties, {"checkpoint.interval": "x"})
    text = str(caught.value)
    assert "did you mean polylake.maintenance.compaction.min-files?" in text
    assert "polylake.maintenance.vacuum.enabled must be true or false" in text
    assert "checkpoint.interval must be a whole number" in text


def test_a_table_takes_the_properties_of_a_policy_when_created_and_later() -> None:
    storage = MemoryStorage()
    DeltaLog(storage).create(
        SCHEMA, TableOptions(properties=MaintenancePolicy(min_files=9).to_properties())
    )
    table = DeltaTable(storage)
    table.alter.set_properties(MaintenancePolicy(pause_s=0.5).to_properties())
    policy = MaintenancePolicy.of(table.snapshot().configuration)
    assert policy == MaintenancePolicy(min_files=9, pause_s=0.5)


def test_the_reference_has_a_line_for_every_option() -> None:
    lines = policy_reference().splitlines()
    assert len(lines) == len(OPTIONS) + 2
    assert any(line.startswith("| `compaction.min-files` | a whole number | 4 |") for line in lines)
