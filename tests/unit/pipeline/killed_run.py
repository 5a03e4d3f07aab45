"""Runs a pipeline and dies on the way: python killed_run.py FOLDER (before|after) TABLE."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark import spark_session
from tests.unit.pipeline.test_pipeline_run import medallion

from polylake.pipeline import DeltaSink, Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from polylake.pipeline import EpochResult


def main(root: Path, moment: str, table: str) -> None:
    commit = DeltaSink.commit_epoch

    def commit_and_die(sink: DeltaSink, frame: DataFrame, epoch: int) -> EpochResult:
        is_fatal = sink.table.url.endswith(f"/{table}")
        if is_fatal and moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = commit(sink, frame, epoch)
        if is_fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    DeltaSink.commit_epoch = commit_and_die  # type: ignore[method-assign]  # dies in its place
    Pipeline(medallion(root)).run(spark_session())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
