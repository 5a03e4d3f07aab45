"""Messages of Debezium's connectors, read as records and written again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from tests.unit.cdc.debezium_messages import (
    CHANGED,
    DESCRIPTION,
    DOCUMENT,
    MESSAGES,
    MONGO_KEY,
    OID,
    ROW,
    mongodb,
    plain,
    postgres,
    with_schema,
)

from polylake.cdc import (
    CDCOperation,
    CDCRecord,
    CDCSource,
    DebeziumMessage,
    ObjectId,
    from_debezium,
    to_debezium,
)
from polylake.errors import CDCError

STATE = {
    "_id": ObjectId(OID),
    "name": "Änne",
    "visits": 12,
    "since": datetime(2026, 1, 1, tzinfo=UTC),
    "tags": ["a", "b", "c"],
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_is_written_as_it_was_read(name: str) -> None:
    message = MESSAGES[name]
    record = from_debezium(message)
    assert to_debezium(record) == message
    assert to_debezium(CDCRecord.from_json(record.to_json())) == message
    again = DebeziumMessage.from_json(*message.to_json())
    assert (again.key, again.value) == (message.key, message.value)


def test_a_row_of_postgres_is_a_record() -> None:
    record = from_debezium(MESSAGES["postgres-update"])
    assert (record.id, record.op, record.before, record.after) == (
        "7",
        CDCOperation.UPDATE,
        ROW,
        CHANGED,
    )
    assert (record.seq, record.ts) == (33227832, 1767225600123456000)
    source = replace(record.source, extra={})
    assert source == CDCSource(
        system="postgresql",
        database="shop",
        collection="customers",
        transaction="771:33227832",
        server="shop",
    )


def test_the_offset_in_the_topic_goes_before_the_position_in_the_log() -> None:
    record = from_debezium(MESSAGES["postgres-with-schema"])
    assert record.seq == 10_001
    assert (record.source.topic, record.source.partition) == ("shop.public.customers", 2)


def test_positions_of_mysql_grow_with_file_byte_and_row() -> None:
    def seq(file: str, pos: int, row: int) -> int:
        payload = MESSAGES["mysql-create"].value
        assert payload is not None
        source = {**payload["source"], "file": file, "pos": pos, "row": row}
        return from_debezium(plain({**payload, "source": source})).seq

    places = [("b.000012", 4, 0), ("b.000012", 4, 3), ("b.000012", 5, 0), ("b.000013", 4, 0)]
    seqs = [seq(*place) for place in places]
    assert seqs == sorted(set(seqs))


@pytest.mark.parametrize("place", [("b.x", 4, 0), ("b.000001", 1 << 32, 0), ("b.1", 4, 5000)])
def test_a_position_that_no_number_holds_asks_for_the_offset(place: tuple[str, int, int]) -> None:
    payload = MESSAGES["mysql-create"].value
    assert payload is not None
    names = ("file", "pos", "row")
    source = {**payload["source"], **dict(zip(names, place, strict=True))}
    with pytest.raises(CDCError, match="offset"):
        from_debezium(plain({**payload, "source": source}))


def test_documents_of_mongodb_are_read_from_their_texts() -> None:
    record = from_debezium(MESSAGES["mongodb-create"])
    assert record.id == OID
    assert record.after == STATE
    assert record.seq == 1767225600 << 32 | 3


def test_a_partial_update_is_applied_to_the_state_before() -> None:
    record = from_debezium(MESSAGES["mongodb-update-of-a-pre-image"])
    expected = {**STATE, "tags": ["z", "b"]}
    del expected["since"]
    assert record.after == expected


def test_a_partial_update_takes_the_state_before_from_the_caller() -> None:
    message = plain(mongodb("u", updateDescription=DESCRIPTION), MONGO_KEY)
    record = from_debezium(message, before=STATE)
    assert record.before == STATE
    assert record.after is not None
    assert record.after["tags"] == ["z", "b"]
    assert to_debezium(record) == message


def test_a_patch_sets_and_unsets() -> None:
    patch = '{"$v": 1, "$set": {"name": "Bo"}, "$unset": {"tags": true}}'
    message = plain(mongodb("u", patch=patch, filter="{}"), MONGO_KEY)
    record = from_debezium(message, before=STATE)
    assert record.after == {**{k: v for k, v in STATE.items() if k != "tags"}, "name": "Bo"}
    assert to_debezium(record) == message


@pytest.mark.parametrize(
    "parts",
    [
        {"updateDescription": DESCRIPTION},
        {"patch": '{"$set": {"a": 1}}'},
        {"patch": '{"$v": 2, "diff": {}}'},
        {},
    ],
    ids=["description", "patch", "diff", "nothing"],
)
def test_a_partial_update_of_an_unknown_state_is_refused(parts: dict[str, object]) -> None:
    with pytest.raises(CDCError):
        from_debezium(plain(mongodb("u", **parts), MONGO_KEY))


def test_a_tombstone_deletes() -> None:
    record = from_debezium(MESSAGES["tombstone"])
    assert (record.id, record.op, record.before, record.seq) == ("7", CDCOperation.DELETE, None, 9)


def test_a_tombstone_of_mongodb_has_the_id_of_its_document() -> None:
    message = DebeziumMessage(key=MONGO_KEY, offset=1, timestamp_ms=1)
    assert from_debezium(message, connector="mongodb").id == OID


def test_a_tombstone_that_says_nothing_is_refused() -> None:
    with pytest.raises(CDCError, match="offset"):
        from_debezium(DebeziumMessage(key={"id": 7}))


def test_composite_keys_make_one_id() -> None:
    assert from_debezium(MESSAGES["postgres-composite-key"]).id == '["eu",7]'


def test_a_table_without_a_key_takes_one_from_its_rows() -> None:
    message = DebeziumMessage(value=postgres("c", None, ROW))
    record = from_debezium(message, key=["id", "email"])
    assert record.id == '[7,"ann@example.org"]'
    assert to_debezium(record) == message
    with pytest.raises(CDCError, match="key"):
        from_debezium(message)


def test_a_document_without_a_key_has_its_own_id() -> None:
    assert from_debezium(DebeziumMessage(value=mongodb("c", after=DOCUMENT))).id == OID


def test_the_schema_may_stay_behind() -> None:
    payload = postgres("u", ROW, CHANGED)
    record = from_debezium(with_schema(payload), keep_schema=False)
    assert to_debezium(record).value == payload


def test_a_record_that_was_changed_is_written_as_it_is_now() -> None:
    record = from_debezium(MESSAGES["mongodb-create"])
    value = to_debezium(replace(record, after={"_id": ObjectId(OID), "n": 1})).value
    assert value is not None
    assert value["after"] == f'{{"_id": {{"$oid": "{OID}"}}, "n": 1}}'


def test_a_partial_update_that_was_changed_is_written_with_its_state() -> None:
    record = from_debezium(MESSAGES["mongodb-update-of-a-pre-image"])
    value = to_debezium(replace(record, after={"n": 1})).value
    assert value is not None
    assert value["after"] == '{"n": 1}'
    assert "updateDescription" not in value


@pytest.mark.parametrize("system", ["postgresql", "mongodb"])
def test_a_record_of_elsewhere_is_an_envelope_that_reads_as_it(system: str) -> None:
    source = CDCSource(system=system, database="d", collection="c", server="s")
    record = CDCRecord(
        id="x", seq=1 << 33, op=CDCOperation.UPDATE, after={"a": 1}, ts=5 * 10**9, source=source
    )
    message = replace(to_debezium(record), offset=record.seq)
    back = from_debezium(message)
    assert replace(back, source=source) == record


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (plain(postgres("t", None, None)), "'t'"),
        (plain({"a": 1}), "no envelope"),
        (plain({**postgres("c", None, ROW), "source": {"connector": "oracle"}}), "offset"),
        (
            DebeziumMessage(key={"id": 1}, value={"op": "d", "source": {}}, offset=1),
            "when it was",
        ),
    ],
    ids=["truncate", "no-envelope", "no-position", "no-time"],
)
def test_what_is_no_change_to_a_row_is_refused(message: DebeziumMessage, problem: str) -> None:
    with pytest.raises(CDCError, match=problem):
        from_debezium(message)


def test_texts_that_are_no_json_are_refused() -> None:
    with pytest.raises(CDCError, match="not JSON"):
        DebeziumMessage.from_json(b"{", None)
