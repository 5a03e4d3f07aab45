"""Snapshots against their plain twin, however the log is laid out and however it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import TableBuilder, make_add, make_remove, make_vector, state_of

from polylake.log._actions import Add, DomainMetadata, Metadata, Remove, Txn
from polylake.log._load import load_snapshot, refresh_snapshot
from polylake.log._names import LOG_FOLDER

if TYPE_CHECKING:
    from polylake.log._commit_file import Action

LAYOUTS = ("log", "classic", "multi-part", "v2-json", "v2-parquet", "v2-inline", "compacted")


@st.composite
def _histories(draw: st.DrawFn) -> list[list[Action]]:
    """Commits as a correct writer makes them: what is removed was live before."""
    live: dict[str, Add] = {}
    commits: list[list[Action]] = []
    for number in range(draw(st.integers(1, 6))):
        commit: list[Action] = []
        for path in draw(st.lists(st.sampled_from(["a", "b%20c", "c", "d"]), unique=True)):
            old = live.pop(path, None)
            change = draw(st.sampled_from(["add", "vector", "remove"]))
            if old is not None and (change != "add" or draw(st.booleans())):
                commit.append(make_remove(old))
            if change != "remove":
                vector = make_vector(number) if change == "vector" else None
                live[path] = make_add(path, size=number, deletion_vector=vector)
                commit.append(live[path])
        if draw(st.booleans()):
            commit.append(Txn(app_id=draw(st.sampled_from("xy")), version=number))
        if draw(st.booleans()):
            name, removed = draw(st.sampled_from("pq")), draw(st.booleans())
            commit.append(DomainMetadata(domain=name, configuration=str(number), removed=removed))
        if draw(st.integers(0, 9)) == 0:
            commit.append(Metadata(id="new", schema_string='{"type":"struct","fields":[]}'))
        commits.append(draw(st.permutations(commit)) if _is_orderless(commit) else commit)
    return commits


def _is_orderless(commit: list[Action]) -> bool:
    """Say whether the commit touches every path once, so that the order of its actions is free."""
    paths = [action.path for action in commit if isinstance(action, Add | Remove)]
    return len(set(paths)) == len(paths)


histories = _histories()


def build(history: list[list[Action]], layout: str, at: int) -> TableBuilder:
    """Lay a history out with its checkpoint, or compaction, at version ``at``."""
    table = TableBuilder().create()
    for number, commit in enumerate(history, 1):
        table.commit(*commit)
        if number == at:
            match layout:
                case "classic":
                    table.checkpoint()
                case "multi-part":
                    table.checkpoint(parts=3)
                case "v2-json" | "v2-parquet":
                    table.checkpoint_v2(layout.removeprefix("v2-"))
                case "v2-inline":
                    table.checkpoint_v2("json", sidecars=0)
                case "compacted":
                    table.compact(0, at)
    return table


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=30, deadline=None)
@given(history=histories, data=st.data())
def test_every_layout_gives_what_plain_replay_gives(
    layout: str, history: list[list[Action]], data: st.DataObject
) -> None:
    table = build(history, layout, data.draw(st.integers(1, len(history))))
    assert state_of(table.load()) == table.state()


@pytest.mark.parametrize("layout", LAYOUTS)
@settings(max_examples=30, deadline=None)
@given(history=histories, data=st.data())
def test_time_travel_gives_what_plain_replay_up_to_there_gives(
    layout: str, history: list[list[Action]], data: st.DataObject
) -> None:
    table = build(history, layout, data.draw(st.integers(1, len(history))))
    version = data.draw(st.integers(0, len(history)))
    assert state_of(table.load(version)) == table.state(version)


@pytest.mark.parametrize("layout", ["log", "classic", "v2-json"])
@settings(max_examples=30, deadline=None)
@given(history=histories, data=st.data())
def test_refreshing_gives_what_loading_afresh_gives(
    layout: str, history: list[list[Action]], data: st.DataObject
) -> None:
    table = build(history, layout, data.draw(st.integers(1, len(history))))
    snapshot = table.load(data.draw(st.integers(0, len(history))))
    before = state_of(snapshot)
    refreshed = refresh_snapshot(table.storage, snapshot)
    assert refreshed.version == table.version
    assert state_of(refreshed) == state_of(table.load())
    assert state_of(snapshot) == before


@settings(max_examples=30, deadline=None)
@given(history=histories, data=st.data())
def test_a_log_behind_its_checkpoint_may_be_gone(
    history: list[list[Action]], data: st.DataObject
) -> None:
    at = data.draw(st.integers(1, len(history)))
    table = build(history, "classic", at)
    table.storage.delete([f"{LOG_FOLDER}{version:020d}.json" for version in range(at + 1)])
    assert state_of(load_snapshot(table.storage)) == table.state()
