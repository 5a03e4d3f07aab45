"""Whether a store honours put-if-absent is found out before it is relied on."""

import logging

import pytest
from tests.servers.s3 import S3Server

from polylake.errors import ConditionalPutUnsupported, StorageUnavailable
from polylake.storage import (
    Fault,
    FaultKind,
    FaultyStorage,
    MemoryStorage,
    MeteredStorage,
    probe,
)


@pytest.fixture
def bucket(s3_server: S3Server) -> str:
    return s3_server.bucket()


def ignore_condition(server: S3Server, bucket: str) -> None:
    """Make the server overwrite objects of a bucket whatever it is asked."""
    server.fault("PUT", f"/{bucket}", strip_header="If-None-Match", times=100)


def test_an_honest_store_passes_and_is_left_clean() -> None:
    storage = MemoryStorage()
    probe(storage)
    assert list(storage.list()) == []


def test_an_honest_server_passes_and_is_left_clean(s3_server: S3Server, bucket: str) -> None:
    storage = s3_server.open(bucket, "folder")
    probe(storage)
    assert list(storage.list()) == []


def test_a_server_that_ignores_the_condition_is_found_out(s3_server: S3Server, bucket: str) -> None:
    ignore_condition(s3_server, bucket)
    storage = s3_server.open(bucket)
    with pytest.raises(ConditionalPutUnsupported, match="two writers"):
        probe(storage)
    assert list(storage.list()) == []


def test_no_commit_is_made_to_a_server_that_ignores_the_condition(
    s3_server: S3Server, bucket: str
) -> None:
    ignore_condition(s3_server, bucket)
    storage = s3_server.open(bucket)
    for _ in range(2):
        with pytest.raises(ConditionalPutUnsupported):
            storage.put_if_absent("_delta_log/0.json", b"")
    assert list(storage.list()) == []


def test_a_bucket_is_probed_once_in_a_process(s3_server: S3Server, bucket: str) -> None:
    s3_server.open(bucket).put_if_absent("a", b"")
    assert len([r for r in s3_server.requests(bucket) if ".polylake-probe" in r]) == 2
    s3_server.open(bucket, "folder").put_if_absent("a", b"")
    assert s3_server.requests(bucket) == [f"PUT /{bucket}/folder/a"]


def test_a_probe_that_could_not_be_made_is_made_again(s3_server: S3Server, bucket: str) -> None:
    storage = s3_server.open(bucket)
    s3_server.refuse("PUT", ".polylake-probe", "429 Too Many Requests", "SlowDown")
    with pytest.raises(StorageUnavailable):
        storage.put_if_absent("a", b"")
    assert not storage.exists("a")
    storage.put_if_absent("a", b"")
    assert storage.exists("a")


def test_what_cannot_be_deleted_again_is_said_and_no_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = FaultyStorage(MemoryStorage(), [Fault("delete", None, FaultKind.FAIL)])
    with caplog.at_level(logging.WARNING):
        probe(storage)
    assert "could not delete the probe object" in caplog.text


def test_a_probe_costs_three_requests() -> None:
    storage = MeteredStorage(MemoryStorage())
    probe(storage)
    assert storage.total.requests == 3
