from __future__ import annotations

import hashlib
from typing import Any

import orjson
import pytest

from polylake.log._hint import (
    CheckpointHint,
    V2CheckpointHint,
    canonical_form,
    format_hint,
    parse_hint,
)

FULL = CheckpointHint(
    version=12,
    size=40,
    parts=2,
    size_in_bytes=9000,
    num_of_add_files=33,
    checkpoint_schema={"type": "struct", "fields": [{"name": "a b", "nullable": True}]},
    tags={"who": "ann & bob"},
    v2_checkpoint=V2CheckpointHint(
        path="00000000000000000012.checkpoint.80a083e8.json",
        size_in_bytes=700,
        modified_ms=1_700_000_000_000,
        non_file_actions=[{"txn": {"appId": "x", "version": 1}}],
        sidecar_files=[],
    ),
)


def test_the_canonical_form_is_that_of_the_protocol_example() -> None:
    fields = orjson.loads(
        """{"k0":"'v 0'", "checksum": "adsaskfljadfkjadfkj", "k1":{"k2": 2, "k3": ["v3", [1, 2],
        {"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}"""
    )
    form = canonical_form(fields)
    assert form == (
        '"k0"="%27v%200%27","k1"+"k2"=2,"k1"+"k3"+0="v3","k1"+"k3"+1+0=1,"k1"+"k3"+1+1=2,'
        '"k1"+"k3"+2+"k4"="v4","k1"+"k3"+2+"k5"+0="v5","k1"+"k3"+2+"k5"+1="v6",'
        '"k1"+"k3"+2+"k5"+2="v7"'
    )
    assert hashlib.md5(form.encode()).hexdigest() == "6a92d155a59bf2eecbd4b4ec7fd1f875"


def test_literals_are_their_own_canonical_form() -> None:
    fields = {"a": None, "b": True, "c": 3.14, "d": -1, "ü~": "https://delta.io"}
    assert canonical_form(fields) == (
        '"%C3%BC~"="https%3A%2F%2Fdelta.io","a"=null,"b"=true,"c"=3.14,"d"=-1'
    )


@pytest.mark.parametrize("hint", [FULL, CheckpointHint(version=0, size=-1)])
def test_a_formatted_hint_parses_to_itself(hint: CheckpointHint) -> None:
    assert parse_hint(format_hint(hint)) == hint


def test_version_size_and_parts_come_first() -> None:
    assert format_hint(FULL).startswith(b'{"version":12,"size":40,"parts":2,')


def test_what_is_not_known_is_left_out() -> None:
    assert list(orjson.loads(format_hint(CheckpointHint(version=3, size=5)))) == [
        "version",
        "size",
        "checksum",
    ]


def test_a_hint_without_checksum_is_taken() -> None:
    assert parse_hint(b'{"version":3,"size":5,"parts":null}') == CheckpointHint(version=3, size=5)


def test_unknown_fields_are_passed_over() -> None:
    assert parse_hint(b'{"version":3,"size":5,"new":[1]}') == CheckpointHint(version=3, size=5)


def test_an_unknown_field_is_part_of_the_checksum() -> None:
    tampered = orjson.loads(format_hint(FULL)) | {"new": 1}
    assert parse_hint(orjson.dumps(tampered)) is None


def test_a_hint_torn_between_two_versions_is_refused() -> None:
    assert parse_hint(format_hint(FULL).replace(b'"version":12', b'"version":13')) is None


def test_a_checksum_in_the_order_spark_sorts_is_accepted() -> None:
    features = [f"f{i}" for i in range(11)]
    fields = {"version": 1, "size": 2, "checkpointSchema": features}
    pairs = canonical_form(fields).split(",")
    as_spark = ",".join(sorted(pairs))
    assert pairs != as_spark.split(",")
    fields["checksum"] = hashlib.md5(as_spark.encode()).hexdigest()
    assert parse_hint(orjson.dumps(fields)) == CheckpointHint(
        version=1, size=2, checkpoint_schema=features
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"null",
        b"[1]",
        b'{"version":1',
        b'{"version":1,"size":1,"size":1}',
        b'{"version":1,"size":1,"tags":{"a":"x","a":"x"}}',
        b'{"version":1,"size":NaN}',
        b'{"version":1,"size":1,"tags":{"a":"\\ud800"},"checksum":"x"}',
        b'{"version":1,"size":1,"checkpointSchema":' + b"[" * 1000 + b"]" * 1000 + b"}",
        b'{"version":1,"size":1,"checkpointSchema":' + b"[" * 100_000,
    ],
)
def test_what_is_not_sound_json_is_no_hint(data: bytes) -> None:
    assert parse_hint(data) is None


@pytest.mark.parametrize(
    "change",
    [
        {"version": None},
        {"version": "1"},
        {"version": True},
        {"version": 1.0},
        {"version": -1},
        {"version": 2**70},
        {"size": None},
        {"parts": 0},
        {"parts": "2"},
        {"sizeInBytes": []},
        {"numOfAddFiles": {}},
        {"tags": []},
        {"tags": {"a": 1}},
        {"v2Checkpoint": "x"},
        {"v2Checkpoint": {"sizeInBytes": 1, "modificationTime": 1}},
        {"v2Checkpoint": {"path": "x", "sizeInBytes": 1}},
        {"v2Checkpoint": {"path": "x", "sizeInBytes": 1, "modificationTime": 1, "sidecarFiles": 1}},
        {"checksum": "0" * 32},
        {"checksum": 5},
    ],
)
def test_a_field_that_breaks_the_protocol_makes_it_no_hint(change: dict[str, Any]) -> None:
    fields = {"version": 1, "size": 1} | change
    # orjson writes no integer past 64 bits
    data = str(fields).replace("'", '"').replace("None", "null").replace("True", "true")
    assert parse_hint(data.encode()) is None
