"""What polylake relies on an S3 server for, asked of a real one without polylake in between."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from obstore.exceptions import AlreadyExistsError, PreconditionError
from obstore.store import S3Store

pytestmark = pytest.mark.interop


@pytest.fixture
def store() -> S3Store:
    endpoint = os.environ.get("POLYLAKE_TEST_MINIO_ENDPOINT")
    if endpoint is None:
        pytest.skip("needs a MinIO server: make interop")
    return S3Store(
        os.environ["POLYLAKE_TEST_MINIO_BUCKET"],
        prefix=uuid4().hex,
        endpoint=endpoint,
        access_key_id=os.environ["POLYLAKE_TEST_MINIO_ACCESS_KEY"],
        secret_access_key=os.environ["POLYLAKE_TEST_MINIO_SECRET_KEY"],
        region="us-east-1",
        client_options={"allow_http": True},
    )


def test_of_many_writers_of_one_absent_key_exactly_one_wins(store: S3Store) -> None:
    def create(writer: int) -> int | None:
        try:
            store.put("_delta_log/0.json", f"{writer}".encode(), mode="create")
        except AlreadyExistsError:
            return None
        return writer

    with ThreadPoolExecutor(16) as pool:
        winners = [writer for writer in pool.map(create, range(64)) if writer is not None]

    assert len(winners) == 1
    assert bytes(store.get("_delta_log/0.json").bytes()) == f"{winners[0]}".encode()


def test_a_key_is_replaced_only_while_its_etag_is_the_one_given(store: S3Store) -> None:
    first = store.put("state", b"1")
    store.put("state", b"2", mode={"e_tag": first["e_tag"]})
    with pytest.raises(PreconditionError):
        store.put("state", b"3", mode={"e_tag": first["e_tag"]})
    assert bytes(store.get("state").bytes()) == b"2"


def test_keys_are_listed_in_byte_order_and_after_a_given_one(store: S3Store) -> None:
    # No key is a folder of another: MinIO leaves "a/1" out of a listing that has "a".
    for key in ("é", "a0", "a/1", "a-/1", "B", "a.json"):
        store.put(key, b"")
    in_order = ["B", "a-/1", "a.json", "a/1", "a0", "é"]
    assert [item["path"] for batch in store.list() for item in batch] == in_order
    assert [item["path"] for batch in store.list(offset="a.json") for item in batch] == in_order[3:]
