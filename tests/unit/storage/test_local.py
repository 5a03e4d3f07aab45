import errno
import fcntl
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polylake.errors import (
    AlreadyExists,
    FileNotFound,
    PermissionDenied,
    QuotaExceeded,
    StorageError,
    ValidationError,
    VersionMismatch,
)
from polylake.storage._contract import HasLocalPath, HasStagedFiles, ListKeys
from polylake.storage._local import LocalStorage
from polylake.storage._local_folder import is_staged, storage_error
from polylake.storage._local_list import may_hold
from polylake.storage._memory import MemoryStorage

needs_permissions = pytest.mark.skipif(os.geteuid() == 0, reason="root may do everything")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def store(root: Path) -> LocalStorage:
    return LocalStorage(root)


def keys(store: LocalStorage, prefix: str = "", start_after: str | None = None) -> list[str]:
    return [info.key for info in store.list(prefix, start_after=start_after)]


def listdir(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class TestRoot:
    def test_opening_and_reading_create_nothing(self, store: LocalStorage, root: Path) -> None:
        assert keys(store) == []
        assert not store.exists("a")
        store.delete(["a"])
        store.local_path("a/b")
        assert not root.exists()

    def test_the_first_write_creates_it_with_its_parents(self, tmp_path: Path) -> None:
        LocalStorage(tmp_path / "x" / "y" / "z").put("a", b"body")
        assert (tmp_path / "x" / "y" / "z" / "a").read_bytes() == b"body"

    def test_a_relative_root_does_not_follow_the_working_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        store = LocalStorage("here")
        monkeypatch.chdir("/")
        store.put("a", b"")
        assert (tmp_path / "here" / "a").exists()

    def test_it_may_be_a_symbolic_link(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        store = LocalStorage(tmp_path / "link")
        store.put("a/b", b"body")
        store.put("c", b"")
        assert store.get("a/b") == b"body"
        assert keys(store) == ["a/b", "c"]

    def test_it_may_vanish_and_come_back(self, store: LocalStorage, root: Path) -> None:
        store.put("a", b"")
        (root / "a").unlink()
        root.rmdir()
        assert keys(store) == []
        store.put("b", b"")
        assert keys(store) == ["b"]

    def test_its_address_is_a_file_url(self, store: LocalStorage, root: Path) -> None:
        assert store.url == root.as_uri()

    def test_objects_are_files(self, store: LocalStorage, root: Path) -> None:
        assert isinstance(store, HasLocalPath)
        assert store.local_path("a/b c") == str(root / "a" / "b c")


class TestLinks:
    @pytest.fixture(autouse=True)
    def _links(self, store: LocalStorage, root: Path, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret").write_bytes(b"secret")
        store.put("inside/plain", b"plain")
        (root / "folder").symlink_to(outside)
        (root / "inside" / "folder").symlink_to(outside)
        (root / "file").symlink_to(outside / "secret")
        (root / "dangling").symlink_to(tmp_path / "nowhere")

    @pytest.mark.parametrize(
        "key", ["folder/secret", "inside/folder/secret", "folder/deep/er", "file", "dangling"]
    )
    def test_reading_through_one_is_refused(self, store: LocalStorage, key: str) -> None:
        for read in (store.get, store.head, store.exists, store.open_reader, store.local_path):
            with pytest.raises(ValidationError, match="symbolic link"):
                read(key)
        with pytest.raises(ValidationError, match="symbolic link"):
            store.get_range(key, 0, 1)

    @pytest.mark.parametrize("key", ["folder/new", "inside/folder/new", "folder/deep/new"])
    def test_writing_through_one_is_refused(
        self, store: LocalStorage, tmp_path: Path, key: str
    ) -> None:
        for write in (store.put, store.put_if_absent):
            with pytest.raises(ValidationError, match="symbolic link"):
                write(key, b"")
        with pytest.raises(ValidationError, match="symbolic link"):
            store.open_writer(key)
        assert listdir(tmp_path / "outside") == ["secret"]

    def test_deleting_through_one_is_refused(self, store: LocalStorage, tmp_path: Path) -> None:
        with pytest.raises(StorageError) as refused:
            store.delete(["folder/secret", "inside/plain"])
        assert list(refused.value.facts["failed"]) == ["folder/secret"]
        assert (tmp_path / "outside" / "secret").exists()
        assert not store.exists("inside/plain")

    def test_replacing_one_leaves_what_it_points_to(
        self, store: LocalStorage, tmp_path: Path
    ) -> None:
        store.put("file", b"mine")
        assert store.get("file") == b"mine"
        assert (tmp_path / "outside" / "secret").read_bytes() == b"secret"

    def test_creating_over_one_is_refused(self, store: LocalStorage, tmp_path: Path) -> None:
        with pytest.raises(AlreadyExists):
            store.put_if_absent("dangling", b"")
        assert not (tmp_path / "nowhere").exists()

    def test_a_listing_passes_over_them(self, store: LocalStorage) -> None:
        assert keys(store) == ["inside/plain"]

    def test_a_listing_of_one_is_refused(self, store: LocalStorage) -> None:
        with pytest.raises(ValidationError, match="symbolic link"):
            keys(store, "folder/")


class TestStaging:
    def test_a_write_in_progress_is_not_listed(self, store: LocalStorage, root: Path) -> None:
        writer = store.open_writer("a/k")
        writer.write(b"x")
        [staged] = listdir(root / "a")
        assert staged.startswith(".")
        assert staged.endswith(".tmp")
        assert is_staged(staged)
        assert keys(store) == []
        writer.abort()
        assert listdir(root / "a") == []

    def test_only_staged_files_are_hidden(self, store: LocalStorage) -> None:
        names = [".hidden", ".part-0.parquet.crc", ".tmp", ".x.tmp", "x.tmp"]
        for name in names:
            store.put(name, b"")
        assert keys(store) == sorted(names)

    def test_nothing_stays_staged_after_a_write(self, store: LocalStorage, root: Path) -> None:
        version = store.put("a", b"1")
        version = store.put_if_match("a", b"2", version)
        store.put_if_absent("b", b"3")
        with pytest.raises(AlreadyExists):
            store.put_if_absent("b", b"4")
        with pytest.raises(VersionMismatch):
            store.put_if_match("a", b"5", "other")
        store.open_writer("c").close()
        assert listdir(root) == ["a", "b", "c"]

    @pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
    def test_no_descriptor_is_leaked(self, store: LocalStorage) -> None:
        before = listdir(Path("/proc/self/fd"))
        version = store.put("a/b/c", b"1")
        store.get("a/b/c")
        store.put_if_match("a/b/c", b"2", version)
        store.open_reader("a/b/c").close()
        for read in (store.get, store.head, store.open_reader):
            for missing in ("a/b", "a/x/y", "a/b/c/d"):
                with pytest.raises(FileNotFound):
                    read(missing)
        with pytest.raises(AlreadyExists):
            store.put_if_absent("a/b/c", b"")
        with pytest.raises(StorageError):
            store.put("a/b/c/d", b"")
        next(store.list())
        store.delete(["a/b/c", "a/x/y"])
        store.open_writer("d").abort()
        assert listdir(Path("/proc/self/fd")) == before


class TestErrors:
    @pytest.mark.parametrize(
        ("number", "kind"),
        [
            (errno.ENOENT, FileNotFound),
            (errno.EEXIST, AlreadyExists),
            (errno.ENOSPC, QuotaExceeded),
            (errno.EDQUOT, QuotaExceeded),
            (errno.EACCES, PermissionDenied),
            (errno.EPERM, PermissionDenied),
            (errno.EROFS, PermissionDenied),
            (errno.EIO, StorageError),
            (errno.ENOTDIR, StorageError),
        ],
    )
    def test_what_the_system_says_is_typed(self, number: int, kind: type[StorageError]) -> None:
        error = storage_error(OSError(number, os.strerror(number)), "a/b")
        assert type(error) is kind
        assert error.path == "a/b"
        assert error.facts["errno"] == number

    def test_nothing_can_be_written_below_a_file(self, store: LocalStorage) -> None:
        store.put("a", b"")
        with pytest.raises(StorageError) as refused:
            store.put("a/b", b"")
        assert refused.value.facts["errno"] == errno.ENOTDIR

    def test_a_folder_cannot_be_replaced_by_a_file(self, store: LocalStorage) -> None:
        store.put("a/b", b"")
        with pytest.raises(StorageError):
            store.put("a", b"")
        assert keys(store) == ["a/b"]

    def test_a_name_too_long_is_an_error_of_the_store(self, store: LocalStorage) -> None:
        with pytest.raises(StorageError) as refused:
            store.put("x" * 300, b"")
        assert refused.value.facts["errno"] == errno.ENAMETOOLONG

    @needs_permissions
    def test_what_may_not_be_read_is_denied(self, store: LocalStorage, root: Path) -> None:
        store.put("a/b", b"")
        (root / "a").chmod(0)
        try:
            with pytest.raises(PermissionDenied):
                store.get("a/b")
            with pytest.raises(PermissionDenied):
                keys(store)
        finally:
            (root / "a").chmod(0o700)


class TestList:
    def test_what_is_no_plain_file_is_no_object(self, store: LocalStorage, root: Path) -> None:
        store.put("a", b"")
        os.mkfifo(root / "pipe")
        (root / "empty" / "folder").mkdir(parents=True)
        assert keys(store) == ["a"]
        with pytest.raises(FileNotFound):
            store.get("pipe")

    def test_a_name_that_is_no_key_is_no_object(self, store: LocalStorage, root: Path) -> None:
        store.put("a", b"")
        (root / "%2e%2e").mkdir()
        (root / "%2e%2e" / "b").touch()
        Path(os.fsdecode(os.fsencode(root) + b"/latin-\xe9")).touch()
        assert keys(store) == ["a"]

    def test_a_file_that_vanishes_meanwhile_is_passed_over(self, store: LocalStorage) -> None:
        for key in ("a", "b", "c/d", "e"):
            store.put(key, b"")
        listing = store.list()
        assert next(listing).key == "a"
        store.delete(["b", "c/d"])
        Path(store.local_path("c")).rmdir()
        assert [info.key for info in listing] == ["e"]

    @pytest.mark.parametrize(
        ("folder", "prefix", "start_after", "opened"),
        [
            ("b/", "", "", True),
            ("b/", "b", "", True),
            ("b/", "b/c/d", "", True),
            ("b/", "bc", "", False),
            ("b/", "c/", "", False),
            ("b/", "", "a/z", True),
            ("b/", "", "b", True),
            ("b/", "", "b/c", True),
            ("b/", "", "b0", False),
            ("b/", "b/", "c", False),
        ],
    )
    def test_folders_that_cannot_hold_a_match_are_not_opened(
        self, folder: str, prefix: str, start_after: str, opened: bool
    ) -> None:
        assert may_hold(folder, prefix, start_after) is opened

    @given(
        names=st.sets(st.text(alphabet="ab!0é", min_size=1, max_size=2), max_size=6),
        folders=st.sets(st.text(alphabet="ab!0é", min_size=1, max_size=2), max_size=4),
        prefix=st.text(alphabet="ab!/0", max_size=3),
        start_after=st.none() | st.text(alphabet="ab!/0é", max_size=4),
    )
    def test_a_listing_is_the_sorted_filter_of_the_keys(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        names: set[str],
        folders: set[str],
        prefix: str,
        start_after: str | None,
    ) -> None:
        root = tmp_path_factory.mktemp("listing")
        stored = {name for name in names if name not in folders}
        stored |= {f"{folder}/{name}" for folder in folders for name in names}
        for key in stored:
            (root / key).parent.mkdir(exist_ok=True)
            (root / key).touch()
        if prefix.startswith("/") or "//" in prefix:
            return
        assert keys(LocalStorage(root), prefix, start_after) == sorted(
            key for key in stored if key.startswith(prefix) and key > (start_after or "")
        )


class TestRaces:
    def test_two_processes_never_both_create_a_key(self, root: Path) -> None:
        rounds = 100
        won = in_two_processes(create_keys, root, rounds)
        assert sorted(won[0] + won[1]) == list(range(rounds))
        store = LocalStorage(root)
        assert len(keys(store)) == rounds
        for writer, numbers in enumerate(won):
            assert all(store.get(f"log/{number:03}") == b"%d" % writer for number in numbers)

    def test_two_processes_never_lose_a_conditional_update(self, root: Path) -> None:
        store = LocalStorage(root)
        store.put("counter", b"0")
        in_two_processes(count_up, root, 50)
        assert store.get("counter") == b"100"

    @pytest.mark.parametrize(
        "change",
        [
            lambda store, version: store.put("a/k", b""),
            lambda store, version: store.put_if_match("a/k", b"", version),
            lambda store, version: store.open_writer("a/k").close(),
            lambda store, version: store.delete(["a/k"]),
        ],
        ids=["put", "put_if_match", "open_writer", "delete"],
    )
    def test_no_change_lands_between_a_comparison_and_its_replacement(
        self, store: LocalStorage, root: Path, change: Callable[[LocalStorage, str], object]
    ) -> None:
        version = store.put("a/k", b"old")
        comparing = os.open(root / "a", os.O_RDONLY)
        fcntl.flock(comparing, fcntl.LOCK_EX)
        with ThreadPoolExecutor(1) as pool:
            try:
                changed = pool.submit(change, store, version)
                with pytest.raises(TimeoutError):
                    changed.result(timeout=0.1)
                assert store.get("a/k") == b"old"
            finally:
                os.close(comparing)
            changed.result(timeout=10)
        assert not store.exists("a/k") or store.get("a/k") == b""

    def test_a_commit_waits_for_nobody(self, store: LocalStorage, root: Path) -> None:
        store.put("a/k", b"")
        comparing = os.open(root / "a", os.O_RDONLY)
        fcntl.flock(comparing, fcntl.LOCK_EX)
        store.put_if_absent("a/new", b"")
        os.close(comparing)
        assert keys(store) == ["a/k", "a/new"]


def in_two_processes(work: object, root: Path, rounds: int) -> list[list[int]]:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2, timeout=60)
    results = context.Queue()
    processes = [
        context.Process(target=work, args=(str(root), rounds, writer, barrier, results))
        for writer in range(2)
    ]
    for process in processes:
        process.start()
    answers = dict(results.get(timeout=60) for _ in processes)
    for process in processes:
        process.join(timeout=60)
        assert process.exitcode == 0
    return [answers[0], answers[1]]


def create_keys(root: str, rounds: int, writer: int, barrier, results) -> None:
    store = LocalStorage(root)
    won = []
    for number in range(rounds):
        barrier.wait()
        try:
            store.put_if_absent(f"log/{number:03}", b"%d" % writer)
        except AlreadyExists:
            continue
        won.append(number)
    results.put((writer, won))


def count_up(root: str, rounds: int, writer: int, barrier, results) -> None:
    store = LocalStorage(root)
    barrier.wait()
    for _ in range(rounds):
        while True:
            version = store.head("counter").version
            assert version is not None
            try:
                store.put_if_match("counter", b"%d" % (int(store.get("counter")) + 1), version)
            except VersionMismatch:
                continue
            break
    results.put((writer, []))


class TestListingWithoutFacts:
    def test_it_gives_the_keys_that_list_gives(self, store: LocalStorage, root: Path) -> None:
        for key in ["a", "b/c", "b/d/e f", "ü/%", "b-c", "_x/.y"]:
            store.put(key, b"12")
        (root / "link").symlink_to("a")
        (root / ".polylake-00.tmp").write_bytes(b"staged")
        for prefix in ["", "b", "b/", "b/d/e", "nothing/", "a"]:
            assert sorted(store.list_keys(prefix)) == keys(store, prefix)
            below = store.at("b")
            assert isinstance(below, ListKeys)
        assert sorted(below.list_keys()) == ["c", "d/e f"]
        assert sorted(below.list_keys("d")) == ["d/e f"]

    def test_facts_of_many_are_those_of_each_and_missing_ones_are_left_out(
        self, store: LocalStorage, root: Path
    ) -> None:
        for key in ["a", "b/c", "b/d"]:
            store.put(key, key.encode())
        (root / "link").symlink_to("a")
        asked = ["b/d", "b/x", "a", "no/folder", "a/below", "link", "b", "b/c"]
        assert list(store.head_many(asked)) == [store.head(key) for key in ["b/d", "a", "b/c"]]
        below = store.at("b")
        assert isinstance(below, ListKeys)
        assert [info.key for info in below.head_many(["d", "x", "c"])] == ["d", "c"]

    def test_a_key_that_is_none_is_refused(self, store: LocalStorage) -> None:
        with pytest.raises(ValidationError):
            list(store.head_many(["../x"]))
        with pytest.raises(ValidationError):
            store.list_keys("../")

    def test_a_root_that_is_not_there_has_nothing(self, store: LocalStorage) -> None:
        assert (list(store.list_keys()), list(store.list_staged())) == ([], [])


class TestStagedFiles:
    def test_they_are_listed_by_their_own_verb_and_can_be_deleted(
        self, store: LocalStorage, root: Path
    ) -> None:
        store.put("b/c", b"x")
        writer = store.open_writer("b/d")
        writer.write(b"half")
        (root / ".polylake-00.tmp").write_bytes(b"left behind")
        (root / ".polylake-x").write_bytes(b"another's")
        found = sorted(store.list_staged(), key=lambda info: info.key)
        assert [(info.key[:11], info.size) for info in found] == [
            (".polylake-0", 11),
            ("b/.polylake", 4),
        ]
        below = store.at("b")
        assert isinstance(below, HasStagedFiles)
        assert [info.size for info in below.list_staged()] == [4]
        assert [info.size for info in store.list_staged("b/")] == [4]
        store.delete([found[0].key])
        assert listdir(root) == [".polylake-x", "b"]
        writer.abort()
        assert list(store.list_staged()) == []

    def test_stores_without_files_have_none(self) -> None:
        assert not isinstance(MemoryStorage(), HasStagedFiles | ListKeys)
