"""Changes that a table refuses; nothing is written then."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import METADATA, PROTOCOL, make_add, make_remove, make_vector

from polylake.errors import SchemaError, UnsupportedFeature, ValidationError
from polylake.log import AddCdc, DomainMetadata, Metadata, Protocol, lowest_protocol
from polylake.log._changes import Changes
from polylake.schema import LONG, STRING, PrimitiveType, StructField, StructType, schema_to_json

OLD = make_add("old")
DOMAIN = DomainMetadata(domain="polylake.x", configuration="{}")
WITH_VECTORS = lowest_protocol(["deletionVectors"])


def check(
    changes: Changes, *, protocol: Protocol = PROTOCOL, metadata: Metadata = METADATA
) -> None:
    changes.check(changes.protocol or protocol, changes.metadata or metadata, "memory://")


def configured(**properties: str) -> Metadata:
    names = {f"delta.{name}": value for name, value in properties.items()}
    return replace(METADATA, configuration=names)


def with_column(kind: str, **metadata: str) -> Metadata:
    column = StructField("extra", PrimitiveType(kind), metadata=metadata)
    columns = (StructField("id", LONG), StructField("day", STRING), column)
    return replace(METADATA, schema_string=schema_to_json(StructType(columns)))


def refusal(changes: Changes, **table: object) -> ValidationError:
    with pytest.raises(ValidationError) as refused:
        check(changes, **table)  # type: ignore[arg-type]  # named as check names them
    return refused.value


def test_actions_stand_in_the_order_of_their_weight() -> None:
    changes = Changes(adds=[OLD], removes=[make_remove(OLD)], metadata=METADATA, protocol=PROTOCOL)
    assert [type(action).__name__ for action in changes.actions()] == [
        "Protocol",
        "Metadata",
        "Remove",
        "Add",
    ]


@pytest.mark.parametrize(
    "changes",
    [
        Changes(adds=[OLD, OLD]),
        Changes(adds=[OLD, replace(OLD, deletion_vector=make_vector())]),
        Changes(adds=[make_add("a%20b"), make_add("a b")]),
        Changes(removes=[make_remove(OLD), make_remove(OLD)]),
        Changes(
            removes=[
                make_remove(OLD),
                make_remove(replace(OLD, deletion_vector=make_vector())),
            ]
        ),
    ],
    ids=["add", "add-with-vector", "add-spelt-otherwise", "remove", "remove-with-vector"],
)
def test_a_path_is_added_once_and_removed_once(changes: Changes) -> None:
    assert "twice" in str(refusal(changes, protocol=WITH_VECTORS))


def test_one_logical_file_is_not_added_and_removed_at_once() -> None:
    assert "both" in str(refusal(Changes(adds=[OLD], removes=[make_remove(OLD)])))


def test_a_file_is_replaced_by_itself_with_another_vector() -> None:
    replaced = replace(OLD, deletion_vector=make_vector())
    check(Changes(adds=[replaced], removes=[make_remove(OLD)]), protocol=WITH_VECTORS)


@pytest.mark.parametrize("value", ["true", "TRUE", "True"])
def test_an_append_only_table_keeps_its_rows(value: str) -> None:
    metadata = configured(appendOnly=value)
    removal = make_remove(OLD)
    assert refusal(Changes(removes=[removal]), metadata=metadata).field == "delta.appendOnly"
    check(Changes(removes=[replace(removal, data_change=False)]), metadata=metadata)
    check(Changes(removes=[removal]), metadata=configured(appendOnly="false"))


@pytest.mark.parametrize(
    "values", [{}, {"id": "1"}, {"day": "1", "id": "1"}, {"DAY": "1"}], ids=str
)
def test_partition_values_are_for_the_partition_columns(values: dict[str, str]) -> None:
    wrong = make_add("f", partition_values=values)
    assert refusal(Changes(adds=[wrong])).field == "partition_values"
    cdc = AddCdc(path="c", size=1, partition_values=values)
    assert refusal(Changes(cdc=[cdc])).field == "partition_values"


def test_a_table_without_partitions_takes_no_partition_values() -> None:
    plain = replace(METADATA, partition_columns=())
    assert refusal(Changes(adds=[OLD]), metadata=plain).field == "partition_values"
    check(Changes(adds=[make_add("f", partition_values={})]), metadata=plain)


def test_a_partition_value_may_be_null() -> None:
    check(Changes(adds=[make_add("f", partition_values={"day": None})]))


def test_partition_values_of_mapped_columns_go_by_physical_names() -> None:
    mapped = StructField(
        "day",
        STRING,
        metadata={"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"},
    )
    metadata = replace(
        configured(**{"columnMapping.mode": "name"}),
        schema_string=schema_to_json(StructType((mapped,))),
    )
    protocol = lowest_protocol(["columnMapping"])
    logical, physical = (make_add("f", partition_values={n: "1"}) for n in ("day", "col-1"))
    assert refusal(Changes(adds=[logical]), protocol=protocol, metadata=metadata)
    check(Changes(adds=[physical]), protocol=protocol, metadata=metadata)


def test_a_partition_column_must_be_in_the_schema() -> None:
    with pytest.raises(SchemaError):
        check(Changes(metadata=replace(METADATA, partition_columns=("nowhere",))))


def test_a_deletion_vector_needs_its_feature() -> None:
    add = replace(OLD, deletion_vector=make_vector())
    assert refusal(Changes(adds=[add])).field == "deletion_vector"
    check(Changes(adds=[add]), protocol=WITH_VECTORS)


@pytest.mark.parametrize("stats", [None, "{}", '{"numRecords":null}', "broken"])
def test_a_deletion_vector_needs_the_number_of_rows(stats: str | None) -> None:
    add = replace(OLD, deletion_vector=make_vector(), stats=stats)
    assert refusal(Changes(adds=[add]), protocol=WITH_VECTORS).field == "stats"


def test_a_domain_needs_its_feature() -> None:
    changes = Changes(domains={DOMAIN.domain: DOMAIN})
    assert refusal(changes).field == "domain"
    check(changes, protocol=lowest_protocol(["domainMetadata"]))


@pytest.mark.parametrize(
    ("metadata", "feature"),
    [
        (configured(appendOnly="true"), "appendOnly"),
        (configured(enableChangeDataFeed="true"), "changeDataFeed"),
        (configured(enableDeletionVectors="true"), "deletionVectors"),
        (configured(enableRowTracking="true"), "rowTracking"),
        (configured(enableInCommitTimestamps="true"), "inCommitTimestamp"),
        (configured(enableTypeWidening="true"), "typeWidening"),
        (configured(checkpointPolicy="v2"), "v2Checkpoint"),
        (configured(**{"constraints.positive": "id > 0"}), "checkConstraints"),
        (with_column("timestamp_ntz"), "timestampNtz"),
        (with_column("variant"), "variantType"),
        (with_column("long", **{"delta.generationExpression": "id"}), "generatedColumns"),
    ],
)
def test_features_the_protocol_lacks_are_named(metadata: Metadata, feature: str) -> None:
    bare = Protocol(
        min_reader_version=3, min_writer_version=7, reader_features=(), writer_features=()
    )
    refused = refusal(Changes(metadata=metadata), protocol=bare)
    assert feature in str(refused)
    assert feature in refused.facts["features"]  # type: ignore[operator]  # a tuple of names
    check(Changes(metadata=metadata, protocol=lowest_protocol([feature])))


@pytest.mark.parametrize(
    ("protocol", "feature"),
    [
        (
            Protocol(
                min_reader_version=1, min_writer_version=7, writer_features=("icebergCompatV2",)
            ),
            "icebergCompatV2",
        ),
        (
            Protocol(min_reader_version=1, min_writer_version=7, writer_features=("unheardOf",)),
            "unheardOf",
        ),
    ],
)
def test_a_table_of_an_unknown_writer_is_not_written(protocol: Protocol, feature: str) -> None:
    with pytest.raises(UnsupportedFeature) as refused:
        check(Changes(adds=[OLD]), protocol=protocol)
    assert refused.value.features == (feature,)


def test_a_later_writer_version_is_refused() -> None:
    with pytest.raises(UnsupportedFeature, match="version 8"):
        check(Changes(adds=[OLD]), protocol=Protocol(min_reader_version=1, min_writer_version=8))


def test_moved_rows_are_not_changed_data() -> None:
    moved = Changes(
        adds=[replace(OLD, data_change=False)],
        removes=[replace(make_remove(OLD), data_change=False)],
    )
    assert not moved.changes_data
    assert Changes(adds=[OLD]).changes_data
    assert Changes(removes=[make_remove(OLD)]).changes_data
