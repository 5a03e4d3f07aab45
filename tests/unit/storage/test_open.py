"""Opening a store by its address."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.servers.s3 import ACCESS_KEY_ID, SECRET_ACCESS_KEY, S3Server

from polylake.errors import ObjectStoreError, ValidationError
from polylake.storage import (
    CachedStorage,
    LocalStorage,
    MemoryStorage,
    ObjectStorage,
    StorageOptions,
    open_storage,
)

AWS_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_PROFILE",
)


@pytest.fixture(autouse=True)
def _no_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in AWS_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_nothing_said_is_a_folder_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage = open_storage()
    storage.put("a", b"x")
    assert (tmp_path / ".polylake" / "a").read_bytes() == b"x"


def test_a_path_a_string_and_a_file_url_are_the_same_folder(tmp_path: Path) -> None:
    open_storage(tmp_path).put("a", b"x")
    for location in (tmp_path, str(tmp_path), tmp_path.as_uri()):
        storage = open_storage(location)
        assert isinstance(storage, LocalStorage)
        assert storage.get("a") == b"x"


def test_every_nameless_memory_store_is_new() -> None:
    first = open_storage("memory://")
    first.put("a", b"x")
    assert isinstance(first, MemoryStorage)
    assert not open_storage("memory://").exists("a")


def test_a_named_memory_store_is_shared() -> None:
    open_storage("memory://test-open").put("folder/a", b"x")
    assert open_storage("memory://test-open").get("folder/a") == b"x"
    assert open_storage("memory://test-open/folder").get("a") == b"x"


@pytest.mark.parametrize(
    ("url", "options", "shown"),
    [
        ("s3://b/x", {}, "s3://b/x"),
        ("s3a://b/x/", {}, "s3://b/x"),
        ("r2://acc/b/x", {"access_key_id": "i", "secret_access_key": "s"}, "r2://acc/b/x"),
        ("gs://b/x", {"bearer_token": "t"}, "gs://b/x"),
        ("gs://b/x", {"anonymous": True}, "gs://b/x"),
        (
            "az://c/x",
            {"account": "acc", "account_key": "a2V5"},
            "abfss://c@acc.dfs.core.windows.net/x",
        ),
        (
            "azure://c",
            {"account": "acc", "sas_token": "sv=1&sig=hunter2"},
            "abfss://c@acc.dfs.core.windows.net",
        ),
    ],
)
def test_an_object_store_is_opened_without_a_request(
    url: str, options: dict[str, object], shown: str
) -> None:
    storage = open_storage(url, **options)
    assert isinstance(storage, ObjectStorage)
    assert storage.url == shown
    assert repr(storage) == f"ObjectStorage('{shown}')"


def test_options_can_be_given_as_a_value(s3_server: S3Server) -> None:
    options = StorageOptions(
        bucket=s3_server.bucket(),
        endpoint=s3_server.url,
        allow_http=True,
        access_key_id="i",
        secret_access_key="s",
    )
    open_storage("s3://", options).put("a", b"x")
    assert open_storage("s3://", options).get("a") == b"x"


def test_options_and_keywords_exclude_each_other() -> None:
    with pytest.raises(ValidationError, match="not both"):
        open_storage("s3://b", StorageOptions(), region="eu-west-1")


@pytest.mark.parametrize(
    ("location", "options", "field"),
    [
        ("lake", {"region": "eu-west-1"}, "region"),
        ("memory://", {"bucket": "b"}, "bucket"),
        ("s3://b", {"regoin": "eu-west-1"}, "regoin"),
        ("ftp://b", {}, "location"),
        ("s3://", {}, "bucket"),
    ],
)
def test_nothing_is_silently_ignored(location: str, options: dict[str, object], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        open_storage(location, **options)
    assert caught.value.field == field


def test_the_environment_is_enough(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY)
    storage = open_storage(f"s3://{s3_server.bucket()}", allow_http=True)
    storage.put("a", b"x")
    assert storage.get("a") == b"x"


@pytest.mark.parametrize("name", ["AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_a_given_endpoint_wins_over_every_variable_the_client_reads(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "http://127.0.0.1:1")
    storage = s3_server.open(s3_server.bucket())
    storage.put("a", b"x")
    assert storage.get("a") == b"x"


def test_a_session_token_of_the_environment_does_not_join_given_keys(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "hunter2")
    body = "<Error><Code>Echo</Code><Message>{authorization}</Message></Error>"
    s3_server.fault("GET", "/key", status="400 Bad Request", body=body)
    with pytest.raises(ObjectStoreError, match="SignedHeaders") as caught:
        s3_server.open(s3_server.bucket()).get("key")
    assert "x-amz-security-token" not in str(caught.value)


def test_a_cache_folder_puts_a_cache_in_front(s3_server: S3Server, tmp_path: Path) -> None:
    storage = s3_server.open(s3_server.bucket(), cache_dir=tmp_path, cache_bytes=1 << 20)
    assert isinstance(storage, CachedStorage)
    storage.put("a.parquet", b"x")
    assert storage.get("a.parquet") == b"x"
    assert any(tmp_path.iterdir())


def test_importing_the_package_loads_no_client() -> None:
    code = (
        "import sys, polylake.storage as s; s.open_storage('memory://');"
        "print([m for m in ('obstore', 'pyarrow', 'polars') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


def test_file_of_keys_that_is_not_there_is_refused_by_a_typed_error() -> None:
    with pytest.raises(ValidationError, match=r"gs://bucket cannot be opened"):
        open_storage("gs://bucket/lake", service_account_path="none.json")
