from __future__ import annotations

import orjson
import pytest
from tests.builders import METADATA, make_add, make_vector

from polylake.errors import ValidationError
from polylake.log._actions import Add, AddCdc, DomainMetadata, Metadata, Protocol, Remove, Txn

ADD = {
    "path": "a%20b",
    "partitionValues": {"day": None},
    "size": 1,
    "modificationTime": 2,
    "dataChange": True,
}
METADATA_BODY = orjson.loads(orjson.dumps(METADATA.to_log()))


def test_a_path_is_kept_as_the_log_spells_it_and_decoded_for_use():
    add = Add.from_log(ADD)
    assert add.path == "a%20b"
    assert add.file_path == "a b"


@pytest.mark.parametrize("name", list(ADD))
def test_an_add_lacks_nothing_the_protocol_requires(name):
    with pytest.raises(ValidationError, match=name):
        Add.from_log({key: value for key, value in ADD.items() if key != name})


@pytest.mark.parametrize("kind", [Add, Remove, AddCdc])
def test_fields_the_protocol_does_not_know_are_ignored(kind):
    assert kind.from_log(ADD | {"fromTheFuture": [1]}) == kind.from_log(ADD)


@pytest.mark.parametrize("kind", [Add, Remove, AddCdc])
@pytest.mark.parametrize(("name", "value"), [("path", ""), ("size", -1)])
def test_a_file_without_a_path_or_of_negative_size_is_refused(kind, name, value):
    with pytest.raises(ValidationError):
        kind.from_log(ADD | {name: value})


@pytest.mark.parametrize("kind", [Add, Remove])
@pytest.mark.parametrize(
    "vector", [1, {}, make_vector().to_log() | {"storageType": "x"}, {"storageType": "u"}]
)
def test_a_deletion_vector_that_is_none_is_refused(kind, vector):
    with pytest.raises(ValidationError) as caught:
        kind.from_log(ADD | {"deletionVector": vector})
    assert caught.value.field == "deletionVector"


def test_a_remove_needs_its_path_only():
    remove = Remove.from_log({"path": "a"})
    assert remove.data_change is True
    assert remove.to_log() == {"path": "a", "dataChange": True}


def test_a_remove_says_when_it_has_the_files_metadata():
    assert Remove(path="a", partition_values={}, size=1).to_log()["extendedFileMetadata"] is True
    assert "extendedFileMetadata" not in Remove(path="a", size=1).to_log()


def test_the_remove_of_an_add_names_the_same_logical_file():
    add = make_add("a%20b", deletion_vector=make_vector(), base_row_id=5, tags={"k": "v"})
    remove = add.to_remove(deletion_timestamp=9, data_change=False)
    assert (remove.path, remove.deletion_vector) == (add.path, add.deletion_vector)
    assert (remove.deletion_timestamp, remove.data_change, remove.base_row_id) == (9, False, 5)
    assert (remove.partition_values, remove.size, remove.tags) == (
        add.partition_values,
        add.size,
        add.tags,
    )


def test_a_change_file_never_changes_data():
    assert AddCdc(path="a", size=1).to_log()["dataChange"] is False


def test_a_table_without_columns_may_leave_its_schema_out():
    body = {key: value for key, value in METADATA_BODY.items() if key != "schemaString"}
    assert Metadata.from_log(body).schema_string == '{"type":"struct","fields":[]}'


def test_null_properties_do_not_count():
    body = METADATA_BODY | {"configuration": {"a": None, "b": "c"}}
    assert Metadata.from_log(body).configuration == {"b": "c"}


@pytest.mark.parametrize("value", [None, "parquet", [], {}, {"provider": None}])
def test_metadata_needs_a_format(value):
    with pytest.raises(ValidationError):
        Metadata.from_log(METADATA_BODY | {"format": value})


def test_features_are_left_out_of_a_protocol_that_names_none():
    assert Protocol(min_reader_version=1, min_writer_version=2).to_log() == {
        "minReaderVersion": 1,
        "minWriterVersion": 2,
    }


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (Txn, {"appId": "a"}),
        (Txn, {"version": 1}),
        (Txn, {"appId": "a", "version": "1"}),
        (DomainMetadata, {"configuration": "{}"}),
        (DomainMetadata, {"domain": "d", "configuration": "", "removed": 1}),
        (Protocol, {"minReaderVersion": 1}),
        (Protocol, {"minReaderVersion": True, "minWriterVersion": 1}),
        (Protocol, {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": "a"}),
    ],
)
def test_an_action_with_a_wrong_field_is_refused(kind, body):
    with pytest.raises(ValidationError):
        kind.from_log(body)
