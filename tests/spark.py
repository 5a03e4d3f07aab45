"""The Spark session that tests share."""

from __future__ import annotations

import atexit
import os
import sys
from functools import cache
from typing import TYPE_CHECKING

import pytest

from polylake.errors import ValidationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@cache
def spark_session() -> SparkSession:
    """Return the one Spark session of this process; skip where Spark cannot run."""
    pytest.importorskip("pyspark", reason="needs pyspark: pip install polylake[spark]")
    from polylake.engine.spark import lake_session  # noqa: PLC0415 - pyspark is optional
    from polylake.engine.spark._session import check_java  # noqa: PLC0415

    try:
        check_java()
    except ValidationError as error:
        pytest.skip(str(error))
    settings = {
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "OFF",
        # A session of tests is over before code that was compiled with care has paid for it.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = lake_session("polylake tests", master="local[2]", **settings)
    atexit.register(session.stop)
    return session
