"""What ``polylake.storage._contract`` promises, for every backend."""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polylake.errors import AlreadyExists, FileNotFound, ValidationError, VersionMismatch
from polylake.storage._contract import Storage

BAD_KEYS = [
    "",
    "/",
    "/etc/passwd",
    "a\0b",
    ".",
    "..",
    "a/..",
    "a/./b",
    "../a",
    "a/../../b",
    "a//b",
    "a/",
    "%2e%2e/a",
    "a/%2E./b",
    "a%2f..%2fb",
    "%252e%252e/a",
    "a\udc80b",
]
VERBS_OF_ONE_KEY = {
    "get": lambda store, key: store.get(key),
    "get_many": lambda store, key: list(store.get_many([key])),
    "get_range": lambda store, key: store.get_range(key, 0, 1),
    "get_ranges": lambda store, key: store.get_ranges(key, [(0, 1)]),
    "head": lambda store, key: store.head(key),
    "exists": lambda store, key: store.exists(key),
    "open_reader": lambda store, key: store.open_reader(key).read(),
    "put": lambda store, key: store.put(key, b""),
    "put_if_absent": lambda store, key: store.put_if_absent(key, b""),
    "put_if_match": lambda store, key: store.put_if_match(key, b"", "1"),
    "open_writer": lambda store, key: store.open_writer(key).close(),
    "delete": lambda store, key: store.delete([key]),
    "at": lambda store, key: store.at(f"{key}/x").get("x"),
}
READS = ["get", "get_many", "get_range", "get_ranges", "head", "open_reader"]


def keys(store: Storage, prefix: str = "", *, start_after: str | None = None) -> list[str]:
    return [info.key for info in store.list(prefix, start_after=start_after)]


def fill(store: Storage, *names: str) -> None:
    for name in names:
        store.put(name, name.encode())


class Boom(Exception):
    pass


def test_it_is_a_storage(storage: Storage) -> None:
    assert isinstance(storage, Storage)
    assert "://" in storage.url


class TestKeys:
    @pytest.mark.parametrize("verb", VERBS_OF_ONE_KEY)
    def test_bad_keys_are_refused(self, storage: Storage, verb: str) -> None:
        for key in BAD_KEYS:
            with pytest.raises(ValidationError):
                VERBS_OF_ONE_KEY[verb](storage, key)
        assert keys(storage) == []

    @pytest.mark.parametrize("prefix", ["/", "/a", "a//b", "../", "a/../b", "%2e%2e/", "a\0"])
    def test_bad_prefixes_are_refused_at_the_call(self, storage: Storage, prefix: str) -> None:
        with pytest.raises(ValidationError):
            storage.list(prefix)

    @pytest.mark.parametrize(
        "key",
        [
            "plain",
            "deep/er/and/deeper.json",
            "part=1/a b+c&d=e,f;g:h@i!j'k(l)m*n?o#p[q]r{s}",
            "a%20b",
            "100%",
            "p=a%2Fb/part.parquet",
            "%",
            "ünï/日本語/🎈.parquet",
            ".hidden",
            ".part-0001.parquet.crc",
            "a/.b/..c/...",
            "back\\slash",
            'quote"d',
            "~",
        ],
    )
    def test_odd_keys_round_trip(self, storage: Storage, key: str) -> None:
        storage.put(key, b"body")
        assert storage.get(key) == b"body"
        assert storage.get_range(key, 1, 3) == b"od"
        assert storage.head(key).key == key
        assert keys(storage) == [key]
        assert keys(storage, key) == [key]
        storage.delete([key])
        assert keys(storage) == []

    def test_a_key_and_its_encoded_twin_are_two_objects(self, storage: Storage) -> None:
        fill(storage, "a b", "a%20b", "a+b")
        assert {key: storage.get(key) for key in keys(storage)} == {
            "a b": b"a b",
            "a%20b": b"a%20b",
            "a+b": b"a+b",
        }


class TestGet:
    @pytest.mark.parametrize("body", [b"", b"x", bytes(range(256)) * 1000])
    def test_bytes_come_back(self, storage: Storage, body: bytes) -> None:
        storage.put("k", body)
        assert storage.get("k") == body
        assert storage.head("k").size == len(body)

    @pytest.mark.parametrize("verb", READS)
    def test_a_missing_key_is_not_found(self, storage: Storage, verb: str) -> None:
        storage.put("other", b"")
        with pytest.raises(FileNotFound):
            VERBS_OF_ONE_KEY[verb](storage, "missing")
        with pytest.raises(FileNotFoundError):
            VERBS_OF_ONE_KEY[verb](storage, "missing/too")

    def test_a_folder_is_not_an_object(self, storage: Storage) -> None:
        storage.put("folder/file", b"")
        assert not storage.exists("folder")
        with pytest.raises(FileNotFound):
            storage.get("folder")
        with pytest.raises(FileNotFound):
            storage.head("folder")

    def test_nothing_lies_below_an_object(self, storage: Storage) -> None:
        storage.put("file", b"")
        assert not storage.exists("file/below")
        with pytest.raises(FileNotFound):
            storage.get("file/below")

    def test_exists_tells_what_is_there(self, storage: Storage) -> None:
        assert not storage.exists("a/k")
        storage.put("a/k", b"")
        assert storage.exists("a/k")

    def test_many_come_in_the_order_asked(self, storage: Storage) -> None:
        names = [f"{number:03}" for number in range(100)]
        fill(storage, *names)
        asked = [*reversed(names), names[5], names[5]]
        assert list(storage.get_many(asked)) == [name.encode() for name in asked]
        assert list(storage.get_many([])) == []

    def test_a_missing_one_of_many_fails_in_its_turn(self, storage: Storage) -> None:
        fill(storage, "a", "b")
        bodies = storage.get_many(["a", "missing", "b"])
        assert next(bodies) == b"a"
        with pytest.raises(FileNotFound):
            next(bodies)

    def test_head_dates_an_object_by_its_write(self, storage: Storage) -> None:
        before = time.time() * 1000
        storage.put("k", b"")
        after = time.time() * 1000
        # Object stores keep whole seconds, by their own clock.
        assert before - 1500 <= storage.head("k").modified_ms <= after + 1500

    def test_head_and_list_agree(self, storage: Storage) -> None:
        fill(storage, "a/b", "a/c", "d")
        listed = list(storage.list())
        heads = [storage.head(key) for key in ("a/b", "a/c", "d")]
        assert [(i.key, i.size, i.version) for i in listed] == [
            (i.key, i.size, i.version) for i in heads
        ]
        # The header of an HTTP answer has no fractions of a second.
        assert [i.modified_ms // 1000 for i in listed] == [i.modified_ms // 1000 for i in heads]


class TestRanges:
    BODY = bytes(range(100))

    @pytest.mark.parametrize(
        ("start", "end"),
        [
            (0, 100),
            (0, 1),
            (99, 100),
            (10, 20),
            (90, 200),
            (0, 0),
            (50, 50),
            (100, 110),
            (500, 600),
        ],
    )
    def test_a_range_is_a_slice(self, storage: Storage, start: int, end: int) -> None:
        storage.put("k", self.BODY)
        assert storage.get_range("k", start, end) == self.BODY[start:end]
        assert storage.get_ranges("k", [(start, end)]) == [self.BODY[start:end]]

    def test_ranges_come_in_the_order_asked(self, storage: Storage) -> None:
        storage.put("k", self.BODY)
        asked = [(50, 60), (0, 10), (5, 15), (99, 150), (50, 60), (3, 3), (200, 300)]
        assert storage.get_ranges("k", asked) == [self.BODY[start:end] for start, end in asked]
        assert storage.get_ranges("k", []) == []

    def test_an_empty_object_has_empty_ranges(self, storage: Storage) -> None:
        storage.put("k", b"")
        assert storage.get_range("k", 0, 10) == b""

    @pytest.mark.parametrize(("start", "end"), [(-1, 5), (5, 4), (-5, -1)])
    def test_what_is_no_range_is_refused(self, storage: Storage, start: int, end: int) -> None:
        storage.put("k", self.BODY)
        with pytest.raises(ValidationError):
            storage.get_range("k", start, end)
        with pytest.raises(ValidationError):
            storage.get_ranges("k", [(0, 1), (start, end)])


class TestList:
    # Folders and files that interleave: "/" sorts after "!", "-" and "." and before digits.
    KEYS = sorted(
        ["a!", "a-b", "a.b", "a/1", "a/2/x", "a/2!", "a/20", "a0", "ab", "b/c", "é", "z/ü", "🎈"]
    )

    def test_keys_come_in_byte_order(self, storage: Storage) -> None:
        fill(storage, *reversed(self.KEYS))
        listed = keys(storage)
        assert listed == sorted(self.KEYS, key=str.encode)

    @pytest.mark.parametrize(
        "prefix",
        [
            "",
            "a",
            "a/",
            "a/2",
            "a/2/",
            "a/2/x",
            "a/2/xy",
            "b",
            "b/c",
            "b/c/",
            "é",
            "nothing",
            "z/ü",
        ],
    )
    def test_a_prefix_is_a_plain_string_prefix(self, storage: Storage, prefix: str) -> None:
        fill(storage, *self.KEYS)
        assert keys(storage, prefix) == [key for key in self.KEYS if key.startswith(prefix)]

    @pytest.mark.parametrize("prefix", ["", "a", "a/", "a/2"])
    @pytest.mark.parametrize(
        "start_after", ["", "a", "a!", "a/", "a/1", "a/2", "a/2/", "a/2/x", "a/2~", "a~", "é", "🎈"]
    )
    def test_only_keys_behind_start_after_are_given(
        self, storage: Storage, prefix: str, start_after: str
    ) -> None:
        fill(storage, *self.KEYS)
        expected = [key for key in self.KEYS if key.startswith(prefix) and key > start_after]
        assert keys(storage, prefix, start_after=start_after) == expected

    def test_an_empty_store_lists_nothing(self, storage: Storage) -> None:
        assert keys(storage) == keys(storage, "a/b") == []

    def test_more_than_a_page_is_listed(self, storage: Storage) -> None:
        names = [f"page/{number:04}" for number in range(1100)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda name: storage.put(name, b""), names))
        assert keys(storage) == names
        assert keys(storage, start_after=names[1050]) == names[1051:]

    def test_a_caller_may_stop_early(self, storage: Storage) -> None:
        fill(storage, "a/b", "a/c", "d")
        assert [info.key for info in itertools.islice(storage.list(), 1)] == ["a/b"]

    def test_what_is_there_all_the_time_is_listed(self, storage: Storage) -> None:
        fill(storage, "a", "m/x", "z")
        listing = storage.list()
        listed = [next(listing).key]
        storage.delete(["m/x"])
        storage.put("b", b"")
        listed += [info.key for info in listing]
        assert [key for key in listed if key in ("a", "z")] == ["a", "z"]

    def test_what_is_deleted_is_not_listed(self, storage: Storage) -> None:
        fill(storage, "a/b", "a/c")
        storage.delete(["a/b"])
        assert keys(storage) == ["a/c"]


class TestPut:
    def test_put_replaces(self, storage: Storage) -> None:
        first = storage.put("k", b"first")
        second = storage.put("k", b"2")
        assert storage.get("k") == b"2"
        assert first != second
        assert storage.head("k").version == second

    def test_readers_never_see_a_mixture(self, storage: Storage) -> None:
        bodies = [bytes([number]) * 50_000 for number in range(8)]
        storage.put("k", bodies[0])
        with ThreadPoolExecutor(4) as pool:
            reads = pool.map(lambda _: storage.get("k"), range(40))
            writes = pool.map(lambda body: storage.put("k", body), bodies * 3)
            list(writes)
            assert all(body in bodies for body in reads)

    def test_put_if_absent_creates_once(self, storage: Storage) -> None:
        version = storage.put_if_absent("log/0.json", b"first")
        with pytest.raises(AlreadyExists):
            storage.put_if_absent("log/0.json", b"second")
        assert storage.get("log/0.json") == b"first"
        assert storage.head("log/0.json").version == version

    def test_put_if_absent_creates_again_after_a_delete(self, storage: Storage) -> None:
        storage.put_if_absent("k", b"first")
        storage.delete(["k"])
        storage.put_if_absent("k", b"second")
        assert storage.get("k") == b"second"

    @pytest.mark.parametrize("round_number", range(3))
    def test_put_if_absent_has_one_winner(self, storage: Storage, round_number: int) -> None:
        def attempt(writer: int) -> int | None:
            try:
                storage.put_if_absent("log/1.json", b"%d" % writer)
            except AlreadyExists:
                return None
            return writer

        with ThreadPoolExecutor(16) as pool:
            winners = [won for won in pool.map(attempt, range(16)) if won is not None]
        assert [b"%d" % winner for winner in winners] == [storage.get("log/1.json")]
        assert keys(storage) == ["log/1.json"]

    def test_put_if_match_replaces_the_version_it_names(self, storage: Storage) -> None:
        first = storage.put("k", b"first")
        assert first is not None
        second = storage.put_if_match("k", b"second", first)
        assert storage.get("k") == b"second"
        assert storage.head("k").version == second != first

    def test_put_if_match_refuses_another_version(self, storage: Storage) -> None:
        first = storage.put("k", b"first")
        assert first is not None
        storage.put("k", b"other")
        with pytest.raises(VersionMismatch) as refused:
            storage.put_if_match("k", b"second", first)
        assert refused.value.expected_version == first
        assert storage.get("k") == b"other"

    def test_put_if_match_does_not_create(self, storage: Storage) -> None:
        version = storage.put("k", b"")
        assert version is not None
        storage.delete(["k"])
        with pytest.raises(VersionMismatch):
            storage.put_if_match("k", b"", version)
        assert not storage.exists("k")

    def test_a_version_does_not_come_back(self, storage: Storage) -> None:
        # Equal sizes, in quick succession; the bodies differ, since an etag may be their hash.
        versions = [storage.put("k", b"%03d" % number) for number in range(50)]
        assert len(set(versions)) == 50

    def test_put_if_match_counts_without_losing_one(self, storage: Storage) -> None:
        storage.put("counter", b"0")

        def increment(_: int) -> None:
            while True:
                version = storage.head("counter").version
                assert version is not None
                body = b"%d" % (int(storage.get("counter")) + 1)
                try:
                    storage.put_if_match("counter", body, version)
                except VersionMismatch:
                    continue
                return

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(increment, range(24)))
        assert storage.get("counter") == b"24"


class TestWriter:
    def test_nothing_is_visible_before_close(self, storage: Storage) -> None:
        writer = storage.open_writer("a/k")
        assert writer.write(b"one") == 3
        writer.flush()
        assert not storage.exists("a/k")
        assert keys(storage) == []
        assert writer.write(b"two!") == 4
        assert writer.tell() == 7
        assert not writer.closed
        writer.close()
        assert writer.closed
        assert storage.get("a/k") == b"onetwo!"

    def test_an_old_object_stays_until_close(self, storage: Storage) -> None:
        storage.put("k", b"old")
        with storage.open_writer("k") as writer:
            writer.write(b"new")
            assert storage.get("k") == b"old"
        assert storage.get("k") == b"new"

    def test_twelve_megabytes_arrive(self, storage: Storage) -> None:
        chunk = bytes(range(256)) * 4096
        with storage.open_writer("large") as writer:
            for _ in range(12):
                writer.write(chunk)
        assert storage.head("large").size == 12 * len(chunk)
        assert storage.get_range("large", 7 << 20, (7 << 20) + 300) == chunk[:300]
        assert storage.get("large") == chunk * 12

    def test_nothing_written_is_an_empty_object(self, storage: Storage) -> None:
        storage.open_writer("empty").close()
        assert storage.get("empty") == b""

    def test_abort_leaves_nothing(self, storage: Storage) -> None:
        writer = storage.open_writer("k")
        writer.write(b"x" * (6 << 20))
        writer.abort()
        assert writer.closed
        assert keys(storage) == []

    def test_abort_leaves_the_old_object(self, storage: Storage) -> None:
        storage.put("k", b"old")
        writer = storage.open_writer("k")
        writer.write(b"new")
        writer.abort()
        assert storage.get("k") == b"old"

    def test_an_error_in_the_block_aborts(self, storage: Storage) -> None:
        def write_half() -> None:
            with storage.open_writer("k") as writer:
                writer.write(b"half")
                raise Boom

        with pytest.raises(Boom):
            write_half()
        assert keys(storage) == []

    def test_after_the_end_both_are_no_ops(self, storage: Storage) -> None:
        published = storage.open_writer("published")
        published.write(b"x")
        aborted = storage.open_writer("aborted")
        published.close()
        aborted.abort()
        for writer in (published, aborted):
            writer.close()
            writer.abort()
        assert keys(storage) == ["published"]
        assert storage.get("published") == b"x"

    def test_a_closed_writer_takes_no_more(self, storage: Storage) -> None:
        writer = storage.open_writer("k")
        writer.close()
        with pytest.raises(ValueError, match="closed"):
            writer.write(b"x")


class TestReader:
    BODY = bytes(range(256)) * 1000

    @pytest.mark.parametrize("size", [None, len(BODY)])
    def test_it_reads_at_any_position(self, storage: Storage, size: int | None) -> None:
        storage.put("k", self.BODY)
        reader = storage.open_reader("k", size=size)
        assert reader.size() == len(self.BODY)
        assert reader.read(10) == self.BODY[:10]
        assert reader.tell() == 10
        assert reader.seek(-20, 2) == len(self.BODY) - 20
        assert reader.read() == self.BODY[-20:]
        assert reader.read(5) == b""
        assert reader.seek(1000) == 1000
        assert reader.seek(500, 1) == 1500
        assert reader.read(100_000) == self.BODY[1500:101_500]
        assert not reader.closed
        reader.close()
        assert reader.closed

    def test_parquet_is_written_and_read_through_it(self, storage: Storage) -> None:
        table = pa.table({"a": range(50_000), "b": [f"{n}" for n in range(50_000)]})
        with storage.open_writer("t.parquet") as writer:
            pq.write_table(table, writer, row_group_size=10_000)
        reader = storage.open_reader("t.parquet")
        assert pq.ParquetFile(reader).read() == table
        reader.close()

    def test_half_a_parquet_file_is_never_published(self, storage: Storage) -> None:
        table = pa.table({"a": range(1000)})
        writer = storage.open_writer("t.parquet")
        parquet = pq.ParquetWriter(writer, table.schema)
        parquet.write_table(table)
        writer.abort()
        with pytest.raises(ValueError, match="closed"):
            parquet.close()
        assert keys(storage) == []


class TestDelete:
    def test_deleted_is_gone(self, storage: Storage) -> None:
        fill(storage, "a/b", "a/c", "d")
        storage.delete(["a/b", "d"])
        assert keys(storage) == ["a/c"]
        assert not storage.exists("a/b")

    def test_it_is_idempotent(self, storage: Storage) -> None:
        storage.put("k", b"")
        storage.delete(["k", "never/there", "k/below"])
        storage.delete(["k"])
        storage.delete([])
        assert keys(storage) == []

    def test_keys_may_come_from_an_iterator(self, storage: Storage) -> None:
        fill(storage, "a", "b")
        storage.delete(info.key for info in storage.list())
        assert keys(storage) == []

    def test_a_bad_key_deletes_nothing(self, storage: Storage) -> None:
        storage.put("k", b"")
        with pytest.raises(ValidationError):
            storage.delete(["k", "../k"])
        assert storage.exists("k")

    def test_a_folder_name_deletes_nothing(self, storage: Storage) -> None:
        storage.put("a/b", b"")
        storage.delete(["a"])
        assert keys(storage) == ["a/b"]


class TestAt:
    def test_keys_are_relative_to_the_folder(self, storage: Storage) -> None:
        below = storage.at("x/y")
        below.put("z", b"body")
        assert keys(below) == ["z"]
        assert keys(storage) == ["x/y/z"]
        assert storage.get("x/y/z") == below.get("z") == b"body"
        assert below.head("z").key == "z"

    def test_neighbours_are_not_seen(self, storage: Storage) -> None:
        fill(storage, "x/a", "x!", "x0", "xx/a", "y")
        below = storage.at("x/")
        assert keys(below) == keys(below, start_after="") == ["a"]
        below.delete(["a"])
        assert keys(storage) == ["x!", "x0", "xx/a", "y"]

    def test_folders_nest(self, storage: Storage) -> None:
        storage.at("x").at("y/").at("z").put("k", b"")
        assert keys(storage) == ["x/y/z/k"]
        assert storage.at("x").at("y").url == storage.at("x/y").url
        assert storage.at("x").url == f"{storage.url.rstrip('/')}/x".replace(
            "memory:/x", "memory://x"
        )

    def test_the_empty_folder_is_the_store(self, storage: Storage) -> None:
        storage.at("").put("k", b"")
        assert keys(storage) == ["k"]

    @pytest.mark.parametrize("prefix", ["/", "..", "../x", "a//b", "/abs"])
    def test_no_folder_lies_outside(self, storage: Storage, prefix: str) -> None:
        with pytest.raises(ValidationError):
            storage.at(prefix)
