"""Delta's own Spark connector and polylake write to one table at the same time."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from tests.interop.connector import commits_are_atomic, connector_session, theirs

from polylake.retry import RetryPolicy, with_retry
from polylake.table import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.interop

ROUNDS = 4
BATCH = 20
PATIENT = RetryPolicy(max_retries=200, base_delay_s=0.01, max_delay_s=0.2)


def test_writers_of_both_kinds_lose_nothing(tmp_path: Path) -> None:
    spark = connector_session()
    if not commits_are_atomic():
        pytest.skip("needs a JDK: by itself the connector's commits on a local disk are not atomic")
    seed = [{"_id": number, "writer": -1} for number in range(BATCH)]
    vectors = {"delta.enableDeletionVectors": "true"}
    DeltaTable(tmp_path).write(seed, properties=vectors)

    forks = multiprocessing.get_context("forkserver")
    with ThreadPoolExecutor(2) as threads, ProcessPoolExecutor(3, mp_context=forks) as processes:
        running = [threads.submit(by_connector, spark, tmp_path, writer) for writer in (0, 1)]
        running += [processes.submit(by_polylake, tmp_path, writer) for writer in (2, 3)]
        running.append(processes.submit(compact, tmp_path))
        for future in running:
            future.result(timeout=280)

    kept = list(range(BATCH)) + [
        number
        for writer in range(4)
        for round_ in range(ROUNDS)
        for number in numbers(writer, round_)
        if number % 2
    ]
    table = DeltaTable(tmp_path)
    assert Counter(row["_id"] for row in table.query()) == Counter(kept)
    assert Counter(row["_id"] for row in theirs(tmp_path)) == Counter(kept)
    history = spark.sql(f"DESCRIBE HISTORY delta.`{tmp_path}`").collect()
    versions = list(range(table.version, -1, -1))
    assert [entry.version for entry in table.history()] == versions
    assert [row["version"] for row in history] == versions
    written = Counter(row["operation"] for row in history)
    assert written["WRITE"] == 1 + 4 * ROUNDS
    assert written["DELETE"] == 4 * ROUNDS


def numbers(writer: int, round_: int) -> range:
    """Return the numbers of the rows of one batch of one writer."""
    start = (writer + 1) * 10_000 + round_ * BATCH
    return range(start, start + BATCH)


def by_connector(spark: object, path: Path, writer: int) -> None:
    """Append batches, and delete the even rows of each."""
    for round_ in range(ROUNDS):
        batch = numbers(writer, round_)
        ids = f"range({batch.start}, {batch.stop})"
        new = f"SELECT id AS _id, CAST({writer} AS BIGINT) AS writer FROM {ids}"
        own = f"_id BETWEEN {batch[0]} AND {batch[-1]} AND _id % 2 = 0"
        insist(lambda new=new: spark.sql(f"INSERT INTO delta.`{path}` {new}"))
        insist(lambda own=own: spark.sql(f"DELETE FROM delta.`{path}` WHERE {own}"))


def insist(act: Callable[[], object]) -> None:
    """Do something again until no other writer is in its way."""
    for _ in range(200):
        try:
            act()
        except (Py4JJavaError, PySparkException) as error:
            if "CONCURRENT" not in str(error).upper():
                raise
        else:
            return
    raise AssertionError("another writer was always first")


def by_polylake(path: Path, writer: int) -> None:
    """Append batches, and delete the even rows of each."""
    table = DeltaTable(path)
    for round_ in range(ROUNDS):
        batch = numbers(writer, round_)
        own = {"_id": {"$gte": batch[0], "$lte": batch[-1], "$mod": [2, 0]}}
        table.write([{"_id": number, "writer": writer} for number in batch])
        with_retry(partial(table.delete, own), PATIENT)


def compact(path: Path) -> None:
    """Merge files again and again while the others write."""
    table = DeltaTable(path)
    for _ in range(2 * ROUNDS):
        with_retry(partial(table.compact, min_files=2), PATIENT)
