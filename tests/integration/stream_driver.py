"""A driver that upserts a folder of Parquet files into a table, to be killed at any moment.

python stream_driver.py FOLDER; it says on a line what comes next, and waits for one to begin.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from polylake.pipeline import DeltaSink, lake_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PROPERTIES = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}


def main(folder: Path) -> None:
    """Consume all there is, one file to a batch."""
    settings = {
        "spark.driver.memory": "1g",
        # It does not live so long that a slower start for faster code would pay.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "OFF",
    }
    spark = lake_session("stream", master="local[2]", **settings)
    say("ready")
    if not sys.stdin.readline():
        return
    stream = (
        spark.readStream.schema("key LONG, seq LONG, text STRING")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "input"))
    )
    with DeltaSink(str(folder / "table"), mode="upsert", key="key", properties=PROPERTIES) as sink:

        def commit(frame: DataFrame, epoch: int) -> None:
            say("begin")
            sink.commit_epoch(frame, epoch)
            say("end")

        query = (
            stream.writeStream.foreachBatch(commit)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    say("done")


def say(word: str) -> None:
    """Tell the one who started this what comes next."""
    print(word, flush=True)  # noqa: T201 - how it tells


if __name__ == "__main__":
    main(Path(sys.argv[1]))
