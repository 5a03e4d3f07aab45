from __future__ import annotations

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.builders import (
    METADATA,
    PROTOCOL,
    UNIQUE,
    TableBuilder,
    checkpoint_parquet,
    make_add,
    make_remove,
    make_vector,
    state_of,
)

from polylake.errors import CorruptCheckpoint
from polylake.log._actions import DomainMetadata, Txn
from polylake.log._checkpoint_reader import load_checkpoint
from polylake.log._names import (
    SIDECAR_FOLDER,
    classic_checkpoint_key,
    commit_key,
    v2_checkpoint_key,
)
from polylake.log._segment import list_log
from polylake.storage import MemoryStorage

FILE = make_add("a%20b", deletion_vector=make_vector(), tags={"k": None}, base_row_id=4)
V2_KEY = v2_checkpoint_key(0, UNIQUE, "json")
VALUES = [
    {"checkpointMetadata": {"version": 0}},
    {"protocol": PROTOCOL.to_log()},
    {"metaData": METADATA.to_log()},
]


def table() -> TableBuilder:
    gone = make_add("gone", stats=None)
    return TableBuilder().create(
        FILE,
        make_add("c"),
        gone,
        make_remove(gone),
        Txn(app_id="app", version=3, last_updated=5),
        DomainMetadata(domain="d", configuration="{}"),
    )


def without_log(built: TableBuilder) -> TableBuilder:
    built.storage.delete(commit_key(version) for version in range(built.version + 1))
    return built


def store_v2(rows: list[dict], storage: MemoryStorage | None = None) -> MemoryStorage:
    storage = storage or MemoryStorage()
    storage.put(V2_KEY, b"\n".join(map(orjson.dumps, rows)))
    return storage


def load_newest(storage: MemoryStorage):
    return load_checkpoint(storage, list_log(storage).checkpoints[0])


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda t: t.checkpoint(), id="classic"),
        pytest.param(lambda t: t.checkpoint(parts=2), id="multi-part"),
        pytest.param(lambda t: t.checkpoint(parts=20), id="parts without files"),
        pytest.param(lambda t: t.checkpoint_v2("json"), id="v2 json"),
        pytest.param(lambda t: t.checkpoint_v2("parquet"), id="v2 parquet"),
        pytest.param(lambda t: t.checkpoint_v2("json", sidecars=0), id="v2 json, no sidecars"),
        pytest.param(lambda t: t.checkpoint_v2("parquet", sidecars=0), id="v2, no sidecars"),
    ],
)
def test_a_checkpoint_stands_in_for_the_log(write):
    built = table()
    write(built)
    snapshot = without_log(built).load()
    assert snapshot.checkpoint_version == 0
    assert state_of(snapshot) == built.state()


def test_a_snapshot_outlives_its_checkpoint():
    built = without_log(table().checkpoint())
    snapshot = built.load()
    built.storage.delete([classic_checkpoint_key(0)])
    assert state_of(snapshot) == built.state()


def test_removed_domains_in_a_checkpoint_do_not_count():
    gone = DomainMetadata(domain="d", configuration="", removed=True)
    state = load_newest(store_v2([*VALUES, {"domainMetadata": gone.to_log()}]))
    assert state.domains == {}


@pytest.mark.parametrize("stated", [[], [{"version": 1}], [{"version": 0}, {"version": 0}]])
def test_a_v2_checkpoint_must_be_that_of_its_version(stated):
    rows = [{"checkpointMetadata": body} for body in stated] + VALUES[1:]
    with pytest.raises(CorruptCheckpoint, match="checkpointMetadata"):
        load_newest(store_v2(rows))


@pytest.mark.parametrize(
    "sidecar",
    [
        5,
        {},
        {"path": "x.parquet"},
        {"path": 1, "sizeInBytes": 1},
        {"path": "gone.parquet", "sizeInBytes": 1},
        {"path": "gone.parquet", "sizeInBytes": 2**40},
        {"path": "", "sizeInBytes": 1},
        {"path": "..", "sizeInBytes": 1},
        {"path": "%ff", "sizeInBytes": 1},
    ],
)
def test_a_sidecar_that_cannot_be_read_spoils_the_checkpoint(sidecar):
    with pytest.raises(CorruptCheckpoint):
        load_newest(store_v2([*VALUES, {"sidecar": sidecar}]))


def test_a_sidecar_is_found_by_name_whatever_folder_is_written():
    storage = MemoryStorage()
    body = checkpoint_parquet([{"add": FILE.to_log()}])
    storage.put(SIDECAR_FOLDER + "s.parquet", body)
    where = {"path": "memory://t/_delta_log/_sidecars/s.parquet", "sizeInBytes": len(body)}
    state = load_newest(store_v2([*VALUES, {"sidecar": where}], storage))
    assert sum(source.num_adds for source in state.sources) == 1


@pytest.mark.parametrize(
    "row",
    [
        {"add": {"path": "a"}},
        {"add": []},
        {"remove": {}},
        {"protocol": {"minReaderVersion": 1}},
        {"metaData": {}},
        {"txn": {"appId": "a"}},
        {"domainMetadata": {}},
    ],
)
def test_a_bad_action_in_json_spoils_the_checkpoint(row):
    with pytest.raises(CorruptCheckpoint, match=V2_KEY):
        load_newest(store_v2([*VALUES, row]))


@pytest.mark.parametrize(
    "name", ["protocol", "metaData", "txn", "domainMetadata", "add", "checkpointMetadata"]
)
@pytest.mark.parametrize("values", [["x"], [1], [[1]]])
def test_a_column_of_another_type_spoils_the_checkpoint(name, values):
    storage = MemoryStorage()
    with storage.open_writer(classic_checkpoint_key(0)) as writer:
        pq.write_table(pa.table({name: values}), writer)
    with pytest.raises(CorruptCheckpoint, match=classic_checkpoint_key(0)):
        load_newest(storage)


@pytest.mark.parametrize("body", [b"", b"PAR1", b"PAR1" * 3, b"\0" * 5000])
def test_bytes_that_are_not_parquet_spoil_the_checkpoint(body):
    storage = MemoryStorage()
    storage.put(classic_checkpoint_key(0), body)
    with pytest.raises(CorruptCheckpoint, match=classic_checkpoint_key(0)):
        load_newest(storage)


def test_an_add_without_a_path_spoils_the_checkpoint():
    storage = MemoryStorage()
    body = FILE.to_log() | {"path": None}
    storage.put(classic_checkpoint_key(0), checkpoint_parquet([{"add": body}]))
    with pytest.raises(CorruptCheckpoint, match="without a path"):
        load_newest(storage)


def test_a_flipped_bit_is_found_by_the_checksum_of_its_page():
    built = table().commit(make_add("qwertyuiopasdfgh"))
    built.checkpoint()
    key = classic_checkpoint_key(1)
    whole = built.storage.get(key)
    at = whole.index(b"qwertyuiopasdfgh")
    built.storage.put(key, whole[:at] + b"y" + whole[at + 1 :])
    with pytest.raises(CorruptCheckpoint, match=r"(?i)crc|checksum"):
        load_newest(built.storage)


def test_a_file_action_keeps_every_field():
    built = table()
    state = load_newest(built.checkpoint().storage)
    [rows] = [source.adds(["path", "tags", "deletionVector"]) for source in state.sources]
    assert dict(zip(rows["path"].to_pylist(), rows["tags"].to_pylist(), strict=True)) == {
        "a%20b": [("k", None)],
        "c": None,
    }
    assert FILE in built.load().files.adds()
