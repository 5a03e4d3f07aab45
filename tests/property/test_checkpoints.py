"""Checkpoints and log compactions against the commits they stand for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.strategies_log import (
    NOW_MS,
    PLAIN,
    WITH_FEATURES,
    histories,
    write_log,
)

from polylake.log._actions import Add, DomainMetadata, Remove, Txn
from polylake.log._checkpoint_writer import write_checkpoint
from polylake.log._commit_file import Action, serialise_commit
from polylake.log._load import load_snapshot, refresh_snapshot
from polylake.log._log_compaction import compact_log
from polylake.log._names import commit_key
from polylake.log._segment import CheckpointKind

if TYPE_CHECKING:
    from polylake.log._snapshot import Snapshot

STRUCT_STATS = {
    "delta.checkpoint.writeStatsAsStruct": "true",
    "delta.checkpoint.writeStatsAsJson": "false",
}
CASES = {
    "classic": (CheckpointKind.CLASSIC, PLAIN, {}),
    "classic-features": (CheckpointKind.CLASSIC, WITH_FEATURES, {}),
    "classic-struct-stats": (CheckpointKind.CLASSIC, WITH_FEATURES, STRUCT_STATS),
    "multi-part": (CheckpointKind.MULTI_PART, PLAIN, {}),
    "v2": (CheckpointKind.V2, WITH_FEATURES, {}),
    "v2-struct-stats": (CheckpointKind.V2, WITH_FEATURES, STRUCT_STATS),
}


def state_of(snapshot: Snapshot) -> dict[str, object]:
    """Return all that a snapshot says, less what a checkpoint does not carry."""
    return {
        "protocol": snapshot.protocol,
        "metadata": snapshot.metadata,
        "txns": dict(snapshot.txns),
        "domains": dict(snapshot.domains),
        "adds": {add.key: _plain_add(add) for add in snapshot.files.adds()},
        "removes": {gone.key: _plain_remove(gone) for gone in snapshot.files.tombstones()},
    }


def naive_state(history: list[list[Action]]) -> dict[str, dict[str, object]]:
    """Replay the commits forwards with a dictionary for each kind of thing."""
    adds: dict[str, Add] = {}
    removes: dict[str, Remove] = {}
    txns: dict[str, Txn] = {}
    domains: dict[str, DomainMetadata] = {}
    for action in (action for commit in history for action in commit):
        match action:
            case Add():
                adds[action.key] = _plain_add(action)
                removes.pop(action.key, None)
            case Remove():
                adds.pop(action.key, None)
                removes[action.key] = _plain_remove(action)
            case Txn():
                txns[action.app_id] = action
            case DomainMetadata(removed=True):
                domains.pop(action.domain, None)
            case DomainMetadata():
                domains[action.domain] = action
    return {"adds": adds, "removes": removes, "txns": txns, "domains": domains}


def _plain_add(add: Add) -> Add:
    # Equal statistics may be written in another way.
    content = None if add.stats is None else orjson.loads(add.stats)
    stats = None if content is None else orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    return replace(add, data_change=False, stats=stats and stats.decode())


def _plain_remove(gone: Remove) -> Remove:
    return replace(gone, data_change=False, stats=None, tags=None)


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_checkpoint_stands_for_the_log_below_it(case: str, data: st.DataObject) -> None:
    kind, protocol, configuration = CASES[case]
    history = data.draw(histories(protocol, configuration))
    at = data.draw(st.integers(0, len(history) - 1))
    storage = write_log(history)
    expected = state_of(load_snapshot(storage))
    snapshot = load_snapshot(storage, version=at)
    write_checkpoint(storage, snapshot, kind=kind, part_rows=2, clock_ms=lambda: NOW_MS)
    storage.delete([commit_key(version) for version in range(at + 1)])
    assert state_of(load_snapshot(storage)) == expected


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_checkpoint_of_a_checkpoint_stands_for_the_log(data: st.DataObject) -> None:
    history = data.draw(histories(WITH_FEATURES, min_size=2))
    storage = write_log(history)
    expected = state_of(load_snapshot(storage))
    first = data.draw(st.integers(0, len(history) - 2))
    for version, kind in ((first, CheckpointKind.V2), (len(history) - 1, CheckpointKind.CLASSIC)):
        snapshot = load_snapshot(storage, version=version)
        write_checkpoint(storage, snapshot, kind=kind, clock_ms=lambda: NOW_MS)
        storage.delete([commit_key(number) for number in range(version + 1)])
    assert state_of(load_snapshot(storage)) == expected


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_log_compaction_stands_for_its_commits(data: st.DataObject) -> None:
    history = data.draw(histories(WITH_FEATURES, min_size=2))
    first = data.draw(st.integers(0, len(history) - 2))
    last = data.draw(st.integers(first + 1, len(history) - 1))
    storage = write_log(history)
    expected = state_of(load_snapshot(storage))
    compact_log(storage, first, last)
    # The last commit stays: it is what tells that the version exists.
    storage.delete([commit_key(version) for version in range(first, last)])
    assert state_of(load_snapshot(storage)) == expected


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_refreshing_gives_what_loading_afresh_gives(data: st.DataObject) -> None:
    history = data.draw(histories(WITH_FEATURES))
    storage = write_log(history[:1])
    snapshot = load_snapshot(storage)
    for version, commit in enumerate(history[1:], 1):
        storage.put(commit_key(version), serialise_commit(commit))
        snapshot = refresh_snapshot(storage, snapshot)
        assert state_of(snapshot) == state_of(load_snapshot(storage))


@settings(max_examples=100, deadline=None)
@given(history=histories(WITH_FEATURES))
def test_replay_equals_a_naive_forward_replay(history: list[list[Action]]) -> None:
    found = state_of(load_snapshot(write_log(history)))
    expected = naive_state(history)
    assert {name: found[name] for name in expected} == expected
