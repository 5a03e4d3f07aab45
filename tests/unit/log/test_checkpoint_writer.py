from __future__ import annotations

import io
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polylake.errors import (
    CorruptCheckpoint,
    SchemaError,
    StorageUnavailable,
    UnsupportedFeature,
    ValidationError,
)
from polylake.log._actions import Add, DomainMetadata, Metadata, Protocol, Txn
from polylake.log._checkpoint_writer import CheckpointReport, write_checkpoint
from polylake.log._commit_file import Action, serialise_commit
from polylake.log._hint import CheckpointHint, format_hint
from polylake.log._load import load_snapshot, read_hint
from polylake.log._names import (
    HINT_KEY,
    SIDECAR_FOLDER,
    classic_checkpoint_key,
    commit_key,
)
from polylake.log._segment import CheckpointKind
from polylake.log._spark_hash import spark_hash, spark_partition
from polylake.schema import (
    DATE,
    LONG,
    STRING,
    DecimalType,
    StructField,
    StructType,
    assign_mapping,
    schema_to_json,
)
from polylake.storage import Fault, FaultKind, FaultyStorage, MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DAY = 86_400_000
NOW = 1_800_000_000_000
SCHEMA = StructType(
    (
        StructField("id", LONG),
        StructField("name", STRING),
        StructField("price", DecimalType(10, 2)),
        StructField("day", DATE),
    )
)
METADATA = Metadata(id="x", schema_string=schema_to_json(SCHEMA), partition_columns=("day",))
PLAIN = Protocol(min_reader_version=1, min_writer_version=2)
V2 = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=("v2Checkpoint",),
    writer_features=("domainMetadata", "v2Checkpoint"),
)
MAPPED = Protocol(min_reader_version=2, min_writer_version=5)
STATS = '{"numRecords":3,"minValues":{"id":1,"price":0.50},"nullCount":{"name":3}}'
FILES = tuple(
    Add(
        path=f"part-{number}.parquet",
        partition_values={"day": "2024-02-29" if number else None},
        size=10 + number,
        modification_time=NOW,
        stats=STATS,
    )
    for number in range(5)
)


def table(
    *commits: Sequence[Action], protocol: Protocol = PLAIN, **properties: str
) -> MemoryStorage:
    configuration = {f"delta.{name.replace('__', '.')}": text for name, text in properties.items()}
    metadata = replace(METADATA, configuration=configuration)
    return log([protocol, metadata, *FILES], *commits)


def log(*commits: Sequence[Action]) -> MemoryStorage:
    storage = MemoryStorage()
    for version, actions in enumerate(commits):
        storage.put(commit_key(version), serialise_commit(actions))
    return storage


def checkpoint(
    storage: MemoryStorage | FaultyStorage, kind: CheckpointKind | None = None, part_rows: int = 2
) -> CheckpointReport:
    snapshot = load_snapshot(storage)
    return write_checkpoint(storage, snapshot, kind=kind, part_rows=part_rows, clock_ms=lambda: NOW)


def open_parquet(storage: MemoryStorage, key: str) -> pq.ParquetFile:
    return pq.ParquetFile(io.BytesIO(storage.get(key)))


def rows_of(storage: MemoryStorage, action: str, version: int = 0) -> list[dict]:
    column = open_parquet(storage, classic_checkpoint_key(version)).read()[action]
    return column.drop_null().to_pylist(maps_as_pydicts="strict")


def keys(storage: MemoryStorage, part: str) -> list[str]:
    return [info.key for info in storage.list() if part in info.key]


def test_a_table_gets_a_classic_checkpoint_by_default() -> None:
    storage = table()
    report = checkpoint(storage)
    assert report == CheckpointReport(
        version=0,
        kind=CheckpointKind.CLASSIC,
        files=(classic_checkpoint_key(0),),
        num_actions=7,
        num_adds=5,
        num_removes=0,
        size_bytes=storage.head(classic_checkpoint_key(0)).size,
        reused=False,
    )


@pytest.mark.parametrize(
    ("protocol", "policy", "kind"),
    [
        (V2, "v2", CheckpointKind.V2),
        (V2, "classic", CheckpointKind.CLASSIC),
        (PLAIN, "v2", CheckpointKind.CLASSIC),
    ],
)
def test_the_policy_counts_where_the_protocol_has_the_feature(
    protocol: Protocol, policy: str, kind: CheckpointKind
) -> None:
    assert checkpoint(table(protocol=protocol, checkpointPolicy=policy)).kind is kind


@pytest.mark.parametrize(
    ("protocol", "kind"), [(PLAIN, CheckpointKind.V2), (V2, CheckpointKind.MULTI_PART)]
)
def test_a_kind_that_the_protocol_forbids_is_refused(
    protocol: Protocol, kind: CheckpointKind
) -> None:
    storage = table(protocol=protocol)
    with pytest.raises(ValidationError) as caught:
        checkpoint(storage, kind)
    assert caught.value.field == "kind"
    assert not keys(storage, "checkpoint")


def test_parts_without_rows_are_refused() -> None:
    with pytest.raises(ValidationError):
        checkpoint(table(), part_rows=0)


def test_a_table_with_an_unknown_writer_feature_is_refused() -> None:
    protocol = replace(V2, writer_features=("v2Checkpoint", "novelty"))
    with pytest.raises(UnsupportedFeature):
        checkpoint(table(protocol=protocol))


def test_other_actions_stand_in_a_row_group_of_their_own() -> None:
    storage = table([Txn(app_id="app", version=7, last_updated=5)])
    checkpoint(storage)
    file = open_parquet(storage, classic_checkpoint_key(1))
    assert [file.metadata.row_group(at).num_rows for at in range(2)] == [3, 5]
    assert file.read_row_group(0)["add"].null_count == 3


def test_each_row_holds_one_action() -> None:
    gone = FILES[0].to_remove(deletion_timestamp=NOW)
    domain = DomainMetadata(domain="d", configuration="{}")
    storage = table([gone, domain, Txn(app_id="app", version=7)])
    checkpoint(storage)
    rows = open_parquet(storage, classic_checkpoint_key(1)).read().to_pylist()
    assert all(sum(body is not None for body in row.values()) == 1 for row in rows)
    assert len(rows) == 9


def test_feature_lists_are_null_exactly_where_the_versions_have_none() -> None:
    for protocol in (PLAIN, V2):
        storage = table(protocol=protocol)
        checkpoint(storage, CheckpointKind.CLASSIC)
        (row,) = rows_of(storage, "protocol")
        assert row["readerFeatures"] == (list(protocol.reader_features or ()) or None)
        assert row["writerFeatures"] == (list(protocol.writer_features or ()) or None)


def test_files_are_stated_not_changed() -> None:
    storage = table([FILES[0].to_remove(deletion_timestamp=NOW)])
    checkpoint(storage)
    actions = [*rows_of(storage, "add", 1), *rows_of(storage, "remove", 1)]
    assert [action["dataChange"] for action in actions] == [False] * 5


def test_statistics_are_json_by_default() -> None:
    storage = table()
    checkpoint(storage)
    add = rows_of(storage, "add")[0]
    assert add["stats"] == STATS
    assert not {"stats_parsed", "partitionValues_parsed"} & add.keys()


def test_statistics_and_partition_values_become_columns_where_the_table_asks() -> None:
    storage = table(checkpoint__writeStatsAsStruct="true", checkpoint__writeStatsAsJson="false")
    checkpoint(storage)
    add = rows_of(storage, "add")[1]
    assert "stats" not in add
    assert add["partitionValues_parsed"] == {"day": date(2024, 2, 29)}
    assert add["stats_parsed"]["numRecords"] == 3
    assert add["stats_parsed"]["minValues"] == {"id": 1, "name": None, "price": Decimal("0.50")}
    assert add["stats_parsed"]["nullCount"] == {"id": None, "name": 3, "price": None}
    assert rows_of(storage, "add")[0]["partitionValues_parsed"] == {"day": None}


def test_columns_have_their_physical_names() -> None:
    ids = iter("abcd")
    mapped, _ = assign_mapping(SCHEMA, 0, lambda: next(ids))
    configuration = {
        "delta.columnMapping.mode": "name",
        "delta.checkpoint.writeStatsAsStruct": "true",
    }
    metadata = replace(METADATA, schema_string=schema_to_json(mapped), configuration=configuration)
    add = replace(
        FILES[0],
        partition_values={"col-d": "2024-02-29"},
        stats='{"numRecords":1,"minValues":{"col-a":1}}',
    )
    storage = log([MAPPED, metadata, add])
    checkpoint(storage)
    (row,) = rows_of(storage, "add")
    assert row["partitionValues_parsed"] == {"col-d": date(2024, 2, 29)}
    assert row["stats_parsed"]["minValues"]["col-a"] == 1


def test_a_partition_value_that_is_none_stops_the_checkpoint() -> None:
    storage = table(
        [replace(FILES[0], path="odd", partition_values={"day": "someday"})],
        checkpoint__writeStatsAsStruct="true",
    )
    with pytest.raises(SchemaError):
        checkpoint(storage)
    assert not keys(storage, "checkpoint")


@pytest.mark.parametrize(
    ("properties", "kept"),
    [
        ({}, {"part-1.parquet", "part-2.parquet"}),
        ({"deletedFileRetentionDuration": "interval 2 days"}, {"part-1.parquet"}),
        (
            {"deletedFileRetentionDuration": "interval 30 days"},
            {"part-1.parquet", "part-2.parquet", "part-3.parquet"},
        ),
    ],
)
def test_tombstones_stay_until_they_expire(properties: dict[str, str], kept: set[str]) -> None:
    ages = {1: DAY, 2: 6 * DAY, 3: 8 * DAY}
    removes = [FILES[at].to_remove(deletion_timestamp=NOW - age) for at, age in ages.items()]
    undated = replace(FILES[4].to_remove(deletion_timestamp=0), deletion_timestamp=None)
    storage = table([*removes, undated], **properties)
    report = checkpoint(storage)
    assert {row["path"] for row in rows_of(storage, "remove", 1)} == kept
    assert report.num_removes == len(kept)


def test_transactions_expire_only_where_the_table_says_so() -> None:
    txns = [
        Txn(app_id="old", version=1, last_updated=NOW - 3 * DAY),
        Txn(app_id="young", version=1, last_updated=NOW - DAY),
        Txn(app_id="undated", version=1),
    ]
    everything = table(txns)
    checkpoint(everything)
    assert len(rows_of(everything, "txn", 1)) == 3
    some = table(txns, setTransactionRetentionDuration="interval 2 days")
    checkpoint(some)
    assert [row["appId"] for row in rows_of(some, "txn", 1)] == ["young", "undated"]


def test_a_retention_that_is_no_interval_is_refused() -> None:
    with pytest.raises(ValidationError) as caught:
        checkpoint(table(deletedFileRetentionDuration="a while"))
    assert caught.value.field == "delta.deletedFileRetentionDuration"


def test_parts_are_divided_by_sparks_hash_of_the_path() -> None:
    storage = table()
    report = checkpoint(storage, CheckpointKind.MULTI_PART)
    assert len(report.files) == 3
    for part, key in enumerate(report.files):
        rows = open_parquet(storage, key).read()
        paths = [row["path"] for row in rows["add"].drop_null().to_pylist()]
        assert all(spark_partition(spark_hash(path), 3) == part for path in paths)
        assert rows["protocol"].drop_null().null_count == 0
        assert (len(rows["protocol"].drop_null()) == 1) == (part == 42 % 3)


def test_a_checkpoint_in_parts_has_two_of_them_at_least() -> None:
    report = checkpoint(table(), CheckpointKind.MULTI_PART, part_rows=100)
    assert len(report.files) == 2


def test_sidecars_hold_no_more_rows_than_asked() -> None:
    storage = table(protocol=V2)
    checkpoint(storage, CheckpointKind.V2, part_rows=2)
    sidecars = keys(storage, SIDECAR_FOLDER)
    assert [open_parquet(storage, key).metadata.num_rows for key in sidecars] != []
    assert sorted(open_parquet(storage, key).metadata.num_rows for key in sidecars) == [1, 2, 2]


def test_a_table_without_files_needs_no_sidecar() -> None:
    storage = log([V2, METADATA])
    report = checkpoint(storage, CheckpointKind.V2)
    assert len(report.files) == 1
    storage.delete([commit_key(0)])
    assert load_snapshot(storage).files.num_files == 0


@pytest.mark.parametrize("kind", CheckpointKind)
def test_the_hint_points_to_the_checkpoint(kind: CheckpointKind) -> None:
    storage = table(protocol=V2 if kind is CheckpointKind.V2 else PLAIN)
    report = checkpoint(storage, kind)
    hint = read_hint(storage)
    assert hint is not None
    assert (hint.version, hint.size, hint.num_of_add_files) == (0, 7, 5)
    assert hint.parts == (3 if kind is CheckpointKind.MULTI_PART else None)
    assert hint.size_in_bytes == report.size_bytes
    assert (hint.v2_checkpoint is not None) == (kind is CheckpointKind.V2)


def test_the_hint_repeats_what_a_v2_checkpoint_says() -> None:
    storage = table([Txn(app_id="app", version=7)], protocol=V2)
    report = checkpoint(storage, CheckpointKind.V2)
    hint = read_hint(storage)
    assert hint is not None
    assert hint.v2_checkpoint is not None
    assert hint.v2_checkpoint.path == report.files[0].rsplit("/", 1)[-1]
    assert {"txn": {"appId": "app", "version": 7}} in hint.v2_checkpoint.non_file_actions
    sidecars = [SIDECAR_FOLDER + sidecar["path"] for sidecar in hint.v2_checkpoint.sidecar_files]
    assert tuple(sidecars) == report.files[1:]


def test_a_long_list_of_transactions_is_not_repeated_in_the_hint() -> None:
    storage = table([Txn(app_id=str(at), version=1) for at in range(40)], protocol=V2)
    checkpoint(storage, CheckpointKind.V2)
    hint = read_hint(storage)
    assert hint is not None
    assert hint.v2_checkpoint is not None
    assert hint.v2_checkpoint.non_file_actions is None


def test_the_hint_never_moves_back() -> None:
    storage = table([Txn(app_id="app", version=7)])
    checkpoint(storage)
    before = storage.get(HINT_KEY)
    old = load_snapshot(storage, version=0)
    write_checkpoint(storage, old, clock_ms=lambda: NOW)
    assert storage.exists(classic_checkpoint_key(0))
    assert storage.get(HINT_KEY) == before


@pytest.mark.parametrize("hint", [b"{", format_hint(CheckpointHint(version=0, size=1))])
def test_a_broken_or_older_hint_is_replaced(hint: bytes) -> None:
    storage = table([Txn(app_id="app", version=7)])
    storage.put(HINT_KEY, hint)
    checkpoint(storage)
    moved = read_hint(storage)
    assert moved is not None
    assert moved.version == 1


def test_a_classic_checkpoint_that_is_right_is_left_alone() -> None:
    storage = table()
    first = checkpoint(storage)
    before = storage.head(classic_checkpoint_key(0))
    assert checkpoint(storage) == replace(first, reused=True)
    assert storage.head(classic_checkpoint_key(0)) == before


def test_a_classic_checkpoint_that_is_damaged_or_of_another_table_is_replaced() -> None:
    other = log([PLAIN, METADATA, *FILES[:3]])
    checkpoint(other)
    for body in (b"PAR1 not really", other.get(classic_checkpoint_key(0))):
        storage = table()
        storage.put(classic_checkpoint_key(0), body)
        snapshot = load_snapshot(table())
        report = write_checkpoint(storage, snapshot, clock_ms=lambda: NOW)
        assert not report.reused
        assert len(rows_of(storage, "add")) == 5


class SwappingStorage(MemoryStorage):
    """A store that answers for one key with what it holds under another."""

    def __init__(self, swaps: dict[str, str]) -> None:
        super().__init__()
        self._swaps = swaps

    def get_many(self, keys: Sequence[str]) -> Iterator[bytes]:
        return super().get_many([self._swaps.get(key, key) for key in keys])


CHANGES: dict[str, Action] = {
    "files": replace(FILES[0], path="another"),
    "sizes": replace(FILES[0], size=11_111),
    "transactions": Txn(app_id="app", version=7),
    "domains": DomainMetadata(domain="d", configuration="{}"),
    "metadata": replace(METADATA, name="renamed"),
    "protocol": replace(PLAIN, min_writer_version=3),
    "tombstones": FILES[1].to_remove(deletion_timestamp=NOW),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_checkpoint_that_reads_back_differently_is_deleted_again(change: str) -> None:
    storage = SwappingStorage({classic_checkpoint_key(1): classic_checkpoint_key(0)})
    for version, actions in enumerate([[PLAIN, METADATA, *FILES], [CHANGES[change]]]):
        storage.put(commit_key(version), serialise_commit(actions))
    write_checkpoint(storage, load_snapshot(storage, version=0), clock_ms=lambda: NOW)
    with pytest.raises(CorruptCheckpoint):
        checkpoint(storage)
    assert keys(storage, "checkpoint") == [classic_checkpoint_key(0), HINT_KEY]
    hint = read_hint(storage)
    assert hint is not None
    assert hint.version == 0


@pytest.mark.parametrize("kind", CheckpointKind)
def test_a_write_that_fails_leaves_nothing_that_readers_would_take(kind: CheckpointKind) -> None:
    protocol = V2 if kind is CheckpointKind.V2 else PLAIN
    counting = FaultyStorage(table(protocol=protocol))
    snapshot = load_snapshot(counting)
    before = counting.calls
    write_checkpoint(counting, snapshot, kind=kind, part_rows=2, clock_ms=lambda: NOW)
    for call in range(1, counting.calls - before + 1):
        storage = table(protocol=protocol)
        snapshot = load_snapshot(storage)
        faulty = FaultyStorage(storage, [Fault(None, call, FaultKind.FAIL)])
        with pytest.raises(StorageUnavailable):
            write_checkpoint(faulty, snapshot, kind=kind, part_rows=2, clock_ms=lambda: NOW)
        assert load_snapshot(storage).files.num_files == 5
        assert not storage.exists(HINT_KEY)


def test_the_pages_carry_checksums() -> None:
    storage = table()
    checkpoint(storage)
    column = open_parquet(storage, classic_checkpoint_key(0)).metadata.row_group(1).column(0)
    body = bytearray(storage.get(classic_checkpoint_key(0)))
    body[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    with pytest.raises(OSError, match="CRC"):
        pq.ParquetFile(pa.BufferReader(bytes(body)), page_checksum_verification=True).read()
