from __future__ import annotations

import pytest

from polylake.log._spark_hash import SEED, spark_hash, spark_partition


@pytest.mark.parametrize(
    ("text", "hashed"),
    [("", 142593372), ("a", 1485273170), ("abc", 1322437556), ("Spark", 228093765)],
)
def test_a_text_has_the_hash_that_spark_gives_it(text: str, hashed: int) -> None:
    assert spark_hash(text) == hashed


def test_partitions_count_from_zero_for_negative_hashes_too() -> None:
    assert spark_partition(2**32 - 1, 10) == 9
    assert spark_partition(SEED, 10) == 2


def test_bytes_above_127_are_mixed_in_as_negative_numbers() -> None:
    assert spark_hash("é") != spark_hash("e")
    assert 0 <= spark_hash("日本é") < 2**32
