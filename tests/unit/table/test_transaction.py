"""One commit of any mix of changes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.table.tables import FEED, PEOPLE, QUICK, VECTORS, ids, metered, new_table

from polylake.engine import Layout
from polylake.errors import (
    ConcurrencyError,
    ConcurrentDelete,
    ConcurrentDomainChange,
    ConcurrentTransaction,
    MetadataChanged,
    SchemaError,
    StorageUnavailable,
    ValidationError,
)
from polylake.log import supports, with_features
from polylake.schema import LONG, StructField, StructType, schema_to_json
from polylake.storage import Fault, FaultKind, FaultyStorage, MemoryStorage, MeteredStorage
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from polylake.log import Metadata
    from polylake.table import TableTransaction

DOMAINS = {"features": ("domainMetadata",)}


def data_files(table: DeltaTable) -> set[str]:
    return {info.key for info in table._target.storage.list() if info.key.endswith(".parquet")}


def positions(table: DeltaTable, *keys: int) -> dict[str, list[int]]:
    rows = table.scan({"_id": {"$in": list(keys)}}, ["_id"], positions=True).to_arrow()
    found: dict[str, list[int]] = {}
    for row in rows.to_pylist():
        found.setdefault(row["__file"], []).append(row["__row"])
    return found


def with_column(metadata: Metadata, schema: StructType, name: str) -> Metadata:
    wider = StructType((*schema, StructField(name, LONG)))
    return replace(metadata, schema_string=schema_to_json(wider))


def test_rows_deletes_removes_and_progress_are_one_version() -> None:
    table = new_table(PEOPLE, properties=VECTORS)
    table.write([{"_id": 10}, {"_id": 11}])
    table.write([{"_id": 20}])
    (gone,) = positions(table, 20)
    with table.transaction("INGEST", parameters={"batch": 7}) as transaction:
        transaction.write([{"_id": 30}])
        transaction.delete_rows(positions(table, 2, 11))
        transaction.remove_files([gone])
        transaction.set_txn("ingest", 42)
        transaction.add_metrics(numOutputRows=1)
    assert transaction.result.version == table.version == 3
    assert sorted(ids(table.query())) == [1, 3, 10, 30]
    assert table.count() == 4
    assert table.txn_version("ingest") == 42
    entry = next(table.history())
    assert entry.operation == "INGEST"
    assert (entry.parameters, entry.metrics) == ({"batch": "7"}, {"numOutputRows": "1"})


def test_nothing_shows_before_the_commit() -> None:
    table = new_table(PEOPLE)
    with table.transaction() as transaction:
        transaction.write([{"_id": 4}])
        with pytest.raises(ValidationError, match="not committed"):
            _ = transaction.result
        assert DeltaTable(table._target.storage).count() == 3
    assert table.count() == 4


def test_an_error_in_the_block_leaves_the_table_and_its_folder_as_they_were() -> None:
    table = new_table(PEOPLE)
    before = data_files(table)

    def fail(transaction: TableTransaction) -> None:
        with transaction:
            transaction.write([{"_id": 4}])
            assert data_files(table) > before
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fail(table.transaction())
    assert (table.refresh().version, data_files(table)) == (0, before)


def test_a_transaction_is_committed_once_and_its_files_stay() -> None:
    table = new_table(PEOPLE)
    with table.transaction() as transaction:
        transaction.write([{"_id": 4}])
        transaction.commit()
        with pytest.raises(ValidationError, match="committed already"):
            transaction.commit()
    assert (table.version, table.count({"_id": 4})) == (1, 1)


def test_an_error_after_the_commit_does_not_take_it_back() -> None:
    table = new_table(PEOPLE)

    def fail(transaction: TableTransaction) -> None:
        with transaction:
            transaction.write([{"_id": 4}])
            transaction.commit()
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fail(table.transaction())
    assert table.query({"_id": 4})[0]["_id"] == 4


@pytest.mark.parametrize("kind", [FaultKind.FAIL, FaultKind.LAND_THEN_ERROR])
def test_files_are_kept_where_the_store_did_not_answer(kind: FaultKind) -> None:
    inner = MemoryStorage()
    new_table(PEOPLE, inner)
    faults = [
        Fault("put_if_absent", None, kind, key="00001.json"),
        Fault("get", None, FaultKind.FAIL, key="00001.json"),
    ]
    table = DeltaTable(FaultyStorage(inner, faults), settings=QUICK)
    transaction = table.transaction()
    transaction.write([{"_id": 4}])
    with pytest.raises(Exception, match="fault at call"):
        transaction.commit()
    with pytest.raises(ValidationError):
        transaction.commit()
    after = DeltaTable(inner)
    assert len(data_files(after)) == 2
    assert len(after.query()) == (3 if kind is FaultKind.FAIL else 4)


def test_rows_have_to_keep_the_rules_of_the_table() -> None:
    table = new_table(PEOPLE)
    table.alter.enable_features(["checkConstraints"])
    table.alter.add_constraint("born", "_id > 0")
    for rows, error in (([{"_id": -1}], ValidationError), ([{"nowhere": 1}], SchemaError)):
        with pytest.raises(error), table.transaction() as transaction:
            transaction.write(rows)
    assert (table.refresh().version, len(data_files(table))) == (2, 1)


def test_a_new_column_and_its_first_values_are_one_version() -> None:
    table = new_table(PEOPLE)
    with table.transaction() as transaction:
        transaction.set_metadata(with_column(table.metadata, table.schema, "score"))
        transaction.write([{"_id": 4, "score": 9}])
    assert table.version == 1
    assert table.query({"score": 9}, projection=["score"]) == [{"_id": 4, "score": 9}]
    assert table.query({"_id": 1})[0]["score"] is None


def test_a_feature_and_what_needs_it_are_one_version() -> None:
    table = new_table(PEOPLE)
    with table.transaction() as transaction:
        transaction.set_protocol(with_features(table.snapshot().protocol, ["deletionVectors"]))
        transaction.set_metadata(replace(table.metadata, configuration=VECTORS))
    assert table.delete({"_id": 1}).vectors_added == 1
    assert supports(table.snapshot().protocol, "deletionVectors")


def test_the_layout_of_new_files_can_be_chosen() -> None:
    table = new_table(PEOPLE)
    with table.transaction() as transaction:
        (file,) = transaction.write([{"_id": n} for n in range(9)], layout=Layout(row_group_rows=3))
    assert table.take(file.path, [8], ["_id"]).to_pylist() == [{"_id": 8}]


def test_files_written_elsewhere_are_added_as_they_are() -> None:
    table, source = new_table(PEOPLE), new_table(PEOPLE)
    (file,) = source.snapshot().files.adds()
    table._target.storage.put("copy.parquet", source._target.storage.get(file.file_path))
    with table.transaction() as transaction:
        transaction.add_files([replace(file, path="copy.parquet")])
    assert table.count({"city": "rome"}) == 4


@pytest.mark.parametrize("wrong", [[-1], [3], [0, 99]])
def test_a_row_that_a_file_does_not_have_is_not_deleted(wrong: list[int]) -> None:
    table = new_table(PEOPLE, properties=VECTORS)
    (path,) = positions(table, 1)
    with pytest.raises(ValidationError, match="3 rows"), table.transaction() as transaction:
        transaction.delete_rows({path: wrong})
    assert table.refresh().count() == 3


@pytest.mark.parametrize(
    "act",
    [
        lambda t: t.delete_rows({"nowhere.parquet": [0]}),
        lambda t: t.remove_files(["nowhere.parquet"]),
    ],
)
def test_a_file_that_is_not_live_is_refused_at_once(act: Any) -> None:
    table = new_table(PEOPLE, properties=VECTORS)
    with pytest.raises(ValidationError, match="not a live file"):
        act(table.transaction())


def test_rows_are_not_deleted_by_position_without_vectors() -> None:
    table = new_table(PEOPLE)
    with pytest.raises(ValidationError, match="no deletion vectors"):
        table.transaction().delete_rows(positions(table, 1))


def test_deletes_add_up_and_the_last_row_takes_the_file_with_it() -> None:
    table = new_table(PEOPLE, properties=VECTORS)
    for key in (1, 2, 3):
        with table.transaction() as transaction:
            transaction.delete_rows(positions(table, key))
            transaction.delete_rows(positions(table, key))
    assert (table.count(), table.detail().num_files) == (0, 0)


def test_rows_that_are_deleted_already_change_nothing() -> None:
    table = new_table(PEOPLE, properties=VECTORS)
    found = positions(table, 1)
    table.delete({"_id": 1})
    with table.transaction() as transaction:
        transaction.write([{"_id": 4}])
        transaction.delete_rows(found)
    assert (table.count(), table.detail().num_files) == (3, 2)


def test_a_file_cannot_go_twice() -> None:
    table = new_table(PEOPLE, properties=VECTORS)
    found = positions(table, 1)
    transaction = table.transaction()
    transaction.delete_rows(found)
    transaction.remove_files(found)
    with pytest.raises(ValidationError):
        transaction.commit()
    assert table.refresh().version == 0


def test_changes_of_a_transaction_are_in_the_feed() -> None:
    table = new_table(PEOPLE, properties=FEED | VECTORS)
    with table.transaction() as transaction:
        transaction.write([{"_id": 4}])
        transaction.delete_rows(positions(table, 1))
    rows = table.changes(1).to_arrow().to_pylist()
    assert sorted((row["_change_type"], row["_id"]) for row in rows) == [
        ("delete", 1),
        ("insert", 4),
    ]


def test_the_same_progress_is_recorded_once() -> None:
    table = new_table(PEOPLE)
    for _ in range(2):
        with table.transaction() as transaction:
            transaction.write([{"_id": 4}])
            transaction.set_txn("app", 1)
    assert not transaction.result.applied
    assert (table.version, table.count(), len(data_files(table))) == (1, 4, 2)


@pytest.mark.parametrize(("expected", "fits"), [(None, False), (1, True), (2, False)])
def test_progress_follows_what_was_expected(expected: int | None, fits: bool) -> None:
    table = new_table(PEOPLE, txn=("app", 1))
    transaction = table.transaction()
    transaction.write([{"_id": 4}])
    transaction.set_txn("app", 5, expected=expected)
    if fits:
        assert transaction.commit().version == 1
        return
    with pytest.raises(ConcurrentTransaction) as caught:
        transaction.commit()
    assert caught.value.facts["actual_version"] == 1
    assert (table.refresh().version, len(data_files(table))) == (0, 1)


def test_a_domain_is_set_with_the_rows() -> None:
    table = DeltaTable.create(MemoryStorage(), [{"_id": 1}], **DOMAINS)
    with table.transaction() as transaction:
        transaction.write([{"_id": 1}])
        transaction.set_domain("app.offsets", '{"0": 17}')
    assert table.domain("app.offsets") == '{"0": 17}'
    with pytest.raises(ValidationError, match="belongs to the protocol"):
        table.transaction().set_domain("delta.mine", "{}")


def test_progress_and_domains_are_looked_up_without_listing_files() -> None:
    table, storage = metered([{"_id": 1}], txn=("app", 3))
    assert (table.txn_version("app"), table.domain("none")) == (3, None)
    assert storage.total.requests == 0
    assert "_table" not in vars(table.snapshot().files)


def test_a_version_that_is_expected_has_to_be_the_latest() -> None:
    table = new_table(PEOPLE)
    with table.transaction(expected_version=0) as transaction:
        transaction.write([{"_id": 4}])
    with pytest.raises(ConcurrencyError) as caught:
        table.transaction(expected_version=0)
    assert (caught.value.facts["expected_version"], caught.value.facts["actual_version"]) == (0, 1)


def test_a_version_that_was_expected_has_to_be_the_latest_still() -> None:
    table = new_table(PEOPLE)
    transaction = table.transaction(expected_version=0)
    transaction.write([{"_id": 4}])
    DeltaTable(table._target.storage).write([{"_id": 5}])
    with pytest.raises(ConcurrencyError):
        transaction.commit()
    assert sorted(ids(table.refresh().query())) == [1, 2, 3, 5]
    assert len(data_files(table)) == 2


def _delete_one(table: DeltaTable) -> None:
    table.delete({"_id": 1})


@pytest.mark.parametrize(
    ("ours", "theirs", "conflict"),
    [
        (lambda x, t: x.write([{"_id": 4}]), lambda t: t.write([{"_id": 5}]), None),
        (lambda x, t: x.write([{"_id": 4}]), _delete_one, None),
        (lambda x, t: x.delete_rows(positions(t, 2)), lambda t: t.write([{"_id": 5}]), None),
        (lambda x, t: x.delete_rows(positions(t, 2)), _delete_one, ConcurrentDelete),
        (lambda x, t: x.remove_files(positions(t, 2)), _delete_one, ConcurrentDelete),
        (
            lambda x, t: x.write([{"_id": 4}]),
            lambda t: t.alter.set_comment("_id", "key"),
            MetadataChanged,
        ),
        (
            lambda x, t: x.set_txn("a", 1),
            lambda t: t.write([{"_id": 5}], txn=("a", 0)),
            ConcurrentTransaction,
        ),
        (
            lambda x, t: x.set_domain("d", "1"),
            lambda t: _set_domain(t, "d"),
            ConcurrentDomainChange,
        ),
        (lambda x, t: x.set_domain("d", "1"), lambda t: _set_domain(t, "e"), None),
    ],
)
def test_a_commit_that_came_in_between_is_let_be_or_named(
    ours: Any, theirs: Any, conflict: type[Exception] | None
) -> None:
    table = DeltaTable.create(
        MemoryStorage(),
        PEOPLE,
        properties=VECTORS,
        features=["domainMetadata", "deletionVectors"],
        settings=QUICK,
    )
    table.write(PEOPLE)
    transaction = table.transaction()
    ours(transaction, table)
    theirs(DeltaTable(table._target.storage))
    if conflict is None:
        assert transaction.commit().version == 3
        return
    with pytest.raises(conflict):
        transaction.commit()
    assert table.refresh().version == 2


def _set_domain(table: DeltaTable, name: str) -> None:
    with table.transaction() as transaction:
        transaction.set_domain(name, "0")


def test_what_was_read_can_be_declared() -> None:
    table = new_table(PEOPLE)
    transaction: TableTransaction = table.transaction()
    transaction.log.read_table()
    transaction.write([{"_id": 4}])
    table.alter.set_name("other")
    with pytest.raises(MetadataChanged):
        transaction.commit()


def test_a_store_that_fails_while_rows_are_written_fails_the_transaction() -> None:
    inner = MemoryStorage()
    new_table(PEOPLE, inner)
    fault = Fault(None, None, FaultKind.FAIL, key=".parquet")
    table = DeltaTable(FaultyStorage(inner, [fault]), settings=QUICK)
    with pytest.raises(StorageUnavailable), table.transaction() as transaction:
        transaction.write([{"_id": 4}])
    assert DeltaTable(inner).version == 0


def test_starting_costs_a_refresh() -> None:
    inner = MemoryStorage()
    new_table(PEOPLE, inner)
    storage = MeteredStorage(inner)
    table = DeltaTable(storage)
    table.snapshot()
    storage.reset()
    table.transaction()
    assert storage.total.requests <= 2
