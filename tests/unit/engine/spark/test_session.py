"""Sessions, and what they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.spark import spark_session

from polylake.errors import ValidationError
from polylake.storage import StorageOptions

pytest.importorskip("pyspark", reason="needs pyspark: pip install polylake[spark]")

from polylake.engine.spark import configure, lake_session
from polylake.engine.spark._session import RUNTIME_SETTINGS, check_java, s3a_settings

if TYPE_CHECKING:
    from pathlib import Path


def fake_java(folder: Path, says: str) -> dict[str, str]:
    """Return an environment whose Java says this when it is asked for its version."""
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    return {"JAVA_HOME": str(folder)}


@pytest.mark.parametrize(
    "environ", [{"PATH": "/nowhere"}, {"JAVA_HOME": "/nowhere"}], ids=["path", "java-home"]
)
def test_a_machine_without_java_is_told_what_to_install(environ: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="Java 17 or newer: install"):
        check_java(environ)


@pytest.mark.parametrize("says", ['openjdk version "11.0.2"', 'java version "1.8.0_4"', "?"])
def test_an_older_java_is_refused(tmp_path: Path, says: str) -> None:
    with pytest.raises(ValidationError, match="Java 17 or newer"):
        check_java(fake_java(tmp_path, says))


@pytest.mark.parametrize(("says", "version"), [("17.0.15", 17), ("21", 21), ("25.0.1", 25)])
def test_a_newer_java_will_do(tmp_path: Path, says: str, version: int) -> None:
    assert check_java(fake_java(tmp_path, f'openjdk version "{says}" 2025-04-15')) == version


def test_s3a_reaches_the_store_that_the_options_name() -> None:
    options = StorageOptions(
        endpoint="http://localhost:9000",
        allow_http=True,
        region="eu-west-1",
        access_key_id="key",
        secret_access_key="secret",
        session_token="token",
    )
    assert s3a_settings(options) == {
        "spark.hadoop.fs.s3a.access.key": "key",
        "spark.hadoop.fs.s3a.secret.key": "secret",
        "spark.hadoop.fs.s3a.session.token": "token",
        "spark.hadoop.fs.s3a.endpoint": "http://localhost:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-west-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.aws.credentials.provider": (
            "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
        ),
    }


def test_the_active_session_is_taken_and_configured() -> None:
    spark = spark_session()
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    assert lake_session("another") is spark
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "TIMESTAMP_MICROS"


def test_configuring_leaves_the_users_time_zone() -> None:
    spark = spark_session().newSession()
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    configure(spark)
    assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert {name: spark.conf.get(name) for name in RUNTIME_SETTINGS} == RUNTIME_SETTINGS
