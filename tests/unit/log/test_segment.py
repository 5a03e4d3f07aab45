from __future__ import annotations

import pytest
from tests.builders import UNIQUE

from polylake.errors import LogGap, VersionNotFound
from polylake.log._names import (
    checksum_key,
    classic_checkpoint_key,
    commit_key,
    compaction_key,
    part_checkpoint_key,
    v2_checkpoint_key,
)
from polylake.log._segment import (
    CheckpointKind,
    LogListing,
    choose_segment,
    list_log,
    sort_listing,
    usable_checkpoints,
)
from polylake.storage import MemoryStorage, ObjectInfo


def listed(*keys: str) -> LogListing:
    return sort_listing(ObjectInfo(key=k, size=1, modified_ms=0, version=None) for k in keys)


def commits(*versions: int) -> list[str]:
    return [commit_key(version) for version in versions]


def ranges(listing: LogListing, **options: object) -> list[tuple[int, int]]:
    arguments = {"target": None, "checkpoint": None} | options
    segment = choose_segment(listing, **arguments)
    return [(found.first, found.last) for found in segment.commits]


def test_files_are_told_apart_and_strangers_ignored():
    listing = listed(
        *commits(0, 1),
        checksum_key(1),
        compaction_key(0, 1),
        classic_checkpoint_key(1),
        "_delta_log/_last_checkpoint",
        "_delta_log/_sidecars/x.parquet",
        "_delta_log/00000000000000000009.json.tmp",
    )
    assert set(listing.commits) == {0, 1}
    assert listing.checksums == {1}
    assert [(c.first, c.last) for c in listing.compactions] == [(0, 1)]
    assert [(c.version, c.kind) for c in listing.checkpoints] == [(1, CheckpointKind.CLASSIC)]


def test_the_latest_version_may_be_known_by_its_checkpoint_only():
    assert listed().latest is None
    assert listed(*commits(3, 4)).latest == 4
    assert listed(*commits(3, 4), classic_checkpoint_key(9)).latest == 9
    assert listed(*commits(3, 4), classic_checkpoint_key(3)).latest == 4


def test_a_checkpoint_with_a_part_missing_is_ignored():
    listing = listed(part_checkpoint_key(5, 1, 3), part_checkpoint_key(5, 3, 3))
    assert listing.checkpoints == ()


def test_parts_are_ordered_and_of_one_split():
    listing = listed(
        part_checkpoint_key(5, 2, 2), part_checkpoint_key(5, 1, 2), part_checkpoint_key(5, 1, 3)
    )
    [checkpoint] = listing.checkpoints
    assert checkpoint.kind is CheckpointKind.MULTI_PART
    assert [info.key for info in checkpoint.files] == [
        part_checkpoint_key(5, 1, 2),
        part_checkpoint_key(5, 2, 2),
    ]


def test_newer_checkpoints_come_first_and_of_one_version_the_cheapest():
    listing = listed(
        classic_checkpoint_key(4),
        part_checkpoint_key(5, 1, 2),
        part_checkpoint_key(5, 2, 2),
        v2_checkpoint_key(5, UNIQUE, "json"),
        classic_checkpoint_key(5),
    )
    assert [(c.version, c.kind.value) for c in listing.checkpoints] == [
        (5, "classic"),
        (5, "v2"),
        (5, "multi-part"),
        (4, "classic"),
    ]


def test_checkpoints_newer_than_the_target_are_not_used():
    listing = listed(*(classic_checkpoint_key(version) for version in (2, 4, 6)))
    assert [c.version for c in usable_checkpoints(listing, 5)] == [4, 2]
    assert [c.version for c in usable_checkpoints(listing, None)] == [6, 4, 2]


def test_a_segment_without_a_checkpoint_starts_at_zero():
    assert ranges(listed(*commits(0, 1, 2))) == [(0, 0), (1, 1), (2, 2)]
    assert ranges(listed(*commits(0, 1, 2)), target=1) == [(0, 0), (1, 1)]


def test_a_segment_starts_above_its_checkpoint():
    listing = listed(*commits(3, 4, 5), classic_checkpoint_key(4))
    [checkpoint] = listing.checkpoints
    assert ranges(listing, checkpoint=checkpoint) == [(5, 5)]
    assert ranges(listing, checkpoint=checkpoint, target=4) == []


@pytest.mark.parametrize(("present", "missing"), [((1, 2), 0), ((0, 2), 1), ((0, 1, 3, 5), 2)])
def test_the_first_missing_commit_is_named(present, missing):
    with pytest.raises(LogGap, match=commit_key(missing)) as caught:
        ranges(listed(*commits(*present)))
    assert caught.value.facts["version"] == missing


def test_a_gap_above_the_checkpoint_names_both():
    listing = listed(*commits(4, 6), classic_checkpoint_key(4))
    with pytest.raises(LogGap, match="above the checkpoint of version 4"):
        ranges(listing, checkpoint=listing.checkpoints[0])


def test_a_version_beyond_the_end_is_not_found():
    with pytest.raises(VersionNotFound, match=r"version 9 .* version 1") as caught:
        ranges(listed(*commits(0, 1)), target=9)
    assert (caught.value.facts["version"], caught.value.facts["latest"]) == (9, 1)


def test_an_empty_log_has_no_version():
    with pytest.raises(VersionNotFound):
        ranges(listed())


def test_the_longest_compaction_stands_for_its_commits():
    listing = listed(
        *commits(0, 1, 2, 3, 4), compaction_key(1, 2), compaction_key(1, 3), compaction_key(2, 4)
    )
    assert ranges(listing) == [(0, 0), (1, 3), (4, 4)]
    assert ranges(listing, target=2) == [(0, 0), (1, 2)]
    assert ranges(listing, use_compactions=False) == [(v, v) for v in range(5)]


def test_a_compaction_that_reaches_below_the_checkpoint_is_not_used():
    listing = listed(*commits(0, 1, 2, 3), compaction_key(1, 3), classic_checkpoint_key(2))
    assert ranges(listing, checkpoint=listing.checkpoints[0]) == [(3, 3)]


def test_a_compaction_makes_up_for_commits_that_are_gone():
    assert ranges(listed(*commits(0, 3), compaction_key(1, 2))) == [(0, 0), (1, 2), (3, 3)]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, {0, 1, 2, 3, 9}),
        ({"since": 2}, {2, 3, 9}),
        ({"until": 2}, {0, 1, 2}),
        ({"since": 1, "until": 3}, {1, 2, 3}),
        ({"since": 10}, set()),
        ({"since": 3, "until": 3}, {3}),
    ],
)
def test_listing_is_bounded_on_both_sides(options, found):
    storage = MemoryStorage()
    for key in commits(0, 1, 2, 3, 9):
        storage.put(key, b"{}")
    storage.put("_delta_log/_last_checkpoint", b"{}")
    assert set(list_log(storage, **options).commits) == found


def test_all_files_of_the_bounding_versions_are_listed():
    storage = MemoryStorage()
    for version in (4, 5):
        storage.put(classic_checkpoint_key(version), b"")
        storage.put(checksum_key(version), b"")
    listing = list_log(storage, since=4, until=4)
    assert [c.version for c in listing.checkpoints] == [4]
    assert listing.checksums == {4}
