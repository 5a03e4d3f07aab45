"""Work on a table with executors in processes of their own, whose Python cannot start.

python executors_driver.py FOLDER ROWS; says how many rows it found, as JSON.
"""

from __future__ import annotations

import json
import sys

from polylake.engine.spark import SparkEngine, lake_session
from polylake.table import DeltaTable

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that does not live so long that a slower start for faster code would pay."""


def main(folder: str, rows: int) -> dict[str, object]:
    """Read, write, change and compact."""
    spark = lake_session(
        "executors",
        master="local-cluster[2,1,1024]",
        **{
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": QUICK_START,
            "spark.executor.extraJavaOptions": QUICK_START,
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "4",
            "spark.log.level": "OFF",
            "spark.pyspark.driver.python": sys.executable,
            "spark.pyspark.python": "/nonexistent/python",
        },
    )
    table = DeltaTable(folder, engine=SparkEngine(spark))
    numbers = spark.range(rows, numPartitions=4).selectExpr(
        "id", "id % 10 AS digit", "concat('row ', id) AS text"
    )
    vectors = {"delta.enableDeletionVectors": "true"}
    table.write(numbers, partition_by=["digit"], properties=vectors)
    table.delete({"id": {"$mod": [7, 3]}})
    table.upsert(numbers.where("id < 100").selectExpr("id", "digit", "'new' AS text"), on="id")
    before = table.scan().to_spark().count()
    compacted = table.compact(min_files=2)
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    found = {
        "executors": executors,
        "before": before,
        "after": table.scan().to_spark().count(),
        "new": table.scan({"text": "new"}).to_spark().count(),
        "compacted": compacted.files_compacted,
    }
    spark.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))  # noqa: T201 - the answer
