"""What clustering refuses before anything is read."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.ops.changing import Kind, append, make_table, some_rows

from polylake.errors import ValidationError
from polylake.ops._cluster import cluster
from polylake.ops._cluster_plan import ClusterOptions, plan_cluster
from polylake.schema import (
    BINARY,
    LONG,
    STRING,
    VARIANT,
    ArrayType,
    MapType,
    StructField,
    StructType,
)

ODD = StructType(
    (
        StructField("id", LONG),
        StructField("list", ArrayType(LONG)),
        StructField("map", MapType(STRING, LONG)),
        StructField("struct", StructType((StructField("leaf", LONG),))),
        StructField("variant", VARIANT),
        StructField("bytes", BINARY),
        StructField("day", STRING),
    )
)


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("columns", {"columns": ()}),
        ("columns", {"columns": tuple("abcdefghi")}),
        ("columns", {"columns": ("id", "id")}),
        ("curve", {"curve": "peano"}),
        ("target_bytes", {"target_bytes": 0}),
        ("memory_bytes", {"memory_bytes": -1}),
        ("retries", {"retries": -1}),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_options_check_themselves(option: str, values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as caught:
        ClusterOptions(**{"columns": ("id",), **values})
    assert caught.value.field == option


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing", "no column"),
        ("struct.nothing", "no column"),
        ("id.leaf", "no column"),
        ("list", "no order"),
        ("map", "no order"),
        ("struct", "no order"),
        ("variant", "no order"),
        ("bytes", "no bounds"),
        ("day", "partition column"),
    ],
)
def test_columns_that_clustering_cannot_help_are_refused(name: str, reason: str) -> None:
    target = make_table(Kind(partition_by=("day",)), schema=ODD)
    with pytest.raises(ValidationError, match=reason) as caught:
        cluster(target, ClusterOptions(columns=("id", name)))
    assert caught.value.field == "columns"


def test_a_column_without_statistics_is_refused_with_a_way_out() -> None:
    target = make_table(properties={"delta.dataSkippingNumIndexedCols": "1"})
    with pytest.raises(ValidationError, match=r"delta\.dataSkippingStatsColumns"):
        cluster(target, ClusterOptions(columns=("name",)))


def test_fields_of_structs_can_be_named() -> None:
    target = make_table(schema=ODD)
    plan = plan_cluster(target.fresh(), ClusterOptions(columns=("struct.leaf",)))
    assert plan.columns == (("struct", "leaf"),)


def test_where_names_partition_columns_only() -> None:
    target = make_table(Kind(partition_by=("day",)))
    with pytest.raises(ValidationError, match="partition column") as caught:
        cluster(target, ClusterOptions(columns=("id",), where={"id": 1}))
    assert caught.value.field == "where"


def test_a_plan_can_be_read() -> None:
    target = make_table(Kind(partition_by=("day",)))
    append(target, some_rows(1, 2, 3))
    plan = plan_cluster(target.fresh(), ClusterOptions(columns=("id",)))
    lines = str(plan).splitlines()
    assert lines[1] == "cluster 2 files on id (hilbert), leave 0 as they are"
    assert lines[2].startswith("  day=d0: 1 file, ")
    assert plan.rows == 3
