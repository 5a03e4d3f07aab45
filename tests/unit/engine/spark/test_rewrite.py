"""A rewrite by the cluster notices rows that are lost or changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark import spark_session
from tests.unit.engine.reading import shape_of
from tests.unit.engine.test_rewrite import ALL_TYPES, rich_row, write_rows

from polylake.engine import Layout, RewriteOptions, TableShape
from polylake.errors import IntegrityError
from polylake.schema import LONG, VOID, ArrayType, MapType
from polylake.storage import LocalStorage

pytest.importorskip("pyspark", reason="needs pyspark: pip install polylake[spark]")

from pyspark.sql import functions as f

from polylake.engine.spark import SparkEngine, to_spark_schema
from polylake.engine.spark._checksum import RowChecksum
from polylake.engine.spark._rewrite import rewrite
from polylake.engine.spark._write import write_in_place

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

OPTIONS = RewriteOptions(memory_bytes=1 << 26)


@pytest.fixture(scope="module")
def engine() -> SparkEngine:
    return SparkEngine(spark_session())


@pytest.mark.parametrize(
    ("damage", "verify", "message"),
    [
        pytest.param(lambda rows: rows.limit(11), False, "12 rows, wrote 11", id="lost"),
        pytest.param(
            lambda rows: rows.withColumn("inner", f.col("inner").withField("x", f.lit(-1))),
            True,
            "read back",
            id="changed",
        ),
    ],
)
def test_rows_that_were_lost_or_changed_are_noticed(
    tmp_path: Path, engine: SparkEngine, damage: Any, verify: bool, message: str
) -> None:
    def write(*arguments: Any, rows_per_file: int) -> Any:
        storage, shape, frame, layout = arguments
        return write_in_place(storage, shape, damage(frame), layout, rows_per_file=rows_per_file)

    storage = LocalStorage(tmp_path)
    shape = TableShape(schema=ALL_TYPES)
    files = write_rows(storage, shape, *[[rich_row(at) for at in (1, 2, 3, 4, 5, 6)]] * 2)
    with pytest.raises(IntegrityError, match=message):
        rewrite(
            engine.spark,
            storage,
            shape,
            files,
            Layout(),
            replace(OPTIONS, verify=verify),
            write=write,
        )


def test_a_checksum_tells_where_a_null_is_and_ignores_the_order_of_rows(
    engine: SparkEngine,
) -> None:
    shape = shape_of(a=LONG, b=LONG, c=ArrayType(LONG), d=MapType(LONG, LONG), e=VOID)
    rows = [(1, None, [None, 1], {1: None}, None), (2, 2, None, None, None)]

    def checksum(rows: list[Any]) -> RowChecksum:
        frame: DataFrame = engine.spark.createDataFrame(rows, to_spark_schema(shape.schema))
        return RowChecksum.of(frame, shape.schema, table="t")

    whole = checksum(rows)
    assert whole.rows == 2
    assert checksum(rows[::-1]) == whole
    for other in ((None, 1, [None, 1], {1: None}, None), (1, None, [1, None], {1: None}, None)):
        assert checksum([other, rows[1]]) != whole
