"""What the package shows, and what it costs to import it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import polylake
import polylake.cdc
import polylake.maintenance
import polylake.table

HEAVY = ("pyarrow", "polars", "obstore", "duckdb", "orjson", "pyspark", "pandas")


def test_the_names_of_the_package_are_these() -> None:
    assert sorted(polylake.__all__) == [
        "DeltaLog",
        "DeltaTable",
        "PolylakeError",
        "RetryPolicy",
        "TableCache",
        "__version__",
        "decode_variant",
        "encode_variant",
        "is_encodable",
        "matches",
        "open_storage",
        "with_retry",
    ]


def test_the_names_of_tables_are_these() -> None:
    assert sorted(polylake.table.__all__) == [
        "CacheCounts",
        "DeltaTable",
        "Scan",
        "TableAlter",
        "TableCache",
        "TableDetail",
        "TableReader",
        "TableTransaction",
        "TableVersion",
    ]


def test_the_names_of_maintenance_are_these() -> None:
    assert sorted(polylake.maintenance.__all__) == [
        "Durations",
        "Duty",
        "DutyKind",
        "Health",
        "HealthCheck",
        "HealthSeverity",
        "HealthThresholds",
        "JournalEntry",
        "MAINTAINER_APP",
        "MaintainerLease",
        "MaintainerRecord",
        "MaintenanceManager",
        "MaintenanceMetrics",
        "MaintenancePolicy",
        "Mend",
        "OPTIONS",
        "Outcome",
        "PolicyOption",
        "UpkeepState",
        "due",
        "health",
        "observe_metrics",
        "policy_reference",
        "prometheus_page",
        "read_journal",
        "read_maintainer",
        "to_prometheus",
    ]


def test_the_names_of_change_data_capture_are_these() -> None:
    assert sorted(polylake.cdc.__all__) == [
        "ApplyMetrics",
        "ApplyMode",
        "CDCConsumer",
        "CDCOperation",
        "CDCProducer",
        "CDCRecord",
        "CDCSource",
        "CDCStart",
        "ChangeBatch",
        "ConsumerOptions",
        "DeadLetters",
        "DebeziumMessage",
        "FeedSource",
        "Follower",
        "MemoryOffsets",
        "MemorySequences",
        "ObjectId",
        "OffsetStore",
        "RecordFilter",
        "RecordSource",
        "RecordTable",
        "SequenceStore",
        "Subscription",
        "TableOffsets",
        "TableProducer",
        "TableSequences",
        "apply",
        "collapse",
        "feed_to_arrow",
        "follow",
        "from_debezium",
        "from_entity_event",
        "from_mongo",
        "origin_of",
        "record_batches",
        "record_schema",
        "records_from_arrow",
        "records_from_feed",
        "records_to_arrow",
        "records_to_feed",
        "to_debezium",
        "to_entity_event",
        "to_mongo",
        "without_echo",
    ]


@pytest.mark.parametrize("module", [polylake, polylake.table, polylake.maintenance, polylake.cdc])
def test_every_name_is_there(module: object) -> None:
    for name in module.__all__:  # type: ignore[attr-defined] # of modules
        assert getattr(module, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = polylake.nonsense


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = f"import sys, polylake; print([m for m in {HEAVY!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_holding_a_table_loads_no_client_of_an_object_store() -> None:
    code = (
        "import sys; from polylake import DeltaTable; t = DeltaTable('memory://');"
        "t.exists(); print([m for m in ('obstore', 'duckdb', 'pandas') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
