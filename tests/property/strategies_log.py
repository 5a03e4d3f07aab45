"""Hypothesis strategies for whole logs, as a correct writer makes them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import orjson
from hypothesis import strategies as st

from polylake.log._actions import Add, DomainMetadata, Metadata, Protocol, Txn
from polylake.log._commit_file import Action, CommitInfo, serialise_commit
from polylake.log._deletion_vector import DeletionVectorDescriptor, DeletionVectorStorage
from polylake.log._names import commit_key
from polylake.schema import (
    DATE,
    LONG,
    STRING,
    TIMESTAMP,
    DecimalType,
    StructField,
    StructType,
    schema_to_json,
)
from polylake.storage import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Mapping

NOW_MS = 1_800_000_000_000
"""When the logs end: no tombstone in them is older than a day then."""

PLAIN = Protocol(min_reader_version=1, min_writer_version=2)
WITH_FEATURES = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=("deletionVectors", "v2Checkpoint"),
    writer_features=("deletionVectors", "domainMetadata", "rowTracking", "v2Checkpoint"),
)
SCHEMA = StructType(
    (
        StructField("id", LONG),
        StructField("who", StructType((StructField("name", STRING),))),
        StructField("at", TIMESTAMP),
        StructField("price", DecimalType(20, 2)),
        StructField("day", DATE),
    )
)
METADATA = Metadata(
    id="5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
    schema_string=schema_to_json(SCHEMA),
    partition_columns=("day",),
    created_time=1_700_000_000_000,
)

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_times = st.integers(NOW_MS - 86_400_000, NOW_MS)


@st.composite
def stats(draw: st.DrawFn) -> str:
    """Statistics of a file of ``SCHEMA``, as Spark writes them."""

    def bounds() -> dict[str, object]:
        values = {
            "id": draw(st.none() | st.integers(-(2**63), 2**63 - 1)),
            "at": draw(st.none() | st.just("2024-02-29T23:59:59.123Z")),
            "price": draw(st.none() | st.integers(-(2**50), 2**50).map(lambda n: n / 4)),
        }
        name = draw(st.none() | _text)
        nested = {} if name is None else {"who": {"name": name}}
        return {key: value for key, value in values.items() if value is not None} | nested

    count = draw(st.integers(0, 1000))
    content: dict[str, object] = {"numRecords": count}
    if draw(st.booleans()):
        content |= {"minValues": bounds(), "maxValues": bounds(), "tightBounds": True}
        content["nullCount"] = {"id": 0, "who": {"name": count}}
    return orjson.dumps(content).decode()


@st.composite
def vectors(draw: st.DrawFn) -> DeletionVectorDescriptor:
    """Descriptors of deletion vectors, inline or in a file."""
    inline = draw(st.booleans())
    return DeletionVectorDescriptor(
        storage_type=DeletionVectorStorage.INLINE if inline else DeletionVectorStorage.RELATIVE,
        path_or_inline=draw(st.text("abc", max_size=3)) + "^-aqEH.-t@S}K{vb[*k^",
        offset=None if inline else draw(st.integers(0, 9)),
        size_in_bytes=40,
        cardinality=draw(st.integers(1, 9)),
    )


@st.composite
def _adds(draw: st.DrawFn, path: str, *, with_features: bool) -> Add:
    return Add(
        path=path,
        partition_values={"day": draw(st.sampled_from(["2024-01-01", "1999-12-31", "", None]))},
        size=draw(st.integers(0, 2**40)),
        modification_time=draw(_times),
        data_change=draw(st.booleans()),
        stats=draw(st.none() | stats()),
        tags=draw(st.none() | st.dictionaries(_text, _text, max_size=2)),
        deletion_vector=draw(st.none() | vectors()) if with_features else None,
        base_row_id=draw(st.none() | st.integers(0, 9)) if with_features else None,
        clustering_provider=draw(st.none() | _text),
    )


@st.composite
def histories(
    draw: st.DrawFn,
    protocol: Protocol = PLAIN,
    configuration: Mapping[str, str] | None = None,
    *,
    min_size: int = 1,
) -> list[list[Action]]:
    """Commits from the first on: files come, go and come back, their vectors replace each other."""
    metadata = replace(METADATA, configuration=dict(configuration or {}))
    live: dict[str, Add] = {}
    commits: list[list[Action]] = []
    for number in range(draw(st.integers(min_size, 5))):
        commit: list[Action] = [CommitInfo({"operation": "WRITE", "version": number})]
        if number == 0:
            commit += [protocol, metadata]
        paths = st.sampled_from(["a", "b%20c", "day=1/c", "d", "e"])
        for path in draw(st.lists(paths, unique=True)):
            old = live.pop(path, None)
            if old is not None:
                commit.append(old.to_remove(deletion_timestamp=draw(_times)))
            if old is None or draw(st.booleans()):
                live[path] = draw(_adds(path, with_features=protocol is not PLAIN))
                commit.append(live[path])
        for app in draw(st.lists(st.sampled_from("xy"), unique=True)):
            updated = draw(st.none() | _times)
            commit.append(Txn(app_id=app, version=draw(st.integers(0, 9)), last_updated=updated))
        for name in draw(st.lists(st.sampled_from("pq"), unique=True)):
            removed = draw(st.booleans())
            commit.append(DomainMetadata(domain=name, configuration=str(number), removed=removed))
        if draw(st.integers(0, 5)) == 0:
            metadata = replace(metadata, description=draw(_text))
            commit.append(metadata)
        commits.append(commit)
    return commits


def write_log(history: list[list[Action]]) -> MemoryStorage:
    """Return a store that holds the commits."""
    storage = MemoryStorage()
    for version, commit in enumerate(history):
        storage.put(commit_key(version), serialise_commit(commit))
    return storage
