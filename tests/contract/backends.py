"""Every store the contract runs against: a name, and how to make an empty one."""

import os
from collections.abc import Callable
from uuid import uuid4

import pytest

from polylake.storage import CachedStorage, open_storage
from polylake.storage._contract import Storage
from polylake.storage._faulty import FaultyStorage
from polylake.storage._local import LocalStorage
from polylake.storage._memory import MemoryStorage
from polylake.storage._metered import MeteredStorage


def _local(request: pytest.FixtureRequest) -> Storage:
    return LocalStorage(request.getfixturevalue("tmp_path") / "not" / "there" / "yet")


def _local_prefixed(request: pytest.FixtureRequest) -> Storage:
    store = LocalStorage(request.getfixturevalue("tmp_path"))
    store.put("outside", b"not to be seen")
    return store.at("some/folder")


def _prefixed(request: pytest.FixtureRequest) -> Storage:
    store = MemoryStorage()
    for outside in ("a", "some", "some/folder", "some/folder!", "some/folder0", "z"):
        store.put(outside, b"not to be seen")
    return store.at("some/folder")


def _s3(request: pytest.FixtureRequest) -> Storage:
    server = request.getfixturevalue("s3_server")
    return server.open(server.bucket(), "some/folder")


def _cached(request: pytest.FixtureRequest) -> Storage:
    return CachedStorage(MemoryStorage(), request.getfixturevalue("tmp_path"))


def _minio(_: pytest.FixtureRequest) -> Storage:
    if "POLYLAKE_TEST_MINIO_ENDPOINT" not in os.environ:
        pytest.skip("needs a MinIO server: make interop")
    return open_storage(
        f"s3://{os.environ['POLYLAKE_TEST_MINIO_BUCKET']}/{uuid4().hex}",
        endpoint=os.environ["POLYLAKE_TEST_MINIO_ENDPOINT"],
        access_key_id=os.environ["POLYLAKE_TEST_MINIO_ACCESS_KEY"],
        secret_access_key=os.environ["POLYLAKE_TEST_MINIO_SECRET_KEY"],
        allow_http=True,
    )


BACKENDS: dict[str, Callable[[pytest.FixtureRequest], Storage]] = {
    "local": _local,
    "local-prefixed": _local_prefixed,
    "memory": lambda _: MemoryStorage(),
    "prefixed": _prefixed,
    "metered": lambda _: MeteredStorage(MemoryStorage()),
    "cached": _cached,
    "s3": _s3,
    "minio": _minio,
    "faultless": lambda _: FaultyStorage(MemoryStorage()),
}

MARKS: dict[str, pytest.MarkDecorator] = {"minio": pytest.mark.interop}
"""Marks of the backends that do not run everywhere."""
