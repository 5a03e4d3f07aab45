"""Which files a compaction takes, and how it puts them together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import TableBuilder, make_add

from polylake.errors import ValidationError
from polylake.log import DeletionVectorDescriptor, DeltaLog
from polylake.ops._bins import Strategy, pack
from polylake.ops._compact_plan import CompactOptions, plan_compact

if TYPE_CHECKING:
    from polylake.log import Add, Snapshot
    from polylake.ops._compact_plan import CompactPlan

TARGET = 1_000


def table_of(*files: Add) -> Snapshot:
    builder = TableBuilder().create()
    for file in files:
        builder.commit(file)
    return DeltaLog(builder.storage).snapshot()


def sized(*sizes: int, day: str = "1") -> list[Add]:
    return [
        make_add(
            f"day={day}/{at}.parquet",
            size=size,
            partition_values={"day": day},
            modification_time=at,
        )
        for at, size in enumerate(sizes)
    ]


def deleted(file: Add, cardinality: int, of: int = 100) -> Add:
    vector = DeletionVectorDescriptor.from_log(
        {
            "storageType": "u",
            "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
            "offset": 1,
            "sizeInBytes": 36,
            "cardinality": cardinality,
        }
    )
    return replace(file, deletion_vector=vector, stats=f'{{"numRecords":{of}}}')


def plan(*files: Add, **options: Any) -> CompactPlan:
    chosen = {"target_bytes": TARGET, "min_files": 2, **options}
    return plan_compact(table_of(*files), CompactOptions(**chosen))


def sizes(found: CompactPlan) -> list[list[int]]:
    return [[file.size for file in found.files(group)] for group in found.groups]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Strategy.GREEDY, [[300, 500], [600, 400]]),
        (Strategy.BIN_PACKING, [[600, 400], [500, 300, 200]]),
        (Strategy.SORT_BY_SIZE, [[200, 300, 400]]),
    ],
)
def test_a_strategy_puts_files_together(strategy: Strategy, expected: list[list[int]]) -> None:
    assert sizes(plan(*sized(300, 500, 600, 400, 200), strategy=strategy)) == expected


@given(
    st.lists(st.integers(0, 120), max_size=40),
    st.sampled_from(tuple(Strategy)),
)
def test_every_size_is_in_one_bin_and_no_bin_is_overfull(
    found: list[int], strategy: Strategy
) -> None:
    bins = pack(found, 100, strategy)
    assert sorted(at for places in bins for at in places) == list(range(len(found)))
    assert all(len(places) == 1 or sum(found[at] for at in places) <= 100 for places in bins)


def test_large_files_are_left_alone() -> None:
    found = plan(*sized(749, 750, 100, 900))
    assert sizes(found) == [[749, 100]]
    assert found.large_enough == 2
    assert found.skipped == {"large enough": 2}


def test_partitions_with_few_small_files_are_left_alone() -> None:
    found = plan(*sized(1, 2, 3), *sized(4, 5, day="2"), min_files=3)
    assert sizes(found) == [[1, 2, 3]]
    assert found.groups[0].partition == {"day": "1"}
    assert found.skipped == {"fewer than 3 small files in their partition": 2}


def test_partitions_are_never_mixed() -> None:
    found = plan(*sized(1, 2), *sized(3, 4, day="2"))
    assert sizes(found) == [[1, 2], [3, 4]]
    assert found.num_partitions == 2


def test_null_is_one_partition_however_it_is_written() -> None:
    values: list[dict[str, str | None]] = [{"day": None}, {"day": ""}]
    files = [make_add(f"{at}.parquet", partition_values=v) for at, v in enumerate(values)]
    found = plan(*files)
    assert found.groups[0].partition == {"day": None}
    assert found.num_files == 2


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ([60, 1, 1, 1, 1], [[1, 1, 1, 1]]),
        ([16, 1, 1, 1, 1], [[16, 1, 1, 1, 1]]),
        ([17, 1, 1, 1, 1], [[1, 1, 1, 1]]),
        ([10, 10, 10, 10, 1], [[10, 10, 10, 10, 1]]),
        ([60, 7, 1, 1], [[7, 1, 1]]),
        ([70, 1], []),
    ],
)
def test_a_tiered_compaction_spares_files_that_are_far_larger_than_the_rest(
    files: list[int], expected: list[list[int]]
) -> None:
    found = plan(*sized(*files), target_bytes=100, min_files=2, tiered=True)
    assert sizes(found) == expected


def test_a_tiered_compaction_still_folds_deleted_rows_in() -> None:
    large, *small = sized(60, 1, 1, 1, 1)
    found = plan(deleted(large, 20), *small, target_bytes=100, tiered=True)
    assert sizes(found) == [[60, 1, 1, 1, 1]]


def test_a_table_that_grows_is_not_written_again_and_again() -> None:
    """Let files of one byte come, merge them as a manager does, and count what is written."""
    files: list[int] = []
    written = 0
    for _ in range(400):
        files.append(1)
        found = plan(*sized(*files), target_bytes=1_000, tiered=True)
        for group in sizes(found):
            for size in group:
                files.remove(size)
            files.append(sum(group))
            written += sum(group)
    assert len(files) < 20
    assert written < 400 * 12


def test_a_file_that_fits_with_none_is_left_alone() -> None:
    found = plan(*sized(700, 600, 500))
    assert sizes(found) == []
    assert found.skipped == {"no other file fits with them": 3}


@pytest.mark.parametrize(("cardinality", "chosen"), [(10, False), (11, True), (100, True)])
def test_a_file_is_written_again_if_many_of_its_rows_are_deleted(
    cardinality: int, chosen: bool
) -> None:
    (file,) = sized(2_000)
    found = plan(deleted(file, cardinality), min_files=4)
    assert found.num_files == int(chosen)


def test_files_count_for_the_rows_they_still_have() -> None:
    first, second = sized(900, 600)
    assert sizes(plan(deleted(first, 60), second)) == [[900, 600]]


def test_deleted_rows_of_a_file_without_statistics_are_not_guessed() -> None:
    (file,) = sized(2_000)
    assert plan(replace(deleted(file, 90), stats=None)).num_files == 0


def test_files_come_in_the_order_they_were_written() -> None:
    first, second = sized(1, 2)
    later, earlier = replace(first, modification_time=9), replace(second, modification_time=8)
    assert sizes(plan(later, earlier)) == [[2, 1]]


def test_a_filter_chooses_partitions() -> None:
    files = [*sized(1, 2), *sized(3, 4, day="2"), *sized(5, 6, day="3")]
    found = plan(*files, where={"day": {"$in": ["2", "3"]}})
    assert sizes(found) == [[3, 4], [5, 6]]
    assert found.skipped == {"their partition is not asked for": 2}


@pytest.mark.parametrize("where", [{"id": 1}, {"day": "1", "id": 1}, {"nothing": 1}])
def test_a_filter_on_other_columns_is_refused(where: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="partition columns only") as caught:
        plan(*sized(1, 2), where=where)
    assert caught.value.field == "where"


@pytest.mark.parametrize("name", ["nothing", "id.x"])
def test_rows_are_sorted_by_columns_that_exist(name: str) -> None:
    with pytest.raises(ValidationError, match="sort_by") as caught:
        plan(*sized(1, 2), sort_by=(name,))
    assert caught.value.field == "sort_by"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("strategy", "best"),
        ("target_bytes", 0),
        ("min_files", 0),
        ("concurrency", 0),
        ("retries", -1),
        ("memory_bytes", 1),
        ("sort_by", ("id", "id")),
    ],
)
def test_options_that_make_no_sense_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        CompactOptions(**{name: value})  # type: ignore[arg-type]  # what is tested
    assert caught.value.field == name


def test_the_table_says_how_large_files_are_to_be() -> None:
    found = plan_compact(table_of(*sized(1, 2)), CompactOptions())
    assert found.target_bytes == 128 * 1024 * 1024


def test_a_plan_reads_as_text() -> None:
    files = [*sized(300, 200, 900), *sized(5, day="2")]
    text = str(plan(*files))
    assert text.splitlines()[1:] == [
        (
            "merge 2 files of 4, 500 bytes of 1.4 KiB, in 1 group of 1 partition "
            "(greedy, target 1000 bytes)"
        ),
        "  day=1: 2 files, 500 bytes",
        "leave 1 file: large enough",
        "leave 1 file: fewer than 2 small files in their partition",
    ]


def test_a_long_plan_is_cut_short() -> None:
    files = [file for day in range(25) for file in sized(1, 2, day=str(day))]
    assert "  and 5 groups more" in str(plan(*files))


def test_an_empty_table_has_nothing_to_merge() -> None:
    assert plan().groups == ()
