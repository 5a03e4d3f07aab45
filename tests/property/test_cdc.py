"""Change records of any kind: read as they were written, and collapsed in any order."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from polylake.cdc import (
    CDCOperation,
    CDCRecord,
    CDCSource,
    DebeziumMessage,
    ObjectId,
    collapse,
    feed_to_arrow,
    from_debezium,
    from_entity_event,
    from_mongo,
    record_batches,
    records_from_arrow,
    records_from_feed,
    records_to_arrow,
    records_to_feed,
    to_debezium,
    to_entity_event,
    to_mongo,
)
from polylake.cdc._extended import from_extended, to_extended
from polylake.schema import DOUBLE, LONG, STRING, StructField, StructType

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
# Names that extended JSON gives a meaning to are names like any other.
NAMES = st.sampled_from(["a", "b", "$oid", "$date", "$literal", "$binary", "$type"]) | TEXT
LONGS = st.integers(-(2**63), 2**63 - 1)
JSON_SCALARS = st.one_of(
    st.none(), st.booleans(), LONGS, st.floats(allow_nan=False, allow_infinity=False), TEXT
)
OBJECT_IDS = st.binary(min_size=12, max_size=12).map(lambda raw: ObjectId(raw.hex()))
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False).filter(
    lambda value: max(len(value.as_tuple().digits), abs(int(value.as_tuple().exponent))) < 19
)
VARIANT_SCALARS = st.one_of(
    JSON_SCALARS,
    st.floats(),
    st.binary(max_size=8),
    st.uuids(),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    DECIMALS,
)
SCALARS = st.one_of(VARIANT_SCALARS, OBJECT_IDS, st.integers(-(10**30), 10**30))


def values(
    scalars: st.SearchStrategy[Any], names: st.SearchStrategy[str]
) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)
        ),
        max_leaves=6,
    )


def states(scalars: st.SearchStrategy[Any], names: st.SearchStrategy[str] = NAMES) -> Any:
    return st.dictionaries(names, values(scalars, names), max_size=4)


@st.composite
def records(
    draw: Any,
    state: st.SearchStrategy[dict[str, Any]],
    *,
    ids: st.SearchStrategy[str] = TEXT,
    seqs: st.SearchStrategy[int] = LONGS,
    times: st.SearchStrategy[int] = LONGS,
    sources: st.SearchStrategy[CDCSource] | None = None,
) -> CDCRecord:
    op = draw(st.sampled_from(CDCOperation))
    may_have_before = op in (CDCOperation.UPDATE, CDCOperation.DELETE)
    return CDCRecord(
        id=draw(ids),
        seq=draw(seqs),
        op=op,
        before=draw(st.none() | state) if may_have_before else None,
        after=None if op is CDCOperation.DELETE else draw(state),
        ts=draw(times),
        source=draw(any_sources if sources is None else sources),
    )


OPTIONAL = st.none() | TEXT
any_sources = st.builds(
    CDCSource,
    system=TEXT.filter(bool),
    database=OPTIONAL,
    collection=OPTIONAL,
    topic=OPTIONAL,
    partition=st.none() | st.integers(0, 9),
    transaction=OPTIONAL,
    server=OPTIONAL,
    origin=OPTIONAL,
    extra=states(JSON_SCALARS, st.sampled_from(["lsn", "x", "$oid"])),
)


def same(left: Any, right: Any) -> bool:
    """Say whether two values are equal and of one type; not a number is equal to itself."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and math.isnan(left):
        return isinstance(right, float) and math.isnan(right)
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return left.as_tuple() == right.as_tuple()
    return type(left) is type(right) and left == right


@settings(max_examples=200)
@given(records(states(SCALARS)))
def test_a_record_reads_from_json_as_it_was(record: CDCRecord) -> None:
    assert same(CDCRecord.from_json(record.to_json()).to_dict(), record.to_dict())


@settings(max_examples=50)
@given(st.lists(records(states(VARIANT_SCALARS)), max_size=6))
def test_records_read_from_arrow_as_they_were(changes: list[CDCRecord]) -> None:
    back = list(records_from_arrow(records_to_arrow(changes)))
    assert same([r.to_dict() for r in back], [r.to_dict() for r in changes])


STATE_COLUMNS = StructType(
    (StructField("k", LONG), StructField("name", STRING), StructField("x", DOUBLE))
)
typed_states = st.fixed_dictionaries(
    {
        "k": st.integers(0, 3),
        "name": st.none() | TEXT,
        "x": st.none() | st.floats(allow_nan=False),
    }
)


@settings(max_examples=50)
@given(st.lists(records(typed_states), max_size=6))
def test_records_with_typed_states_read_from_arrow_as_they_were(changes: list[CDCRecord]) -> None:
    assert list(records_from_arrow(record_batches(changes, STATE_COLUMNS))) == changes


# Few ids, places, times and states, so that records meet in all of them.
SMALL_STATES = st.fixed_dictionaries({"k": st.integers(0, 1), "n": st.integers(0, 2)})
SMALL_SOURCES = st.sampled_from(
    [CDCSource(system="a"), CDCSource(system="b", extra={"lsn": 1}), CDCSource(system="b")]
)
colliding = records(
    SMALL_STATES,
    ids=st.sampled_from("xy"),
    seqs=st.integers(0, 4),
    times=st.integers(0, 1),
    sources=SMALL_SOURCES,
)
many = st.lists(colliding, max_size=12)


@settings(max_examples=200)
@given(many, many, st.randoms())
def test_the_net_change_does_not_depend_on_batches_order_or_repeats(
    left: list[CDCRecord], right: list[CDCRecord], random: Any
) -> None:
    whole = collapse(left + right)
    assert collapse(collapse(left) + collapse(right)) == whole
    shuffled = [*left, *right, *right]
    random.shuffle(shuffled)
    assert collapse(shuffled) == whole
    assert collapse(whole) == whole


@settings(max_examples=100)
@given(many, many)
def test_a_table_of_records_collapses_as_the_records_do(
    left: list[CDCRecord], right: list[CDCRecord]
) -> None:
    table = records_to_arrow(collapse(left) + right)
    assert list(records_from_arrow(collapse(table))) == collapse(left + right)
    halves = pa.concat_tables([collapse(records_to_arrow(part)) for part in (left, right)])
    assert list(records_from_arrow(collapse(halves))) == collapse(left + right)


@settings(max_examples=100)
@given(st.lists(colliding.map(lambda r: replace(r, seq=r.seq << 59 | r.ts)), max_size=8))
def test_sequences_too_wide_to_pack_collapse_as_well(changes: list[CDCRecord]) -> None:
    table = records_to_arrow(changes)
    assert list(records_from_arrow(collapse(table))) == collapse(changes)


def applied(rows: dict[str, Any], changes: list[CDCRecord]) -> dict[str, Any]:
    rows = dict(rows)
    for change in changes:
        if change.after is None:
            rows.pop(change.id, None)
        else:
            rows[change.id] = change.after
    return rows


@given(
    many.map(lambda found: [replace(r, seq=at) for at, r in enumerate(found)]),
    st.dictionaries(st.sampled_from("xyz"), SMALL_STATES),
)
def test_net_changes_do_what_the_records_do_one_by_one(
    history: list[CDCRecord], rows: dict[str, Any]
) -> None:
    assert applied(rows, collapse(history)) == applied(rows, history)
    # A part that was applied before, and comes again, does no harm.
    again = applied(rows, history[: len(history) // 2])
    assert applied(again, collapse(history)) == applied(rows, history)


TABLE = CDCSource(system="delta", collection="orders")


@st.composite
def commits(draw: Any) -> list[CDCRecord]:
    """Changes as a feed has them: one for each key and version, and all rows known."""
    found: list[CDCRecord] = []
    for version in range(draw(st.integers(0, 3))):
        for key in draw(st.sets(st.integers(0, 3))):
            row = typed_states.map(lambda state, key=key: {**state, "k": key})
            op = draw(st.sampled_from("cud"))
            found.append(
                CDCRecord(
                    id=str(key),
                    seq=version,
                    op=CDCOperation(op),
                    before=None if op == "c" else draw(row),
                    after=None if op == "d" else draw(row),
                    ts=draw(st.just(version * 1000)),
                    source=TABLE,
                )
            )
    return found


@given(commits(), st.randoms())
def test_records_read_from_a_feed_as_they_were(changes: list[CDCRecord], random: Any) -> None:
    rows = list(records_to_feed(changes))
    assert list(records_from_feed(rows, key="k", source=TABLE)) == changes
    # Rows of one commit have no order.
    random.shuffle(rows)
    rows.sort(key=lambda row: row["_commit_version"])
    back = records_from_feed(rows, key="k", source=TABLE)
    order = {"key": lambda record: (record.seq, record.id)}
    assert sorted(back, **order) == sorted(changes, **order)


FEED_SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("name", pa.string()),
        ("x", pa.float64()),
        ("_change_type", pa.string()),
        ("_commit_version", pa.int64()),
        ("_commit_timestamp", pa.timestamp("us", "UTC")),
    ]
)


@given(commits())
def test_a_table_of_a_feed_reads_as_its_rows_do(changes: list[CDCRecord]) -> None:
    rows = list(records_to_feed(changes))
    feed = pa.Table.from_pylist(rows, FEED_SCHEMA)
    table = feed_to_arrow(feed, key="k", source=TABLE)
    assert list(records_from_arrow(table)) == changes


json_states = st.dictionaries(TEXT, values(JSON_SCALARS, TEXT), max_size=4)
REST = st.dictionaries(st.sampled_from(["lsn", "xmin", "snapshot", "x"]), JSON_SCALARS)
KEYS = st.dictionaries(TEXT, LONGS | TEXT, min_size=1, max_size=2)


@st.composite
def relational_messages(draw: Any) -> DebeziumMessage:
    op = draw(st.sampled_from("cudr"))
    payload = {
        "before": draw(st.none() | json_states) if op in "ud" else None,
        "after": None if op == "d" else draw(json_states),
        "source": {
            **draw(REST),
            "connector": draw(st.sampled_from(["postgresql", "mysql", "sqlserver"])),
            "name": draw(TEXT),
            "ts_ms": draw(st.integers(0, 2**40)),
            "db": draw(TEXT),
            "table": draw(TEXT),
            "txId": draw(st.none() | LONGS),
        },
        "op": op,
        "ts_ms": draw(st.integers(0, 2**40)),
        **draw(st.dictionaries(st.sampled_from(["ts_us", "transaction", "y"]), JSON_SCALARS)),
    }
    schema = draw(st.sampled_from([{}, {"schema": {"type": "struct"}}, {"schema": None}]))
    return DebeziumMessage(
        key=draw(KEYS),
        value={**schema, "payload": payload} if schema else payload,
        topic=draw(OPTIONAL),
        partition=draw(st.none() | st.integers(0, 9)),
        offset=draw(st.integers(0, 2**63 - 1)),
        timestamp_ms=draw(st.none() | st.integers(0, 2**40)),
    )


@settings(max_examples=200)
@given(relational_messages())
def test_a_message_of_a_table_is_written_as_it_was_read(message: DebeziumMessage) -> None:
    record = from_debezium(message)
    assert same_message(to_debezium(record), message)
    assert same_message(to_debezium(CDCRecord.from_json(record.to_json())), message)


def same_message(left: DebeziumMessage, right: DebeziumMessage) -> bool:
    return left == right and same(left.value, right.value) and same(left.key, right.key)


MONGO_SCALARS = st.one_of(
    JSON_SCALARS,
    OBJECT_IDS,
    st.binary(max_size=4),
    st.uuids(),
    DECIMALS,
    st.datetimes(timezones=st.just(UTC)).map(
        lambda value: value.replace(microsecond=value.microsecond // 1000 * 1000)
    ),
)
FIELDS = st.sampled_from(["a", "b", "c"])
documents = st.builds(
    lambda key, rest: {"_id": key, **rest}, OBJECT_IDS, states(MONGO_SCALARS, FIELDS)
)
TIMES = st.integers(1_600_000_000, 1_900_000_000)


@st.composite
def mongo_events(draw: Any) -> dict[str, Any]:
    kind = draw(st.sampled_from(["insert", "update", "replace", "delete"]))
    document = draw(documents)
    event: dict[str, Any] = {
        "_id": {"_data": draw(TEXT)},
        "operationType": kind,
        "clusterTime": {"$timestamp": {"t": draw(TIMES), "i": draw(st.integers(0, 9))}},
        "ns": {"db": draw(TEXT), "coll": draw(TEXT)},
        "documentKey": {"_id": document["_id"]},
    }
    if draw(st.booleans()):
        event["wallTime"] = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=draw(TIMES))
    if kind != "delete":
        event["fullDocument"] = document
    if kind != "insert":
        event["fullDocumentBeforeChange"] = draw(st.none() | documents)
    if kind == "update":
        event["updateDescription"] = {
            "updatedFields": {"a": draw(MONGO_SCALARS)},
            "removedFields": draw(st.lists(FIELDS)),
            "truncatedArrays": [],
        }
        if event["fullDocumentBeforeChange"] is not None and draw(st.booleans()):
            del event["fullDocument"]
    return event


@settings(max_examples=200)
@given(mongo_events())
def test_a_change_stream_event_is_written_as_it_was_read(event: dict[str, Any]) -> None:
    text = to_extended(event, escape=False)
    record = from_mongo(event)
    assert from_mongo(text) == record
    assert same(to_mongo(record), text)
    assert same(to_mongo(CDCRecord.from_json(record.to_json())), text)


@given(documents, documents)
def test_the_description_of_an_update_makes_the_document_it_made(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    after = {**after, "_id": before["_id"]}
    event = {
        "operationType": "update",
        "clusterTime": {"$timestamp": {"t": 1, "i": 1}},
        "ns": {"db": "d", "coll": "c"},
        "documentKey": {"_id": before["_id"]},
        "updateDescription": {
            "updatedFields": {
                name: value
                for name, value in after.items()
                if name not in before or not same(before[name], value)
            },
            "removedFields": [name for name in before if name not in after],
        },
    }
    record = from_mongo(event, before=before)
    assert same(record.after, from_extended(to_extended(after, escape=False), escape=False))


@settings(max_examples=200)
@given(records(states(SCALARS), ids=TEXT, times=st.integers(0, 2**62)))
def test_a_record_reads_from_an_entity_event_as_it_was(record: CDCRecord) -> None:
    event = to_entity_event(record)
    assert same(from_entity_event(event).to_dict(), record.to_dict())


ULIDS = st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ", min_size=26, max_size=26)


@st.composite
def entity_events(draw: Any) -> dict[str, Any]:
    op = draw(st.sampled_from(["CREATE", "UPDATE", "DELETE", "REL_CREATE", "REL_DELETE"]))
    event = {
        "id": draw(ULIDS),
        "ts": draw(st.integers(0, 2**43)),
        "op": op,
        "target": "users:u1:authored:posts:p5" if op.startswith("REL") else f"users:{draw(TEXT)}",
        **draw(st.fixed_dictionaries({}, optional={"actor": TEXT, "metadata": json_states})),
    }
    if "CREATE" not in op:
        event["before"] = draw(json_states)
    if "DELETE" not in op:
        event["after"] = draw(json_states)
    return event


@given(entity_events())
def test_an_entity_event_is_written_as_it_was_read(event: dict[str, Any]) -> None:
    record = from_entity_event(event)
    assert same(to_entity_event(record), event)
    assert same(to_entity_event(CDCRecord.from_json(record.to_json())), event)
