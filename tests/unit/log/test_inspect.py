"""Looking at checkpoints."""

from __future__ import annotations

import pytest
from tests.unit.log.small_table import SmallTable

from polylake.errors import CorruptCheckpoint, VersionNotFound
from polylake.log._inspect import (
    discover_checkpoints,
    group_checkpoints,
    read_checkpoint,
    read_last_checkpoint,
    referenced_sidecars,
    verify_checkpoint,
)
from polylake.log._names import SIDECAR_FOLDER, classic_checkpoint_key, part_checkpoint_key
from polylake.log._segment import CheckpointKind, list_log
from polylake.storage import ObjectInfo


def table_with(kind: CheckpointKind, *, part_rows: int = 1) -> SmallTable:
    table = SmallTable(features=("v2Checkpoint",) if kind is CheckpointKind.V2 else ())
    table.grow(3)
    table.checkpoint(kind, part_rows=part_rows)
    return table


def test_a_log_without_checkpoints_has_none_to_discover() -> None:
    assert discover_checkpoints(SmallTable().storage) == []


@pytest.mark.parametrize("kind", CheckpointKind)
def test_a_checkpoint_of_each_kind_is_discovered(kind: CheckpointKind) -> None:
    (found,) = discover_checkpoints(table_with(kind).storage)
    assert (found.version, found.kind, found.complete) == (3, kind, True)
    assert found.size_bytes == sum(info.size for info in found.files)


def test_checkpoints_come_newest_first() -> None:
    table = table_with(CheckpointKind.CLASSIC)
    table.grow(2)
    table.checkpoint()
    assert [found.version for found in discover_checkpoints(table.storage)] == [5, 3]


def test_a_missing_part_is_named() -> None:
    table = table_with(CheckpointKind.MULTI_PART)
    table.storage.delete([part_checkpoint_key(3, 2, 3)])
    (found,) = discover_checkpoints(table.storage)
    assert (found.complete, found.missing_parts) == (False, (2,))


def test_a_name_that_announces_billions_of_parts_costs_nothing() -> None:
    key = part_checkpoint_key(1, 1, 9_999_999_999)
    (found,) = group_checkpoints([ObjectInfo(key=key, size=1, modified_ms=1, version=None)])
    assert not found.complete


def test_the_hint_is_read() -> None:
    table = SmallTable()
    assert read_last_checkpoint(table.storage) is None
    table.checkpoint()
    hint = read_last_checkpoint(table.storage)
    assert hint is not None
    assert hint.version == 0


@pytest.mark.parametrize("kind", CheckpointKind)
def test_a_checkpoint_is_read_by_its_version(kind: CheckpointKind) -> None:
    state = read_checkpoint(table_with(kind).storage, 3)
    assert sum(source.num_adds for source in state.sources) == 3


def test_a_version_without_a_checkpoint_is_named() -> None:
    with pytest.raises(VersionNotFound) as caught:
        read_checkpoint(table_with(CheckpointKind.CLASSIC).storage, 2)
    assert caught.value.facts["version"] == 2


def test_a_checkpoint_that_does_not_read_is_refused() -> None:
    table = table_with(CheckpointKind.CLASSIC)
    table.storage.put(classic_checkpoint_key(3), b"PAR1 not")
    with pytest.raises(CorruptCheckpoint):
        read_checkpoint(table.storage, 3)


@pytest.mark.parametrize("kind", CheckpointKind)
def test_verifying_finds_a_flipped_byte_in_any_column(kind: CheckpointKind) -> None:
    table = table_with(kind)
    (checkpoint,) = list_log(table.storage).checkpoints
    keys = [info.key for info in checkpoint.files]
    keys += [info.key for info in table.storage.list(SIDECAR_FOLDER)]
    verify_checkpoint(table.storage, checkpoint)
    for key in keys:
        body = table.storage.get(key)
        if not key.endswith(".parquet"):
            continue
        table.storage.put(key, body[: len(body) // 2])
        with pytest.raises(CorruptCheckpoint):
            verify_checkpoint(table.storage, checkpoint)
        table.storage.put(key, body)


def test_sidecars_are_found_by_the_checkpoint_that_refers_to_them() -> None:
    table = table_with(CheckpointKind.V2)
    (checkpoint,) = list_log(table.storage).checkpoints
    stored = {info.key for info in table.storage.list(SIDECAR_FOLDER)}
    assert len(stored) == 3
    assert referenced_sidecars(table.storage, checkpoint.files) == stored
