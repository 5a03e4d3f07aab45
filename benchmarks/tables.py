"""Logs of many commits and many files, without the data files they speak of."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING
from uuid import UUID

import orjson

from polylake.log import Add, CommitInfo, Metadata, Protocol, format_version, serialise_commit
from polylake.schema import DOUBLE, LONG, STRING, TIMESTAMP, StructField, StructType, schema_to_json

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = StructType(
    tuple(
        StructField(name, kind, nullable=True, metadata={})
        for name, kind in (("id", LONG), ("user", STRING), ("ts", TIMESTAMP), ("amount", DOUBLE))
    )
)


def make_log(folder: Path, *, commits: int, adds_each: int) -> None:
    """Write a log of ``commits`` commits that add ``adds_each`` files each."""
    rng = random.Random(0)
    (folder / "_delta_log").mkdir(parents=True)
    for version in range(commits):
        stamp = 1_700_000_000_000 + version
        actions = [CommitInfo({"timestamp": stamp, "operation": "WRITE"})]
        if version == 0:
            actions += [
                Protocol(min_reader_version=1, min_writer_version=2),
                Metadata(id=_unique(rng), schema_string=schema_to_json(SCHEMA)),
            ]
        actions += [make_add(rng, version * adds_each + i) for i in range(adds_each)]
        path = folder / "_delta_log" / f"{format_version(version)}.json"
        path.write_bytes(serialise_commit(actions))


def make_add(rng: random.Random, number: int) -> Add:
    return Add(
        path=f"part-{number:06d}-{_unique(rng)}.parquet",
        size=100_000 + number,
        modification_time=1_700_000_000_000 + number,
        stats=orjson.dumps(
            {
                "numRecords": 1000,
                "minValues": _bounds(rng, number * 1000, "2024-01-01T00:00:00.000Z"),
                "maxValues": _bounds(rng, number * 1000 + 999, "2024-01-02T00:00:00.000Z"),
                "nullCount": {"id": 0, "user": 1, "ts": 0, "amount": 3},
            }
        ).decode(),
    )


def _bounds(rng: random.Random, number: int, time: str) -> dict[str, object]:
    return {
        "id": number,
        "user": f"user{rng.randrange(10**6):06d}",
        "ts": time,
        "amount": rng.random(),
    }


def _unique(rng: random.Random) -> str:
    return str(UUID(int=rng.getrandbits(128)))
