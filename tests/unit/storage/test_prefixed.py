from collections.abc import Iterable
from pathlib import Path

import pytest

from polylake.errors import StorageError, ValidationError
from polylake.storage._contract import HasLocalPath
from polylake.storage._local import LocalStorage
from polylake.storage._memory import MemoryStorage
from polylake.storage._metered import MeteredStorage
from polylake.storage._prefixed import PrefixedStorage


class Undeletable(MemoryStorage):
    """A store that deletes nothing."""

    def delete(self, keys: Iterable[str]) -> None:
        raise StorageError("no", failed=dict.fromkeys(keys, "held"))


def test_nested_folders_collapse_into_one() -> None:
    store = MemoryStorage()
    nested = store.at("a").at("b").at("c")
    assert isinstance(nested, PrefixedStorage)
    assert nested._inner is store


def test_files_on_this_machine_stay_reachable_by_path(tmp_path: Path) -> None:
    below = LocalStorage(tmp_path).at("a").at("b")
    assert isinstance(below, HasLocalPath)
    below.put("c", b"body")
    assert below.local_path("c") == str(tmp_path / "a" / "b" / "c")
    with pytest.raises(ValidationError):
        below.local_path("../c")


def test_a_store_without_files_has_no_paths(tmp_path: Path) -> None:
    assert not isinstance(MemoryStorage().at("a"), HasLocalPath)
    assert not isinstance(MeteredStorage(LocalStorage(tmp_path)).at("a"), HasLocalPath)


def test_keys_that_could_not_be_deleted_are_relative_too() -> None:
    with pytest.raises(StorageError) as failed:
        Undeletable().at("a/b").delete(["x", "y/z"])
    assert failed.value.facts["failed"] == {"x": "held", "y/z": "held"}


def test_the_address_shows_the_folder(tmp_path: Path) -> None:
    assert MemoryStorage().at("a b/c").url == "memory://a%20b/c"
    assert LocalStorage(tmp_path).at("a b").url == (tmp_path / "a b").as_uri()
