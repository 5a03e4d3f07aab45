from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import METADATA, PROTOCOL, TableBuilder, make_add, make_remove

from polylake.errors import InvalidTableState, SchemaError, UnsupportedFeature
from polylake.log._actions import Metadata, Protocol, Txn
from polylake.log._commit_file import serialise_commit
from polylake.schema import MappingMode

MAPPED = Protocol(min_reader_version=2, min_writer_version=5)
NAMED = Protocol(min_reader_version=3, min_writer_version=7, reader_features=(), writer_features=())


def with_property(protocol: Protocol, name: str, value: str) -> TableBuilder:
    return TableBuilder().commit(protocol, replace(METADATA, configuration={name: value}))


def test_a_snapshot_says_what_the_log_says():
    snapshot = TableBuilder().create().append("a").load()
    assert (snapshot.table, snapshot.version) == ("memory://", 1)
    assert (snapshot.protocol, snapshot.metadata) == (PROTOCOL, METADATA)
    assert snapshot.partition_columns == ("day",)
    assert snapshot.schema.names == ("id", "day")
    assert snapshot.configuration == METADATA.configuration
    assert snapshot.commit_info.operation == "WRITE"
    assert repr(snapshot) == "Snapshot('memory://', version=1)"


@pytest.mark.parametrize(("action", "missing"), [(METADATA, "protocol"), (PROTOCOL, "metaData")])
def test_a_log_without_protocol_or_metadata_is_no_table(action, missing):
    with pytest.raises(InvalidTableState, match=f"memory://.*no {missing}"):
        TableBuilder().commit(action).load()


def test_a_protocol_that_cannot_be_read_is_named_before_anything_else():
    unread = Protocol(
        min_reader_version=3, min_writer_version=7, reader_features=("x",), writer_features=("x",)
    )
    with pytest.raises(UnsupportedFeature, match=r"memory://.* x"):
        TableBuilder().commit(unread).load()


def test_a_schema_is_read_when_it_is_asked_for():
    snapshot = TableBuilder().commit(PROTOCOL, Metadata(id="x", schema_string="{")).load()
    with pytest.raises(SchemaError):
        _ = snapshot.schema


@pytest.mark.parametrize(
    ("protocol", "value", "mode"),
    [
        (MAPPED, "name", MappingMode.NAME),
        (MAPPED, "id", MappingMode.ID),
        (MAPPED, "none", MappingMode.NONE),
        (PROTOCOL, "name", MappingMode.NONE),
        (NAMED, "name", MappingMode.NONE),
    ],
)
def test_column_mapping_counts_only_where_the_protocol_has_it(protocol, value, mode):
    snapshot = with_property(protocol, "delta.columnMapping.mode", value).load()
    assert snapshot.mapping_mode is mode


def test_an_unknown_mapping_mode_is_refused():
    snapshot = with_property(MAPPED, "delta.columnMapping.mode", "magic").load()
    with pytest.raises(SchemaError, match="magic"):
        _ = snapshot.mapping_mode


@pytest.mark.parametrize(
    ("features", "value", "expected"),
    [
        (("inCommitTimestamp",), "true", True),
        (("inCommitTimestamp",), "false", False),
        ((), "true", False),
    ],
)
def test_in_commit_timestamps_need_the_feature_and_the_property(features, value, expected):
    protocol = replace(NAMED, writer_features=features)
    snapshot = with_property(protocol, "delta.enableInCommitTimestamps", value).load()
    assert snapshot.in_commit_timestamps is expected


@pytest.mark.parametrize(("value", "expected"), [("true", True), ("TRUE", True), ("1", False)])
def test_a_property_is_set_where_it_is_true(value, expected):
    snapshot = with_property(PROTOCOL, "delta.appendOnly", value).load()
    assert snapshot.is_set("delta.appendOnly") is expected
    assert snapshot.is_set("delta.other") is False


def test_replaying_on_a_snapshot_leaves_it_as_it_is():
    snapshot = TableBuilder().create(Txn(app_id="a", version=1)).append("a").load()
    replay = snapshot.replay()
    more = [make_remove(make_add("a")), make_add("b"), Txn(app_id="a", version=2)]
    replay.apply(serialise_commit(more), "next")
    assert [add.path for add in snapshot.files.adds()] == ["a"]
    assert snapshot.txns["a"].version == 1
    assert [add.path for add in replay.files().adds()] == ["b"]
