"""Work on Spark, against Spark's own Parquet and Delta's own connector, in one session."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
from functools import cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Self

from measure import Row, compare, timed
from polylake import DeltaTable
from polylake.errors import ValidationError
from polylake.pipeline import DeltaSink, SparkEngine, lake_session, register
from table import ROWS, make_rows, make_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

TITLE = "Spark"
SMALL_FILES = 5_000
KEYS = 100_000
BATCHES = 24
WARM_UP = 4
BATCH_ROWS = 1_000
VECTORS = {"delta.enableDeletionVectors": "true"}
_BLOCKS = "best of two, each on a copy of its own, in turns"


def run() -> list[Row]:
    try:
        lab = Lab()
    except ValidationError as error:
        print(f"  SKIPPED: {error}")
        return []
    if not lab.has_connector:
        print("  SKIPPED what is compared with Delta's connector: run scripts/with-delta.sh")
    with lab, TemporaryDirectory(prefix="polylake-bench-") as folder:
        root = Path(folder)
        table = root / "table"
        make_table(table)
        return [
            *scan_rows(lab, table),
            plan_row(lab, root),
            *write_rows(lab, root),
            *upsert_rows(lab, root, table),
            *cluster_rows(lab, root, table),
            *batch_rows(lab, root),
        ]


class Lab:
    """A session in which both sides work, each with its own settings."""

    def __init__(self) -> None:
        jars = os.environ.get("POLYLAKE_TEST_DELTA_JARS", "")
        self.has_connector = bool(jars)
        os.environ["PYSPARK_PYTHON"] = sys.executable
        settings = {
            "spark.driver.memory": "6g",
            "spark.ui.enabled": "false",
            "spark.log.level": "OFF",
            # As many as this machine can make use of, for both sides.
            "spark.sql.shuffle.partitions": "8",
            "spark.databricks.delta.snapshotPartitions": "2",
        }
        if jars:
            settings |= {
                "spark.driver.extraClassPath": jars.replace(",", os.pathsep),
                "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
                "spark.sql.catalog.spark_catalog": (
                    "org.apache.spark.sql.delta.catalog.DeltaCatalog"
                ),
            }
        self.spark = lake_session("polylake benchmarks", **settings)
        register(self.spark)
        self.engine = SparkEngine(self.spark)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.spark.stop()

    @cached_property
    def plain(self) -> SparkSession:
        """A session without the settings that polylake makes."""
        session = self.spark.newSession()
        session.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", "10000")
        return session

    def table(self, path: Path) -> DeltaTable:
        return DeltaTable(path, engine=self.engine)

    def connector(self, path: Path) -> DataFrame:
        return self.plain.read.format("delta").load(str(path))

    def files(self, path: Path) -> list[str]:
        return [str(path / name) for name in DeltaTable(path).files()["path"].to_pylist()]


def scan_rows(lab: Lab, path: Path) -> list[Row]:
    ours, files = lab.table(path), lab.files(path)

    def total(frame: DataFrame) -> None:
        frame.groupBy("kind").sum("amount").collect()

    def mine() -> None:
        total(ours.refresh().scan().to_spark())

    work = "scan and aggregate 10 million rows"
    peers: dict[str, tuple[float, Callable[[], None]]] = {
        "spark.read.parquet": (1.1, lambda: total(lab.plain.read.parquet(*files))),
    }
    if lab.has_connector:
        peers["Delta's connector"] = (1.0, lambda: total(lab.connector(path)))
    return list(_against(work, mine, peers, repeat=9))


def plan_row(lab: Lab, root: Path) -> Row:
    path = root / "small"
    rows = make_rows(SMALL_FILES).with_columns(part=make_rows(SMALL_FILES)["id"])
    DeltaTable(path).write(rows.to_arrow(), partition_by=["part"])
    ours, files = lab.table(path), lab.files(path)
    taken = compare(
        lambda: _planned(ours.refresh().scan().to_spark()),
        lambda: _planned(lab.plain.read.parquet(*files)),
        repeat=3,
    )
    return Row(
        work="plan a scan of 5,000 files",
        ours=taken[0],
        peer="spark.read.parquet, as it comes",
        theirs=taken[1],
        target=0.2,
    )


def _planned(frame: DataFrame) -> None:
    """Plan a frame down to the splits of its files."""
    frame._jdf.queryExecution().toRdd().getNumPartitions()  # noqa: SLF001 - plans, reads nothing


def write_rows(lab: Lab, root: Path) -> list[Row]:
    def source(spark: SparkSession) -> DataFrame:
        return spark.range(ROWS).selectExpr(
            "id",
            "concat('user', pmod(hash(id), 100000)) AS user",
            "timestamp_seconds(1767225600 + id) AS ts",
            "pmod(hash(id), 1000003) / 100D AS amount",
            "CAST(pmod(hash(id), 16) AS INT) AS kind",
        )

    def on_empty(name: str, act: Callable[[Path], object]) -> None:
        shutil.rmtree(root / name, ignore_errors=True)
        act(root / name)

    def parquet(path: Path) -> None:
        source(lab.plain).write.parquet(str(path))

    def delta(path: Path) -> None:
        source(lab.plain).write.format("delta").save(str(path))

    def mine() -> None:
        on_empty("written", lambda path: lab.table(path).write(source(lab.spark)))

    work = "write 10 million rows"
    peers = {"df.write.parquet": (1.2, partial(on_empty, "parquet", parquet))}
    if lab.has_connector:
        peers["Delta's connector"] = (1.0, partial(on_empty, "delta", delta))
    rows = list(_against(work, mine, peers, repeat=5, note="files are durable for us alone"))
    for name in ("written", "parquet", "delta"):
        shutil.rmtree(root / name, ignore_errors=True)
    return rows


def upsert_rows(lab: Lab, root: Path, table: Path) -> list[Row]:
    if not lab.has_connector:
        return []
    with_vectors = root / "vectors"
    make_table(with_vectors, vectors=True)
    keys = root / "keys.parquet"
    # A hundredth of the keys, in every file, so that none can be left out.
    every = ROWS // KEYS
    spread = make_rows(ROWS).filter(make_rows(ROWS)["id"] % every == 7)
    spread.with_columns(amount=1.0).write_parquet(keys)

    def mine(path: Path) -> None:
        lab.table(path).upsert(lab.spark.read.parquet(str(keys)), on="id")

    def merge(path: Path) -> None:
        lab.plain.read.parquet(str(keys)).createOrReplaceTempView("keys")
        lab.plain.sql(
            f"MERGE INTO delta.`{path}` AS t USING keys AS s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ).collect()

    rows = []
    for kind, source in (("with deletion vectors", with_vectors), ("copy-on-write", table)):
        taken = _on_copies(root, source, mine, merge)
        rows.append(
            Row(
                work=f"upsert 100,000 keys into 10 million rows, both {kind}",
                ours=taken[0],
                peer="the connector's MERGE",
                theirs=taken[1],
                target=0.8,
                note=_BLOCKS,
            )
        )
    shutil.rmtree(with_vectors)
    return rows


def cluster_rows(lab: Lab, root: Path, table: Path) -> list[Row]:
    if not lab.has_connector:
        return []
    rows = []
    for curve in ("z-order", "hilbert"):

        def mine(path: Path, curve: str = curve) -> None:
            lab.table(path).cluster(["user", "ts"], curve=curve)

        def optimize(path: Path) -> None:
            lab.plain.sql(f"OPTIMIZE delta.`{path}` ZORDER BY (user, ts)").collect()

        taken = _on_copies(root, table, mine, optimize)
        rows.append(
            Row(
                work=f"cluster 10 million rows on two columns, {curve}",
                ours=taken[0],
                peer="the connector's OPTIMIZE ZORDER",
                theirs=taken[1],
                target=1.0,
                note=_BLOCKS,
            )
        )
    return rows


def _on_copies(
    root: Path, source: Path, mine: Callable[[Path], None], peer: Callable[[Path], None]
) -> tuple[float, float]:
    """Return the better of two times of each, on copies of a table."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(2):
        for act, times in zip((mine, peer), taken, strict=True):
            copy = root / "copy"
            shutil.copytree(source, copy)
            os.sync()
            times.append(timed(partial(act, copy)))
            shutil.rmtree(copy)
    return min(taken[0]), min(taken[1])


def batch_rows(lab: Lab, root: Path) -> list[Row]:
    if not lab.has_connector:
        return []
    folder = root / "batches"
    folder.mkdir()
    for batch in range(BATCHES):
        rows = make_rows(BATCH_ROWS, batch * BATCH_ROWS)
        rows.write_parquet(folder / f"{batch:04}.parquet")

    def by_sink(stream: DataStreamWriter, path: str) -> DataStreamWriter:
        return stream.foreachBatch(DeltaSink(path).commit_epoch)

    sinks: dict[str, Callable[[DataStreamWriter, str], DataStreamWriter]] = {
        "DeltaSink": by_sink,
        'format("polylake")': lambda stream, path: stream.format("polylake").option("path", path),
        "delta": lambda stream, path: stream.format("delta").option("path", path),
    }
    taken: dict[str, list[float]] = {name: [] for name in sinks}
    for turn in range(2):
        for name, sink in sinks.items():
            spark = lab.plain if name == "delta" else lab.spark
            place = root / f"{name}-{turn}"
            taken[name] += _batch_times(spark, folder, place, sink)
    return [
        Row(
            work=f"micro-batch of 1,000 rows by {name}, end to end",
            ours=statistics.median(taken[name]),
            peer="Delta's sink",
            theirs=statistics.median(taken["delta"]),
            target=1.0,
            note=f"median of {len(taken[name])} triggers of a file source",
        )
        for name in sinks
        if name != "delta"
    ]


def _batch_times(
    spark: SparkSession,
    folder: Path,
    place: Path,
    sink: Callable[[DataStreamWriter, str], DataStreamWriter],
) -> list[float]:
    schema = spark.read.parquet(str(folder)).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    writer = stream.writeStream.option("checkpointLocation", str(place / "checkpoint"))
    query = sink(writer.trigger(availableNow=True), str(place / "table")).start()
    query.awaitTermination()
    rows = [progress for progress in query.recentProgress if progress["numInputRows"]]
    return [progress["durationMs"]["triggerExecution"] / 1000 for progress in rows[WARM_UP:]]


def _against(
    work: str,
    mine: Callable[[], None],
    peers: dict[str, tuple[float, Callable[[], None]]],
    *,
    repeat: int,
    note: str = "",
) -> Iterator[Row]:
    """Measure a work in turns with each of its peers, when all are warm."""
    for act in (mine, *(act for _, act in peers.values())):
        act()
    for name, (target, act) in peers.items():
        taken = compare(mine, act, repeat=repeat)
        yield Row(work=work, ours=taken[0], peer=name, theirs=taken[1], target=target, note=note)
