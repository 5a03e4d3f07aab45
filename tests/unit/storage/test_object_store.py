"""Object stores over real HTTP: what refusals mean, and what happens when replies are lost."""

import logging
import pickle
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from tests.servers.s3 import ACCESS_KEY_ID, SECRET_ACCESS_KEY, S3Server

from polylake.errors import (
    AlreadyExists,
    ConditionalPutUnsupported,
    FileNotFound,
    ObjectStoreError,
    OutcomeUnknown,
    PermissionDenied,
    PolylakeError,
    QuotaExceeded,
    StorageError,
    StorageUnavailable,
    ValidationError,
    VersionMismatch,
)
from polylake.storage import AccessKey, ObjectStorage, Storage
from polylake.storage._object_writer import PART_BYTES

LOST = pytest.mark.parametrize(
    "loss",
    [{"drop": True}, {"status": "500 Internal Server Error"}, {"status": "503 Slow Down"}],
    ids=["dropped", "500", "503"],
)


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    return s3_server.bucket()


@pytest.fixture
def storage(s3_server: S3Server, bucket: str) -> Storage:
    """A store that has passed its probe, so that the next conditional put is the test's own."""
    storage = s3_server.open(bucket)
    storage.put_if_absent("probed", b"")
    return storage


class TestLostReplies:
    @LOST
    def test_a_create_that_landed_is_unknown_and_never_lost_to_itself(
        self, s3_server: S3Server, storage: Storage, loss: dict[str, object]
    ) -> None:
        s3_server.fault("PUT", "/key", lands=True, **loss)
        with pytest.raises(OutcomeUnknown):
            storage.put_if_absent("key", b"mine")
        assert storage.get("key") == b"mine"

    @LOST
    def test_it_is_so_with_retries_as_well(
        self, s3_server: S3Server, bucket: str, loss: dict[str, object]
    ) -> None:
        storage = s3_server.open(bucket, max_retries=3)
        storage.put_if_absent("probed", b"")
        s3_server.fault("PUT", "/key", lands=True, **loss)
        with pytest.raises(OutcomeUnknown):
            storage.put_if_absent("key", b"mine")

    @LOST
    def test_a_replacement_that_landed_is_unknown(
        self, s3_server: S3Server, storage: Storage, loss: dict[str, object]
    ) -> None:
        version = storage.put("key", b"1")
        assert version is not None
        s3_server.fault("PUT", "/key", lands=True, **loss)
        with pytest.raises(OutcomeUnknown):
            storage.put_if_match("key", b"2", version)
        assert storage.get("key") == b"2"

    def test_a_create_that_timed_out_is_unknown(self, s3_server: S3Server, bucket: str) -> None:
        storage = s3_server.open(bucket, request_timeout_s=0.5)
        storage.put_if_absent("probed", b"")
        s3_server.fault("PUT", "/key", lands=True, delay_s=1.5)
        with pytest.raises(OutcomeUnknown, match="time-out"):
            storage.put_if_absent("key", b"mine")

    def test_a_create_that_was_never_sent_is_not_unknown(self, s3_server: S3Server) -> None:
        storage = s3_server.open("bucket", endpoint="http://127.0.0.1:1")
        with pytest.raises(StorageUnavailable, match="cannot be reached"):
            storage.put_if_absent("key", b"")

    def test_plain_requests_are_repeated(self, s3_server: S3Server, bucket: str) -> None:
        storage = s3_server.open(bucket, max_retries=2)
        s3_server.fault("PUT", "/key", status="503 Slow Down", times=2)
        storage.put("key", b"body")
        s3_server.fault("GET", "/key", drop=True)
        assert storage.get("key") == b"body"


class TestRefusals:
    @pytest.mark.parametrize(
        ("status", "code", "expected"),
        [
            ("409 Conflict", "ConditionalRequestConflict", StorageUnavailable),
            ("409 Conflict", "BlobAlreadyExists", AlreadyExists),
            ("409 Conflict", "InvalidBucketState", ObjectStoreError),
            ("412 Precondition Failed", "PreconditionFailed", AlreadyExists),
            ("429 Too Many Requests", "SlowDown", StorageUnavailable),
            ("501 Not Implemented", "NotImplemented", ConditionalPutUnsupported),
            ("507 Insufficient Storage", "XMinioStorageFull", QuotaExceeded),
            ("404 Not Found", "NoSuchBucket", ObjectStoreError),
            ("403 Forbidden", "AccessDenied", PermissionDenied),
        ],
    )
    def test_of_a_create(
        self,
        s3_server: S3Server,
        storage: Storage,
        status: str,
        code: str,
        expected: type[StorageError],
    ) -> None:
        s3_server.refuse("PUT", "/key", status, code)
        with pytest.raises(expected) as caught:
            storage.put_if_absent("key", b"")
        assert type(caught.value) is expected
        assert caught.value.facts["store_code"] == code

    @pytest.mark.parametrize(
        ("status", "code", "expected"),
        [
            ("409 Conflict", "ConditionalRequestConflict", VersionMismatch),
            ("412 Precondition Failed", "PreconditionFailed", VersionMismatch),
            ("404 Not Found", "NoSuchKey", VersionMismatch),
            ("404 Not Found", "NoSuchBucket", ObjectStoreError),
        ],
    )
    def test_of_a_replacement(
        self,
        s3_server: S3Server,
        storage: Storage,
        status: str,
        code: str,
        expected: type[StorageError],
    ) -> None:
        s3_server.refuse("PUT", "/key", status, code)
        with pytest.raises(expected) as caught:
            storage.put_if_match("key", b"", '"etag"')
        assert type(caught.value) is expected

    @pytest.mark.parametrize(
        ("status", "code", "expected"),
        [
            ("401 Unauthorized", "Unauthorized", PermissionDenied),
            ("403 Forbidden", "SignatureDoesNotMatch", PermissionDenied),
            ("400 Bad Request", "ExpiredToken", PermissionDenied),
            ("400 Bad Request", "AuthorizationHeaderMalformed", ObjectStoreError),
            ("400 Bad Request", "RequestTimeout", StorageUnavailable),
            ("404 Not Found", "NoSuchKey", FileNotFound),
            ("408 Request Timeout", "RequestTimeout", StorageUnavailable),
            ("500 Internal Server Error", "InternalError", StorageUnavailable),
            ("503 Slow Down", "SlowDown", StorageUnavailable),
            ("418 I'm a teapot", "Teapot", ObjectStoreError),
        ],
    )
    def test_of_a_read(
        self,
        s3_server: S3Server,
        storage: Storage,
        status: str,
        code: str,
        expected: type[StorageError],
    ) -> None:
        s3_server.refuse("GET", "/key", status, code)
        with pytest.raises(expected) as caught:
            storage.get("key")
        assert type(caught.value) is expected
        assert caught.value.facts["store_code"] == code

    def test_an_error_says_what_happened_to_which_key_where(
        self, s3_server: S3Server, storage: Storage
    ) -> None:
        s3_server.refuse("GET", "/a/key", "503 Slow Down", "SlowDown")
        with pytest.raises(StorageUnavailable) as caught:
            storage.get("a/key")
        assert str(caught.value) == (
            f"could not read 'a/key' in {storage.url}: the store is overloaded or down; "
            "try again later (SlowDown said the server)"
        )
        assert caught.value.path == "a/key"

    @pytest.mark.parametrize(
        "call",
        [
            lambda storage: storage.get("key"),
            lambda storage: storage.put("key", b""),
            lambda storage: list(storage.list()),
        ],
    )
    def test_a_missing_bucket_is_not_a_missing_object(self, s3_server: S3Server, call) -> None:
        with pytest.raises(ObjectStoreError, match="bucket does not exist") as caught:
            call(s3_server.open("no-such-bucket"))
        assert caught.value.store_code == "NoSuchBucket"

    def test_errors_survive_pickling(self, storage: Storage) -> None:
        with pytest.raises(FileNotFound) as caught:
            storage.get("key")
        copy = pickle.loads(pickle.dumps(caught.value))
        assert (type(copy), str(copy)) == (FileNotFound, str(caught.value))


class TestSecrets:
    ECHO = (
        "<Error><Code>SignatureDoesNotMatch</Code><Message>{authorization} "
        f"{SECRET_ACCESS_KEY} hunter2-token</Message><AWSAccessKeyId>{ACCESS_KEY_ID}"
        "</AWSAccessKeyId></Error>"
    )

    @pytest.mark.parametrize(
        "status", ["400 Bad Request", "403 Forbidden", "404 Not Found", "500 Oh No"]
    )
    def test_a_server_that_echoes_secrets_does_not_get_them_shown(
        self,
        s3_server: S3Server,
        bucket: str,
        status: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.DEBUG)
        storage = s3_server.open(bucket, session_token="hunter2-token")
        s3_server.fault("GET", "/key", status=status, body=self.ECHO)
        with pytest.raises(PolylakeError) as caught:
            storage.get("key")
        shown = "".join(traceback.format_exception(caught.value)) + caplog.text + repr(storage)
        shown += repr(caught.value.facts) + repr(storage._connection)
        for secret in (ACCESS_KEY_ID, SECRET_ACCESS_KEY, "hunter2"):
            assert secret not in shown

    def test_the_clients_own_error_is_not_chained_to_ours(self, storage: Storage) -> None:
        with pytest.raises(FileNotFound) as caught:
            storage.get("key")
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None


class TestCredentialProvider:
    def test_it_is_asked_again_when_credentials_expire(
        self, s3_server: S3Server, bucket: str
    ) -> None:
        asked: list[int] = []

        def provide() -> AccessKey:
            asked.append(1)
            soon = datetime.now(UTC) + timedelta(seconds=1)
            return AccessKey(access_key_id="i", secret_access_key="s", expires_at=soon)

        storage = s3_server.open(
            bucket, access_key_id=None, secret_access_key=None, credential_provider=provide
        )
        storage.put("a", b"")
        before = len(asked)
        time.sleep(1.1)
        storage.put("b", b"")
        assert len(asked) > before

    def test_its_failure_is_a_permission_denied(self, s3_server: S3Server, bucket: str) -> None:
        def provide() -> AccessKey:
            raise RuntimeError("hunter2")

        storage = s3_server.open(
            bucket, access_key_id=None, secret_access_key=None, credential_provider=provide
        )
        with pytest.raises(PermissionDenied, match="credential provider") as caught:
            storage.get("a")
        assert "hunter2" not in "".join(traceback.format_exception(caught.value))


class TestConcurrency:
    def test_of_eight_threads_that_create_a_key_one_wins(
        self, s3_server: S3Server, bucket: str
    ) -> None:
        start = threading.Barrier(8)

        def create(writer: int) -> int | None:
            storage = s3_server.open(bucket)
            start.wait()
            try:
                storage.put_if_absent("_delta_log/0.json", str(writer).encode())
            except AlreadyExists:
                return None
            return writer

        with ThreadPoolExecutor(8) as pool:
            winners = [writer for writer in pool.map(create, range(8)) if writer is not None]
        assert len(winners) == 1
        assert s3_server.open(bucket).get("_delta_log/0.json") == str(winners[0]).encode()

    def test_many_objects_are_fetched_at_once(self, s3_server: S3Server, storage: Storage) -> None:
        keys = [f"k{n}" for n in range(8)]
        for key in keys:
            storage.put(key, key.encode())
        s3_server.fault("GET", "/k", delay_s=0.3, times=8)
        began = time.monotonic()
        assert list(storage.get_many(keys)) == [key.encode() for key in keys]
        assert time.monotonic() - began < 8 * 0.3 / 2

    def test_not_more_are_fetched_ahead_than_there_are_connections(
        self, s3_server: S3Server, bucket: str
    ) -> None:
        storage = s3_server.open(bucket, max_connections=2)
        keys = [f"k{n}" for n in range(20)]
        for key in keys:
            storage.put(key, b"")
        s3_server.requests(bucket)
        bodies = storage.get_many(keys)
        next(bodies)
        time.sleep(0.3)
        assert len([r for r in s3_server.requests(bucket) if r.startswith("GET")]) <= 3


class TestRanges:
    def test_neighbours_are_one_request(
        self, s3_server: S3Server, storage: Storage, bucket: str
    ) -> None:
        storage.put("key", bytes(range(256)))
        s3_server.requests(bucket)
        assert storage.get_ranges("key", [(10, 12), (0, 2)]) == [b"\x0a\x0b", b"\x00\x01"]
        assert s3_server.requests(bucket) == [f"GET /{bucket}/key"]


class TestListing:
    def test_it_is_streamed_page_by_page(
        self, s3_server: S3Server, storage: Storage, bucket: str
    ) -> None:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda n: storage.put(f"list/{n:05}", b""), range(1100)))
        s3_server.requests(bucket)
        first = [info.key for info in islice(storage.list("list/"), 3)]
        assert first == ["list/00000", "list/00001", "list/00002"]
        assert len(s3_server.requests(bucket)) == 1
        assert [info.key for info in storage.list("list/")] == [f"list/{n:05}" for n in range(1100)]

    def test_the_server_is_asked_for_the_end_only(
        self, s3_server: S3Server, storage: Storage, bucket: str
    ) -> None:
        for n in range(5):
            storage.put(f"log/{n}", b"")
        s3_server.requests(bucket)
        assert [info.key for info in storage.list("log/", start_after="log/2")] == [
            "log/3",
            "log/4",
        ]
        assert "start-after=log" in s3_server.requests(bucket)[0]

    def test_a_prefix_that_ends_inside_a_name_starts_near_it(
        self, s3_server: S3Server, storage: Storage, bucket: str
    ) -> None:
        for key in ("log/a1", "log/b", "log/b1", "log/b/2", "log/c"):
            storage.put(key, b"")
        s3_server.requests(bucket)
        assert [info.key for info in storage.list("log/b")] == ["log/b", "log/b/2", "log/b1"]
        assert "start-after=log%2Fa" in s3_server.requests(bucket)[0]

    @pytest.mark.parametrize("prefix", ["log/0", "log/!", "log/ ", "log/\ue000", "0", "!"])
    def test_a_prefix_may_end_in_any_character(self, storage: Storage, prefix: str) -> None:
        storage.put(f"{prefix}x", b"")
        storage.put("log/aaa", b"")
        assert [info.key for info in storage.list(prefix)] == [f"{prefix}x"]

    def test_folder_markers_are_not_objects(self, s3_server: S3Server, storage: Storage) -> None:
        s3_server._call("PUT", f"/{storage.url.removeprefix('s3://')}/dir/", b"")
        storage.put("dir-1", b"x")
        storage.put("dir/a", b"x")
        assert [info.key for info in storage.list("dir")] == ["dir-1", "dir/a"]

    def test_a_store_that_does_not_sort_is_refused(
        self, s3_server: S3Server, storage: Storage, bucket: str
    ) -> None:
        item = (
            "<Contents><Key>{}</Key><Size>1</Size><ETag>e</ETag>"
            "<LastModified>2026-01-01T00:00:00Z</LastModified></Contents>"
        )
        body = f"<ListBucketResult>{item.format('b')}{item.format('a')}</ListBucketResult>"
        s3_server.fault("GET", f"/{bucket}", status="200 OK", body=body)
        with pytest.raises(ObjectStoreError, match="order of keys"):
            list(storage.list())


class TestDelete:
    def test_many_are_deleted_by_few_requests(
        self, s3_server: S3Server, storage: Storage, bucket: str
    ) -> None:
        keys = [f"k{n}" for n in range(30)]
        for key in keys:
            storage.put(key, b"")
        s3_server.requests(bucket)
        storage.delete([*keys, "missing"])
        assert len(s3_server.requests(bucket)) == 1
        assert [info.key for info in storage.list()] == ["probed"]

    def test_failures_are_named_and_the_rest_is_deleted(
        self, s3_server: S3Server, storage: Storage, bucket: str
    ) -> None:
        for key in ("a", "b", "c"):
            storage.put(key, b"")
        s3_server.refuse("POST", f"/{bucket}", "403 Forbidden", "AccessDenied", times=2)
        with pytest.raises(PermissionDenied) as caught:
            storage.delete(["a", "b", "c"])
        failed = caught.value.facts["failed"]
        assert isinstance(failed, dict)
        assert len(failed) == 1
        assert {info.key for info in storage.list()} == {"probed", *failed}

    def test_a_store_that_is_down_is_not_asked_for_each_key(
        self, s3_server: S3Server, storage: Storage, bucket: str
    ) -> None:
        s3_server.refuse("POST", f"/{bucket}", "503 Slow Down", "SlowDown")
        with pytest.raises(StorageUnavailable) as caught:
            storage.delete(["a", "b"])
        failed = caught.value.facts["failed"]
        assert isinstance(failed, dict)
        assert list(failed) == ["a", "b"]


class TestWriter:
    def test_a_small_object_is_one_put(
        self, s3_server: S3Server, storage: Storage, bucket: str
    ) -> None:
        s3_server.requests(bucket)
        with storage.open_writer("key") as writer:
            writer.write(b"abc")
            assert s3_server.requests(bucket) == []
        assert s3_server.requests(bucket) == [f"PUT /{bucket}/key"]

    def test_a_large_object_is_a_multipart_upload(
        self, s3_server: S3Server, storage: Storage, bucket: str
    ) -> None:
        body = bytes(range(256)) * (PART_BYTES // 256) * 2 + b"end"
        with storage.open_writer("key") as writer:
            writer.write(body)
            assert not storage.exists("key")
        assert len([r for r in s3_server.requests(bucket) if "partNumber" in r]) == 3
        assert storage.get("key") == body

    def test_an_abort_leaves_no_upload(
        self, s3_server: S3Server, storage: Storage, bucket: str
    ) -> None:
        writer = storage.open_writer("key")
        writer.write(bytes(PART_BYTES + 1))
        assert s3_server.open_uploads(bucket) == 1
        writer.abort()
        assert s3_server.open_uploads(bucket) == 0
        assert not storage.exists("key")

    def test_a_part_that_fails_leaves_no_upload(
        self, s3_server: S3Server, storage: Storage, bucket: str
    ) -> None:
        s3_server.refuse("PUT", "/key", "403 Forbidden", "AccessDenied", query="partNumber=2")
        with pytest.raises(PermissionDenied), storage.open_writer("key") as writer:
            writer.write(bytes(3 * PART_BYTES))
        assert s3_server.open_uploads(bucket) == 0
        assert writer.closed

    def test_a_completion_that_fails_leaves_no_upload(
        self, s3_server: S3Server, storage: Storage, bucket: str
    ) -> None:
        s3_server.refuse("POST", "/key", "403 Forbidden", "AccessDenied", query="uploadId")
        with pytest.raises(PermissionDenied), storage.open_writer("key") as writer:
            writer.write(bytes(PART_BYTES + 1))
        assert s3_server.open_uploads(bucket) == 0
        assert not storage.exists("key")

    def test_a_completion_whose_reply_was_lost_is_unknown(
        self, s3_server: S3Server, bucket: str
    ) -> None:
        storage = s3_server.open(bucket, max_retries=2)
        s3_server.fault("POST", "/key", lands=True, drop=True, query="uploadId")
        s3_server.refuse("POST", "/key", "404 Not Found", "NoSuchUpload", query="uploadId")
        writer = storage.open_writer("key")
        writer.write(bytes(PART_BYTES + 1))
        with pytest.raises(OutcomeUnknown):
            writer.close()
        assert storage.exists("key")


class TestFolders:
    def test_a_folder_shares_the_connection(self, storage: Storage) -> None:
        assert isinstance(storage, ObjectStorage)
        inner = storage.at("a").at("b/")
        assert inner.url == f"{storage.url}/a/b"
        inner.put("c", b"x")
        assert storage.get("a/b/c") == b"x"

    @pytest.mark.parametrize("key", ["", "/a", "../a", "a/../../b", "%2e%2e/a"])
    def test_no_key_leads_out(self, storage: Storage, key: str) -> None:
        with pytest.raises(ValidationError):
            storage.at("folder").get(key)

    @pytest.mark.parametrize("key", ["a\nb", "a\tb", "a\x7fb"])
    @pytest.mark.parametrize("verb", ["get", "open_writer"])
    def test_a_key_the_client_cannot_send_is_refused(
        self, storage: Storage, key: str, verb: str
    ) -> None:
        with pytest.raises(ValidationError, match="a key like this"):
            getattr(storage, verb)(key)

    def test_keys_are_sent_as_they_are(self, storage: Storage) -> None:
        keys = ["a b", "a%2Fb", "x=1/y%20z", "é", "a~b", "a#b", "a?b", "a\\b", "a+b", "[a]", "a&b"]
        for key in keys:
            storage.put(f"odd/{key}", key.encode())
        listed = [info.key.removeprefix("odd/") for info in storage.list("odd/")]
        assert listed == sorted(keys)
        assert [storage.get(f"odd/{key}").decode() for key in keys] == keys
        storage.delete(f"odd/{key}" for key in keys)
        assert list(storage.list("odd/")) == []
