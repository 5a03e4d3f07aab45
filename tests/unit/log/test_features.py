from __future__ import annotations

import pytest

from polylake.errors import UnsupportedFeature, ValidationError
from polylake.log._actions import Protocol
from polylake.log._features import (
    FEATURES,
    check_readable,
    check_writable,
    lowest_protocol,
    required_features,
    supports,
    with_features,
)
from polylake.schema import parse_schema

TABLE = "memory://t"


def versions(reader: int, writer: int) -> Protocol:
    return Protocol(min_reader_version=reader, min_writer_version=writer)


def named(*features: str, readers: tuple[str, ...] | None = None) -> Protocol:
    if readers is None:
        readers = tuple(f for f in features if f in FEATURES and FEATURES[f].for_readers)
    return Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=readers,
        writer_features=features,
    )


@pytest.mark.parametrize(
    "protocol", [versions(1, 1), versions(1, 2), versions(2, 5), versions(2, 6), named()]
)
def test_every_protocol_up_to_the_newest_is_read_and_written(protocol):
    check_readable(protocol, TABLE)
    check_writable(protocol, TABLE)


@pytest.mark.parametrize("reader", [0, -1, 4, 99])
def test_a_reader_version_out_of_range_is_refused_and_named(reader):
    with pytest.raises(UnsupportedFeature, match=f"{TABLE} .*version {reader}"):
        check_readable(versions(reader, 7), TABLE)


@pytest.mark.parametrize("writer", [0, 8])
def test_a_writer_version_out_of_range_blocks_writing_only(writer):
    check_readable(versions(1, writer), TABLE)
    with pytest.raises(UnsupportedFeature, match=f"{TABLE} .*version {writer}"):
        check_writable(versions(1, writer), TABLE)


def test_unknown_reader_features_are_refused_and_all_named():
    protocol = named(
        "deletionVectors", "zeta", "alpha", readers=("deletionVectors", "zeta", "alpha")
    )
    with pytest.raises(UnsupportedFeature, match="alpha, zeta") as caught:
        check_readable(protocol, TABLE)
    assert caught.value.features == ("alpha", "zeta")
    assert TABLE in str(caught.value)


def test_an_unknown_writer_feature_blocks_writing_only():
    protocol = named("alpha", readers=())
    check_readable(protocol, TABLE)
    with pytest.raises(UnsupportedFeature, match=r"cannot write .*alpha"):
        check_writable(protocol, TABLE)


def test_what_cannot_be_read_cannot_be_written():
    with pytest.raises(UnsupportedFeature, match="cannot read"):
        check_writable(named("alpha", readers=("alpha",)), TABLE)


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview"])
def test_a_table_that_a_catalog_keeps_is_refused_with_a_way_out(feature):
    with pytest.raises(UnsupportedFeature, match="catalog's own client"):
        check_readable(named(feature), TABLE)


@pytest.mark.parametrize("feature", ["icebergCompatV1", "icebergCompatV2"])
def test_a_feature_that_is_read_but_not_written_blocks_writing(feature):
    check_readable(named(feature), TABLE)
    with pytest.raises(UnsupportedFeature, match=feature):
        check_writable(named(feature), TABLE)


def test_features_named_below_their_versions_do_not_count():
    protocol = Protocol(
        min_reader_version=1,
        min_writer_version=2,
        reader_features=("alpha",),
        writer_features=("alpha",),
    )
    check_writable(protocol, TABLE)


@pytest.mark.parametrize(
    ("reader", "writer", "implied"),
    [
        (1, 1, set()),
        (1, 2, {"appendOnly", "invariants"}),
        (1, 3, {"appendOnly", "invariants", "checkConstraints"}),
        (
            1,
            4,
            {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"},
        ),
        (
            2,
            5,
            {
                "appendOnly",
                "invariants",
                "checkConstraints",
                "changeDataFeed",
                "generatedColumns",
                "columnMapping",
            },
        ),
        (
            2,
            6,
            {
                "appendOnly",
                "invariants",
                "checkConstraints",
                "changeDataFeed",
                "generatedColumns",
                "columnMapping",
                "identityColumns",
            },
        ),
        (3, 7, set()),
    ],
)
def test_versions_imply_the_features_of_their_time(reader, writer, implied):
    protocol = versions(reader, writer)
    assert {name for name in FEATURES if supports(protocol, name)} == implied


def test_column_mapping_needs_both_versions():
    assert not supports(versions(1, 5), "columnMapping")
    assert not supports(versions(2, 4), "columnMapping")


def test_a_feature_for_readers_counts_where_readers_are_told():
    assert supports(named("deletionVectors"), "deletionVectors")
    assert not supports(named("deletionVectors", readers=()), "deletionVectors")


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ([], versions(1, 2)),
        (["appendOnly"], versions(1, 2)),
        (["checkConstraints"], versions(1, 3)),
        (["changeDataFeed"], versions(1, 4)),
        (["columnMapping"], versions(2, 5)),
        (["identityColumns"], versions(1, 6)),
        (["deletionVectors"], named("deletionVectors")),
        (
            ["domainMetadata"],
            Protocol(
                min_reader_version=1, min_writer_version=7, writer_features=("domainMetadata",)
            ),
        ),
        (
            ["rowTracking"],
            Protocol(
                min_reader_version=1,
                min_writer_version=7,
                writer_features=("domainMetadata", "rowTracking"),
            ),
        ),
        (["deletionVectors", "columnMapping"], named("columnMapping", "deletionVectors")),
    ],
)
def test_the_lowest_protocol_carries_the_features_and_no_more(features, expected):
    found = lowest_protocol(features)
    assert found == expected
    assert all(supports(found, feature) for feature in features)


@pytest.mark.parametrize("feature", sorted(n for n, f in FEATURES.items() if f.writable))
def test_every_writable_feature_has_a_protocol_that_polylake_writes(feature):
    protocol = lowest_protocol([feature])
    check_writable(protocol, TABLE)
    assert supports(protocol, feature)


@pytest.mark.parametrize("make", [lowest_protocol, lambda names: with_features(named(), names)])
@pytest.mark.parametrize("feature", ["alpha", "icebergCompatV2", "catalogManaged"])
def test_a_feature_polylake_cannot_write_is_not_switched_on(make, feature):
    with pytest.raises(ValidationError, match=feature):
        make([feature])


def test_a_protocol_that_has_the_features_stays_as_it_is():
    protocol = versions(2, 5)
    assert with_features(protocol, ["columnMapping", "appendOnly"]) is protocol


def test_a_legacy_feature_raises_the_versions_only():
    assert with_features(versions(1, 2), ["changeDataFeed"]) == versions(1, 4)


@pytest.mark.parametrize(("reader", "writer"), [(1, 1), (1, 2), (1, 4), (2, 5), (2, 6)])
@pytest.mark.parametrize("feature", ["deletionVectors", "domainMetadata", "clustering"])
def test_an_upgrade_to_named_features_keeps_what_was_implied(reader, writer, feature):
    before = versions(reader, writer)
    after = with_features(before, [feature])
    assert supports(after, feature)
    check_writable(after, TABLE)
    for name in FEATURES:
        assert supports(after, name) or not supports(before, name), name


def test_an_upgrade_keeps_features_it_does_not_know():
    after = with_features(named("alpha", readers=()), ["deletionVectors"])
    assert after.writer_features == ("alpha", "deletionVectors")
    assert after.reader_features == ("deletionVectors",)


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({}, set()),
        ({"delta.appendOnly": "TRUE"}, {"appendOnly"}),
        ({"delta.appendOnly": "false"}, set()),
        ({"delta.columnMapping.mode": "none"}, set()),
        ({"delta.columnMapping.mode": "name"}, {"columnMapping"}),
        ({"delta.enableRowTracking": "true"}, {"rowTracking", "domainMetadata"}),
        ({"delta.constraints.positive": "a > 0"}, {"checkConstraints"}),
        ({"delta.checkpointPolicy": "v2"}, {"v2Checkpoint"}),
    ],
)
def test_properties_need_features(configuration, expected):
    assert (
        required_features(parse_schema('{"type":"struct","fields":[]}'), configuration) == expected
    )


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ('{"name":"a","type":"timestamp_ntz"}', {"timestampNtz"}),
        ('{"name":"a","type":{"type":"array","elementType":"variant"}}', {"variantType"}),
        ('{"name":"a","type":"long","metadata":{"delta.invariants":"x"}}', {"invariants"}),
        ('{"name":"a","type":"long","metadata":{"CURRENT_DEFAULT":"1"}}', {"allowColumnDefaults"}),
        ('{"name":"a","type":"long"}', set()),
    ],
)
def test_columns_need_features(field, expected):
    schema = parse_schema(f'{{"type":"struct","fields":[{field}]}}')
    assert required_features(schema, {}) == expected
