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
# Made once: to make and check a strategy takes longer than to draw from it.
_paths = st.lists(st.sampled_from(["a", "b%20c", "day=1/c", "d", "e"]), unique=True)
_apps = st.lists(st.sampled_from("xy"), unique=True)
_domains = st.lists(st.sampled_from("pq"), unique=True)
_days = st.sampled_from(["2024-01-01", "1999-12-31", "", None])
_sizes = st.integers(0, 2**40)
_counts = st.integers(0, 1000)
_digits = st.integers(0, 9)
_letters = st.text("abc", max_size=3)
_cardinalities = st.integers(1, 9)
_booleans = st.booleans()
_ids = st.none() | st.integers(-(2**63), 2**63 - 1)
_moments = st.none() | st.just("2024-02-29T23:59:59.123Z")
_prices = st.none() | st.integers(-(2**50), 2**50).map(lambda n: n / 4)
_some_text = st.none() | _text
_tags = st.none() | st.dictionaries(_text, _text, max_size=2)
_row_ids = st.none() | _digits
_updated = st.none() | _times


@st.composite
def stats(draw: st.DrawFn) -> str:
    """Statistics of a file of ``SCHEMA``, as Spark writes them."""

    def bounds() -> dict[str, object]:
        values = {
            "id": draw(_ids),
            "at": draw(_moments),
            "price": draw(_prices),
        }
        name = draw(_some_text)
        nested = {} if name is None else {"who": {"name": name}}
        return {key: value for key, value in values.items() if value is not None} | nested

    count = draw(_counts)
    content: dict[str, object] = {"numRecords": count}
    if draw(_booleans):
        content |= {"minValues": bounds(), "maxValues": bounds(), "tightBounds": True}
        content["nullCount"] = {"id": 0, "who": {"name": count}}
    return orjson.dumps(content).decode()


@st.composite
def vectors(draw: st.DrawFn) -> DeletionVectorDescriptor:
    """Descriptors of deletion vectors, inline or in a file."""
    inline = draw(_booleans)
    return DeletionVectorDescriptor(
        storage_type=DeletionVectorStorage.INLINE if inline else DeletionVectorStorage.RELATIVE,
        path_or_inline=draw(_letters) + "^-aqEH.-t@S}K{vb[*k^",
        offset=None if inline else draw(_digits),
        size_in_bytes=40,
        cardinality=draw(_cardinalities),
    )


_some_stats = st.none() | stats()
_some_vector = st.none() | vectors()


@st.composite
def _adds(draw: st.DrawFn, path: str, *, with_features: bool) -> Add:
    return Add(
        path=path,
        partition_values={"day": draw(_days)},
        size=draw(_sizes),
        modification_time=draw(_times),
        data_change=draw(_booleans),
        stats=draw(_some_stats),
        tags=draw(_tags),
        deletion_vector=draw(_some_vector) if with_features else None,
        base_row_id=draw(_row_ids) if with_features else None,
        clustering_provider=draw(_some_text),
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
        for path in draw(_paths):
            old = live.pop(path, None)
            if old is not None:
                commit.append(old.to_remove(deletion_timestamp=draw(_times)))
            if old is None or draw(_booleans):
                live[path] = draw(_adds(path, with_features=protocol is not PLAIN))
                commit.append(live[path])
        for app in draw(_apps):
            updated = draw(_updated)
            commit.append(Txn(app_id=app, version=draw(_digits), last_updated=updated))
        for name in draw(_domains):
            removed = draw(_booleans)
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
