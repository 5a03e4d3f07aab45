"""Spark sessions with good settings for tables."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from polylake.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.storage import StorageOptions

OLDEST_JAVA = 17

RUNTIME_SETTINGS: Mapping[str, str] = {
    # By default a task for each file is run to list it: planning takes ten times as long.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
    # Columns that carry ids are found by them; a file without ids has none of them.
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "true",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    # As the protocol stores timestamps; Spark's default has no statistics.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    # Variants in the one form that every reader opens.
    "spark.sql.variant.writeShredding.enabled": "false",
    "spark.sql.parquet.variant.annotateLogicalType.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
"""What a session needs for tables. All can be set, and changed, while it runs."""

_NEW_SESSION: Mapping[str, str] = {"spark.sql.session.timeZone": "UTC"}
_LOCAL_SESSION: Mapping[str, str] = {
    # A driver that needs no name service, and listens to this machine alone.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
}
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_S3A = "spark.hadoop.fs.s3a."


def lake_session(
    app: str,
    *,
    master: str = "local[*]",
    storage: StorageOptions | None = None,
    **conf: object,
) -> SparkSession:
    """Return a Spark session that is ready for tables; the active one, if there is one.

    Timestamps are shown in UTC. ``conf`` wins over every setting made here:

        lake_session("orders", **{"spark.driver.memory": "4g"})

    Args:
        app: the application's name.
        master: where Spark runs; this machine unless said otherwise.
        storage: options for S3, as ``open_storage`` takes them; the cluster needs hadoop-aws.
        conf: settings of Spark by their names.

    Raises:
        ValidationError: there is no Java 17 or newer on this machine.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        configure(active)
        return active
    check_java()
    settings = {**_NEW_SESSION, **RUNTIME_SETTINGS}
    if master.startswith("local"):
        settings |= _LOCAL_SESSION
        # Python that Spark starts here is the one that runs, with the packages it has.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if storage is not None:
        settings |= s3a_settings(storage)
    builder = SparkSession.builder.appName(app).master(master)
    for name, value in {**settings, **conf}.items():
        builder = builder.config(name, str(value))
    return builder.getOrCreate()


def configure(spark: SparkSession) -> None:
    """Set on a session what reading and writing tables needs: ``RUNTIME_SETTINGS``.

    Parquet files that the session writes elsewhere then hold timestamps in microseconds, and
    variants neither shredded nor annotated.
    """
    for name, value in RUNTIME_SETTINGS.items():
        if spark.conf.get(name, None) != value:
            spark.conf.set(name, value)


def check_java(environ: Mapping[str, str] = os.environ) -> int:
    """Return the version of the Java that Spark would start.

    Raises:
        ValidationError: there is none, or it is too old; the message says what to install.
    """
    home = environ.get("JAVA_HOME")
    java = (
        str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ.get("PATH"))
    )
    advice = (
        f"Spark needs Java {OLDEST_JAVA} or newer: install one (Debian and Ubuntu: apt install "
        "openjdk-17-jre-headless; macOS: brew install openjdk@17) and set JAVA_HOME to it"
    )
    try:
        if java is None:
            raise FileNotFoundError("there is no java on the PATH")
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)  # noqa: S603 - the program that Spark itself would start
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValidationError(f"no Java was found ({error}). {advice}.", field="java") from error
    found = _VERSION.search(shown.stderr + shown.stdout)
    if found is None or int(found[1]) < OLDEST_JAVA:
        version = found[1] if found else "of an unknown version"
        raise ValidationError(f"{java} is Java {version}. {advice}.", field="java")
    return int(found[1])


def s3a_settings(options: StorageOptions) -> dict[str, str]:
    """Return the settings by which Spark's s3a reaches the same store as ``open_storage`` does."""
    given: dict[str, str | None] = {
        "access.key": options.access_key_id,
        "secret.key": options.secret_access_key,
        "session.token": options.session_token,
        "endpoint": options.endpoint,
        "endpoint.region": options.region,
    }
    if options.endpoint is not None:
        given["path.style.access"] = "true"
        given["connection.ssl.enabled"] = str(options.endpoint.startswith("https:")).lower()
    if options.anonymous:
        given["aws.credentials.provider"] = (
            "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
        )
    elif options.session_token is not None:
        given["aws.credentials.provider"] = (
            "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
        )
    return {f"{_S3A}{name}": value for name, value in given.items() if value is not None}
