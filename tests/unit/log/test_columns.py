from __future__ import annotations

import pyarrow as pa
import pytest
from tests.builders import make_add, make_remove, make_vector

from polylake.errors import ValidationError
from polylake.log._columns import (
    ADD_COLUMNS,
    REMOVE_COLUMNS,
    check_add,
    check_remove,
    fit_columns,
    key_columns,
    rows_to_adds,
    rows_to_removes,
    to_columns,
    vector_id,
)
from polylake.log._names import logical_key

PLAIN = make_add("a%20b", partition_values={}).to_log()


@pytest.mark.parametrize(
    "add",
    [
        make_add("a"),
        make_add("a%20b", partition_values={}),
        make_add("a", deletion_vector=make_vector(), tags={"k": None}, base_row_id=1),
        make_add("a", stats=None, default_row_commit_version=2, clustering_provider="liquid"),
    ],
)
def test_an_add_goes_through_columns_unchanged(add):
    body = add.to_log()
    assert check_add(body) == add.file_path
    assert list(rows_to_adds(to_columns([body], ADD_COLUMNS))) == [add]


def test_a_remove_goes_through_columns_without_its_statistics():
    remove = make_remove(make_add("a%20b", stats=None, deletion_vector=make_vector()))
    body = remove.to_log()
    assert check_remove(body) == "a b"
    assert list(rows_to_removes(to_columns([body], REMOVE_COLUMNS))) == [remove]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("path", ""),
        ("path", None),
        ("path", "%ff"),
        ("size", -1),
        ("size", True),
        ("size", 2**63),
        ("size", 1.0),
        ("modificationTime", None),
        ("modificationTime", -(2**63) - 1),
        ("partitionValues", None),
        ("partitionValues", []),
        ("partitionValues", {"a": 1}),
        ("dataChange", 1),
        ("stats", 1),
        ("stats", {}),
        ("tags", []),
        ("deletionVector", {}),
        ("baseRowId", "1"),
        ("clusteringProvider", 1),
    ],
)
def test_an_add_that_does_not_fit_the_columns_is_refused(name, value):
    with pytest.raises(ValidationError):
        check_add(PLAIN | {name: value})


@pytest.mark.parametrize("name", ["stats", "tags", "deletionVector", "baseRowId"])
def test_an_optional_field_may_be_null(name):
    check_add(PLAIN | {name: None})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("path", None),
        ("size", -1),
        ("deletionTimestamp", "now"),
        ("extendedFileMetadata", 0),
        ("partitionValues", {"a": 1}),
        ("deletionVector", 1),
    ],
)
def test_a_remove_that_does_not_fit_the_columns_is_refused(name, value):
    with pytest.raises(ValidationError):
        check_remove({"path": "a"} | {name: value})


def test_the_keys_of_columns_are_those_of_the_objects():
    inline = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
    bodies = [
        make_add("a").to_log(),
        make_add("b%20c").to_log(),
        make_add("a", deletion_vector=make_vector(7)).to_log(),
        make_add("d").to_log() | {"deletionVector": inline},
    ]
    paths, keys = key_columns(to_columns(bodies, ADD_COLUMNS))
    assert paths.to_pylist() == [check_add(body) for body in bodies]
    assert keys.to_pylist() == [logical_key(check_add(body), vector_id(body)) for body in bodies]


def test_keys_without_deletion_vectors_are_the_paths():
    _, keys = key_columns(to_columns([make_add("a%25").to_log()], ADD_COLUMNS))
    assert keys.to_pylist() == ["a%"]


def test_no_rows_have_no_keys():
    assert [len(column) for column in key_columns(to_columns([], ADD_COLUMNS))] == [0, 0]


def test_missing_columns_are_null_and_narrow_types_widened():
    source = pa.table({"path": pa.array(["a"], pa.large_string()), "size": pa.array([5], "int32")})
    found = fit_columns(source, ADD_COLUMNS, ["path", "size", "stats", "deletionVector"])
    assert found.to_pylist() == [{"path": "a", "size": 5, "stats": None, "deletionVector": None}]
    assert found.schema.types == [ADD_COLUMNS[name] for name in found.column_names]


def test_the_fields_of_a_deletion_vector_are_matched_by_name():
    fields = {"cardinality": 2, "unknown": 1, "storageType": "u", "pathOrInlineDv": "p"}
    source = pa.table({"deletionVector": [fields, None]})
    found = fit_columns(source, ADD_COLUMNS, ["deletionVector"])["deletionVector"].to_pylist()
    assert found == [
        {
            "storageType": "u",
            "pathOrInlineDv": "p",
            "offset": None,
            "sizeInBytes": None,
            "cardinality": 2,
        },
        None,
    ]


@pytest.mark.parametrize(
    ("name", "values"), [("size", ["x"]), ("path", [[1]]), ("partitionValues", ["x"])]
)
def test_a_column_of_a_type_that_does_not_fit_is_refused(name, values):
    with pytest.raises(ValidationError) as caught:
        fit_columns(pa.table({name: values}), ADD_COLUMNS, [name])
    assert caught.value.field == name
