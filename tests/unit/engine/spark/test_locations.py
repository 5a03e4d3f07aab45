"""Names of files as Spark has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from polylake.errors import ValidationError
from polylake.storage import LocalStorage, MemoryStorage, open_storage

pytest.importorskip("pyspark", reason="needs pyspark: pip install polylake[spark]")

from polylake.engine.spark._locations import Locations, as_reported

if TYPE_CHECKING:
    from pathlib import Path


def test_files_of_a_folder_are_file_addresses(tmp_path: Path) -> None:
    locations = Locations(LocalStorage(tmp_path).at("a b"))
    assert locations.find("x=1/%41.parquet") == f"file:{tmp_path}/a b/x=1/%41.parquet"


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("s3://bucket/a b", "s3a://bucket/a b"),
        ("s3://bucket", "s3a://bucket"),
        ("gs://bucket/x", "gs://bucket/x"),
        ("r2://account/bucket/x", "s3a://bucket/x"),
        (
            "abfss://container@account.dfs.core.windows.net/x",
            "abfss://container@account.dfs.core.windows.net/x",
        ),
    ],
)
def test_object_stores_are_reached_by_hadoops_schemes(url: str, root: str) -> None:
    options = {"access_key_id": "a", "secret_access_key": "b"} if url[:2] in ("s3", "r2") else {}
    storage = open_storage(url, **options)
    assert Locations(storage).find("p/a.parquet") == f"{root}/p/a.parquet"


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/data/a.parquet", "file:/data/a.parquet"),
        ("file:///data/a b.parquet", "file:/data/a b.parquet"),
        ("file:/data/a.parquet", "file:/data/a.parquet"),
        ("s3://other/a.parquet", "s3a://other/a.parquet"),
    ],
)
def test_absolute_paths_stay_where_they_are(tmp_path: Path, path: str, location: str) -> None:
    assert Locations(LocalStorage(tmp_path)).find(path) == location


def test_memory_is_out_of_reach() -> None:
    with pytest.raises(ValidationError, match="local engine"):
        Locations(MemoryStorage())


@pytest.mark.parametrize("name", ["_a.parquet", ".a.parquet", "a._COPYING_"])
def test_names_that_spark_would_pass_over_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValidationError, match="names like"):
        Locations(LocalStorage(tmp_path)).find(f"_change_data/{name}")


@pytest.mark.parametrize(
    ("location", "reported"),
    [
        ("file:/a/x=1.parquet", "file:/a/x=1.parquet"),
        ("file:/a b/%2F+[x]{y}#ü.parquet", "file:/a%20b/%252F+%5Bx%5D%7By%7D%23ü.parquet"),
        ("s3a://bucket/a\u00a0b", "s3a://bucket/a%C2%A0b"),
    ],
)
def test_spark_reports_escaped_names(location: str, reported: str) -> None:
    assert as_reported(location) == reported
