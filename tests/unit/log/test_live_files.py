from __future__ import annotations

import pytest
from tests.builders import make_add, make_remove, make_vector

from polylake.log._actions import Add, Remove
from polylake.log._columns import ADD_COLUMNS, REMOVE_COLUMNS, to_columns
from polylake.log._live_files import _FOLD_AT, ColumnSource, Layer, LiveFiles, Overlay


def source(*actions: Add | Remove) -> Layer:
    adds = [action.to_log() for action in actions if isinstance(action, Add)]
    removes = [action.to_log() for action in actions if isinstance(action, Remove)]
    return Layer(ColumnSource(to_columns(adds, ADD_COLUMNS), to_columns(removes, REMOVE_COLUMNS)))


def overlay(*actions: Add | Remove) -> Overlay:
    found = Overlay()
    for action in actions:
        apply = found.add if isinstance(action, Add) else found.remove
        apply(action.file_path, action.to_log())
    return found


def live(files: LiveFiles) -> list[str]:
    return sorted(add.path for add in files.adds())


def gone(files: LiveFiles) -> list[str]:
    return sorted(remove.path for remove in files.tombstones())


A, B, C = make_add("a"), make_add("b"), make_add("c")
A1 = make_add("a", deletion_vector=make_vector(1))
A2 = make_add("a", deletion_vector=make_vector(2))


def test_a_table_without_files_has_empty_columns():
    files = LiveFiles((), Overlay())
    assert files.table().num_rows == files.num_files == files.size_bytes == 0
    assert files.table().column_names == list(ADD_COLUMNS)
    assert live(files) == gone(files) == []
    assert files.find(["a"]) == {}


def test_files_of_sources_and_overlay_are_live_together():
    files = LiveFiles((source(A), source(B)), overlay(C))
    assert live(files) == ["a", "b", "c"]
    assert files.num_files == 3
    assert files.size_bytes == 300


def test_a_removed_file_leaves_a_tombstone():
    files = LiveFiles((source(A, B),), overlay(C, make_remove(C), make_remove(A)))
    assert live(files) == ["b"]
    assert gone(files) == ["a", "c"]
    assert (files.num_files, files.size_bytes) == (1, 100)


def test_a_file_that_is_added_again_is_live_without_a_tombstone():
    files = LiveFiles((source(B, make_remove(A)),), overlay(make_remove(B), A, B))
    assert live(files) == ["a", "b"]
    assert gone(files) == []


def test_a_file_that_is_added_again_is_the_new_one():
    files = LiveFiles((source(A),), overlay(make_add("a", size=7)))
    assert files.num_files == 1
    assert files.size_bytes == 7


@pytest.mark.parametrize("first", [A, A1])
def test_a_new_deletion_vector_replaces_the_file_and_leaves_a_tombstone(first):
    files = LiveFiles((source(first),), overlay(make_remove(first), A2))
    assert list(files.adds()) == [A2]
    [tombstone] = files.tombstones()
    assert tombstone.deletion_vector == first.deletion_vector


@pytest.mark.parametrize("actions", [(make_remove(A1), A2), (A2, make_remove(A1))])
def test_within_a_commit_the_order_of_a_deletion_vector_update_does_not_matter(actions):
    files = LiveFiles((), overlay(A1, *actions))
    assert list(files.adds()) == [A2]
    assert len(gone(files)) == 1


def test_removing_an_older_deletion_vector_leaves_the_file():
    files = LiveFiles((source(A2),), overlay(make_remove(A1)))
    assert live(files) == ["a"]


def test_a_spelling_of_a_path_does_not_matter():
    files = LiveFiles((source(make_add("x%20y")),), overlay(make_remove(make_add("x y"))))
    assert live(files) == []


def test_a_source_wholly_removed_gives_no_rows():
    files = LiveFiles((source(A),), overlay(make_remove(A)))
    assert files.table().num_rows == files.num_files == 0


def test_files_are_found_in_overlay_and_sources_by_decoded_path():
    spaced = make_add("x%20y")
    files = LiveFiles((source(A, B, spaced),), overlay(C, make_remove(B), A1))
    found = files.find(["a", "b", "c", "x y", "nowhere"])
    assert found == {"a": A1, "c": C, "x y": spaced}


def test_columns_come_in_the_order_asked_for():
    files = LiveFiles((source(A),), overlay(B))
    assert files.table(["size", "path"]).to_pylist() == [
        {"size": 100, "path": "a"},
        {"size": 100, "path": "b"},
    ]


def test_an_overlay_copy_grows_alone():
    first = overlay(A)
    second = first.copy()
    second.add("b", B.to_log())
    second.remove("a", make_remove(A).to_log())
    assert live(LiveFiles((), first)) == ["a"]
    assert live(LiveFiles((), second)) == ["b"]


@pytest.mark.parametrize(("count", "layers"), [(_FOLD_AT - 1, 0), (_FOLD_AT, 1), (_FOLD_AT + 1, 1)])
def test_a_large_overlay_is_folded_into_columns(count, layers):
    files = LiveFiles((), overlay(*(make_add(f"p{number}") for number in range(count))))
    folded = files.folded()
    assert len(folded.layers) == layers
    assert len(folded.overlay) == (0 if layers else count)
    assert live(folded) == live(files)


def test_folding_changes_nothing_that_is_seen():
    many = [make_add(f"p{number}") for number in range(_FOLD_AT)]
    base = (source(A1, B, make_remove(C)), source(*many[:100]))
    changes = [make_remove(A1), A2, C, *many, *map(make_remove, many[::2])]
    files = LiveFiles(base, overlay(*changes))
    folded = files.folded()
    assert folded.layers is not files.layers
    assert list(folded.adds()) == list(files.adds())
    assert gone(folded) == gone(files)
    assert (folded.num_files, folded.size_bytes) == (files.num_files, files.size_bytes)
    assert folded.find(["a", "p1", "p2"]) == files.find(["a", "p1", "p2"])


def test_what_was_folded_can_be_changed_again():
    many = [make_add(f"p{number}") for number in range(_FOLD_AT)]
    folded = LiveFiles((source(A),), overlay(make_remove(A), *many)).folded()
    files = LiveFiles(folded.layers, overlay(A, make_remove(many[0])))
    assert files.num_files == _FOLD_AT
    assert gone(files) == ["p0"]
    assert set(files.find(["a", "p0", "p1"])) == {"a", "p1"}


def test_batches_hold_what_the_table_holds():
    many = [make_add(f"p{number}") for number in range(25)]
    files = LiveFiles((source(A, *many),), overlay(B, C, make_remove(many[3])))
    batches = list(files.batches(["path"], rows=10))
    assert max(batch.num_rows for batch in batches) <= 10
    assert [row for batch in batches for row in batch.to_pylist()] == files.table(
        ["path"]
    ).to_pylist()
