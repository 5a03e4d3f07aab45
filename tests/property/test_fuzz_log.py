"""Damaged logs: the state that was committed, or a typed error. Never another state in silence.

What no reader can tell from the bytes is left out where it stands: a foreign commit that was cut
off after a whole line, JSON that is still JSON, a footer of a Parquet file (which has no checksum)
that names other columns, and whole files in each other's place.
"""

from __future__ import annotations

import contextlib
import struct
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import (
    UNIQUE,
    TableBuilder,
    TableState,
    make_add,
    make_remove,
    make_vector,
    replay_naively,
    state_of,
)
from tests.golden.judged import GOLDEN

from polylake.errors import CorruptCheckpoint, CorruptCommit, LogError, LogGap, ValidationError
from polylake.log._actions import DomainMetadata, Txn
from polylake.log._commit_file import parse_commit
from polylake.log._load import load_snapshot
from polylake.log._names import HINT_KEY, LOG_FOLDER, commit_key, v2_checkpoint_key
from polylake.storage import LocalStorage, MemoryStorage, Storage

if TYPE_CHECKING:
    from collections.abc import Callable

TYPED = (LogError, ValidationError)
CHECKPOINTED = 3
LAYOUTS: dict[str, Callable[[TableBuilder], object]] = {
    "log": lambda table: table,
    "classic": lambda table: table.checkpoint(),
    "multi-part": lambda table: table.checkpoint(parts=2),
    "v2-json": lambda table: table.checkpoint_v2("json"),
    "v2-inline": lambda table: table.checkpoint_v2("json", sidecars=0),
    "v2-parquet": lambda table: table.checkpoint_v2("parquet"),
}
GOLDEN_LOGS = {
    "golden-multi-part": "kernel-rs/kernel/tests/data/v1-multi-part-struct-stats-only",
    "golden-v2-json": "delta-rs/crates/test/tests/data/checkpoint-v2-table",
    "golden-v2-parquet": "kernel-rs/kernel/tests/data/v2-parquet-sidecars-struct-stats-only",
}


def build(layout: str, *, counted: bool = True) -> TableBuilder:
    """Make a table with every kind of action, and commits above its checkpoint."""
    file = make_add("a", tags={"k": None})
    table = TableBuilder(counted=counted).create().append("b", "c d", "x%20y")
    table.commit(
        file,
        Txn(app_id="app", version=3, last_updated=9),
        DomainMetadata(domain="d", configuration="{}"),
    )
    table.commit(make_remove(file), make_add("a", deletion_vector=make_vector()))
    LAYOUTS[layout](table)
    return table.append("e").commit(make_remove(make_add("b")))


BUILT = {layout: build(layout) for layout in LAYOUTS}
STATE = BUILT["log"].state()


def copy_of(storage: Storage) -> MemoryStorage:
    """Return a store with the same log."""
    fresh = MemoryStorage()
    for info in storage.list(LOG_FOLDER):
        fresh.put(info.key, storage.get(info.key))
    return fresh


def read(storage: Storage) -> TableState:
    """Read a table, every column of it."""
    return state_of(load_snapshot(storage))


def keys_of(storage: Storage, part: str = "") -> list[str]:
    """Return the log's keys that have ``part`` in them."""
    return [info.key for info in storage.list(LOG_FOLDER) if part in info.key]


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Return bytes that something happened to."""
    start = draw(st.integers(0, len(whole)))
    end = draw(st.integers(start, min(len(whole), start + 40)))
    match draw(st.sampled_from(["flip", "cut", "splice", "replace"])):
        case "flip" if start < len(whole):
            flipped = whole[start] ^ (1 << draw(st.integers(0, 7)))
            return whole[:start] + bytes([flipped]) + whole[start + 1 :]
        case "replace":
            return draw(st.binary(max_size=64))
        case "splice":
            odd = st.sampled_from([b"\0", b"\xff\xfe", b"\n", b'"', b"{", b"[" * 3000, b""])
            return whole[:start] + draw(odd | st.binary(max_size=20)) + whole[end:]
        case _:
            return whole[:start]


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damage_is_never_answered_with_an_untyped_error(layout: str, data: st.DataObject) -> None:
    storage = copy_of(BUILT[layout].storage)
    for key in data.draw(st.lists(st.sampled_from(keys_of(storage)), min_size=1, max_size=2)):
        storage.put(key, data.draw(damaged(storage.get(key))))
    if data.draw(st.booleans()):
        behind = [commit_key(version) for version in range(CHECKPOINTED + 1)]
        storage.delete(behind)  # the checkpoint has nothing to fall back on
    with contextlib.suppress(*TYPED):
        read(storage)


@pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no golden tables at {GOLDEN}")
@pytest.mark.parametrize("name", GOLDEN_LOGS)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_damage_to_foreign_checkpoints_is_never_answered_with_an_untyped_error(
    name: str, data: st.DataObject
) -> None:
    storage = copy_of(LocalStorage(str(GOLDEN / GOLDEN_LOGS[name])))
    key = data.draw(
        st.sampled_from(keys_of(storage, ".checkpoint") + keys_of(storage, "_sidecars"))
    )
    storage.put(key, data.draw(damaged(storage.get(key))))
    with contextlib.suppress(*TYPED):
        read(storage)


@pytest.mark.parametrize("layout", ["classic", "v2-json"])
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_damaged_hint_changes_nothing(layout: str, data: st.DataObject) -> None:
    storage = copy_of(BUILT[layout].storage)
    number = st.integers(-(2**63), 2**64 - 1)
    invented = st.builds(lambda version: orjson.dumps({"version": version, "size": 1}), number)
    storage.put(HINT_KEY, data.draw(damaged(storage.get(HINT_KEY)) | invented))
    assert read(storage) == STATE


@pytest.mark.parametrize("layout", ["classic", "multi-part", "v2-parquet", "v2-json"])
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damaged_pages_of_a_checkpoint_are_replaced_by_the_log(
    layout: str, data: st.DataObject
) -> None:
    """Columns that are read late cannot fall back any more, and say so."""
    storage = copy_of(BUILT[layout].storage)
    key = data.draw(st.sampled_from(keys_of(storage, ".parquet")))
    whole = storage.get(key)
    footer = len(whole) - 8 - struct.unpack("<I", whole[-8:-4])[0]
    position = data.draw(st.integers(0, footer - 1))
    odd = bytes([whole[position] ^ data.draw(st.integers(1, 255))])
    storage.put(key, whole[:position] + odd + whole[position + 1 :])
    snapshot = load_snapshot(storage)
    with contextlib.suppress(CorruptCheckpoint):
        assert state_of(snapshot) == STATE


@pytest.mark.parametrize("layout", ["classic", "multi-part", "v2-parquet", "v2-json"])
def test_a_checkpoint_that_was_cut_off_is_replaced_by_the_log(layout: str) -> None:
    storage = copy_of(BUILT[layout].storage)
    key = keys_of(storage, ".parquet")[0]
    whole = storage.get(key)
    for length in range(0, len(whole), 97):
        storage.put(key, whole[:length])
        assert read(storage) == STATE, length


def test_a_json_checkpoint_that_was_cut_off_inside_a_line_is_replaced_by_the_log() -> None:
    storage = copy_of(BUILT["v2-inline"].storage)
    key = v2_checkpoint_key(CHECKPOINTED, UNIQUE, "json")
    whole = storage.get(key)
    for length in range(len(whole)):
        if whole[length - 1 : length] not in {b"\n", b"}"}:  # a whole line cannot be told from all
            storage.put(key, whole[:length])
            assert read(storage) == STATE, length


def test_a_counted_commit_that_was_cut_off_anywhere_is_refused() -> None:
    storage = copy_of(BUILT["log"].storage)
    for key in keys_of(storage, ".json"):
        whole = storage.get(key)
        for length in range(len(whole) - 1):
            storage.put(key, whole[:length])
            with pytest.raises(CorruptCommit, match=key):
                load_snapshot(storage)
        storage.put(key, whole)


def test_a_foreign_commit_that_was_cut_off_inside_a_line_is_refused() -> None:
    table = build("log", counted=False)
    key = commit_key(2)
    whole = table.storage.get(key)
    for length in range(len(whole) - 1):
        table.storage.put(key, whole[:length])
        # Where a line is whole, nothing says that another was to follow.
        if length and whole[length - 1 : length + 1] in {b"}\n", b"\n{"}:
            commits = [table.commits[0], table.commits[1], parse_commit(whole[:length])]
            assert read(table.storage) == replay_naively(commits + table.commits[3:])
        else:
            with pytest.raises(CorruptCommit, match=key):
                load_snapshot(table.storage)


@pytest.mark.parametrize("counted", [True, False])
@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damaged_commits_are_refused_or_mean_what_they_say(
    counted: bool, data: st.DataObject
) -> None:
    table = build("log", counted=counted)
    damaged_version = data.draw(st.integers(0, table.version))
    key = commit_key(damaged_version)
    table.storage.put(key, data.draw(damaged(table.storage.get(key))))
    try:
        found = read(table.storage)
    except TYPED:
        return
    commits: list[list[Any]] = list(table.commits)
    commits[damaged_version] = parse_commit(table.storage.get(key))
    assert found == replay_naively(commits)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_field_of_any_type_means_what_it_says_or_is_refused(data: st.DataObject) -> None:
    table = build("log", counted=False)
    version = data.draw(st.integers(0, table.version))
    key = commit_key(version)
    rows = [orjson.loads(line) for line in table.storage.get(key).splitlines()]
    target = next(iter(data.draw(st.sampled_from(rows)).values()))
    field = data.draw(st.sampled_from(sorted(target)))
    if isinstance(target[field], dict) and target[field] and data.draw(st.booleans()):
        target = target[field]
        field = data.draw(st.sampled_from(sorted(target)))
    odd = [None, True, 0, -1, 2**63, 2**64 - 1, 1.5, 1e300, "", "x", "\0", "%ff", [], [1], {}]
    target[field] = data.draw(st.sampled_from([*odd, {"a": 1}, [None], [{"path": "a"}]]))
    table.storage.put(key, b"\n".join(orjson.dumps(row) for row in rows))
    commits: list[list[Any]] = list(table.commits)
    try:
        commits[version] = parse_commit(table.storage.get(key))
    except CorruptCommit:
        with pytest.raises(TYPED):
            load_snapshot(table.storage)
        return
    with contextlib.suppress(*TYPED):
        assert read(table.storage) == replay_naively(commits)


@pytest.mark.parametrize("depth", [100, 900, 1000, 1020, 5000, 200_000])
@pytest.mark.parametrize(
    "line",
    [
        b'{"add":{"path":%s}}',
        b'{"add":{"path":"a","partitionValues":{"day":%s},"size":1}}',
        b'{"remove":{"path":"a","deletionVector":{"storageType":%s}}}',
        b'{"metaData":{"id":"a","format":{"provider":%s},"schemaString":"{}"}}',
        b'{"protocol":{"minReaderVersion":1,"minWriterVersion":2,"readerFeatures":%s}}',
        b'{"domainMetadata":{"domain":%s}}',
    ],
)
def test_deep_nesting_is_refused(line: bytes, depth: int) -> None:
    storage = copy_of(BUILT["log"].storage)
    storage.put(commit_key(CHECKPOINTED), line % (b"[" * depth + b"]" * depth))
    with pytest.raises(CorruptCommit):
        load_snapshot(storage)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_deleted_file_is_made_up_for_or_missed(layout: str) -> None:
    """Only the newest commit leaves no trace: nothing says that it ever was."""
    table = BUILT[layout]
    for key in keys_of(table.storage):
        storage = copy_of(table.storage)
        storage.delete([key])
        needed = range(0 if layout == "log" else CHECKPOINTED + 1, table.version)
        if key == commit_key(table.version):
            assert read(storage) == table.state(table.version - 1)
        elif key in map(commit_key, needed):
            with pytest.raises(LogGap, match=key):
                load_snapshot(storage)
        else:
            assert read(storage) == STATE


@pytest.mark.parametrize("counted", [True, False])
def test_a_line_that_stands_twice_changes_nothing_or_is_refused(counted: bool) -> None:
    table = build("log", counted=counted)
    for key in keys_of(table.storage, ".json"):
        whole = table.storage.get(key)
        for line in whole.splitlines():
            table.storage.put(key, whole + line)
            try:
                assert read(table.storage) == STATE
                assert not counted
            except CorruptCommit:
                assert counted
        table.storage.put(key, whole)


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_files_in_each_others_place_are_never_an_untyped_error(
    layout: str, data: st.DataObject
) -> None:
    storage = copy_of(BUILT[layout].storage)
    first, second = data.draw(st.lists(st.sampled_from(keys_of(storage)), min_size=2, max_size=2))
    bodies = storage.get(first), storage.get(second)
    storage.put(second, bodies[0])
    storage.put(first, bodies[1])
    kinds = {first.rsplit(".", 1)[-1], second.rsplit(".", 1)[-1]}
    try:
        found = read(storage)
    except TYPED:
        return
    # Files of one kind can stand for each other; a file of another kind must not pass for one.
    assert len(kinds) == 1 or found == STATE
