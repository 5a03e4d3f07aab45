"""Commit files against their inverse, and damaged ones against the standard library's JSON."""

from __future__ import annotations

import contextlib
import json

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.strategies_actions import actions, json_values

from polylake.errors import CorruptCommit
from polylake.log._commit_file import (
    ACTION_COUNT,
    CommitInfo,
    parse_commit,
    read_rows,
    serialise_commit,
)
from polylake.log._names import decode_path, encode_absolute, encode_path

KINDS = ("add", "remove", "cdc", "metaData", "protocol", "txn", "domainMetadata", "commitInfo")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_decoding_gives_back_the_path_that_was_encoded(path: str) -> None:
    encoded = encode_path(path)
    assert decode_path(encoded) == path
    assert encoded.isascii()
    assert not set(encoded) & set(" :?#[]@!$&'()*+,;\"<>\\^`{|}")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_an_encoded_url_keeps_its_scheme(path: str) -> None:
    encoded = encode_absolute(f"s3://{path}")
    assert encoded.startswith("s3://")
    assert decode_path(encoded) == f"s3://{path}"


@given(st.lists(actions, min_size=1, max_size=5))
def test_parsing_gives_back_the_actions_that_were_written(commit: list) -> None:
    assert parse_commit(serialise_commit(commit)) == commit


@given(st.lists(actions, min_size=1, max_size=5))
def test_every_action_takes_one_line(commit: list) -> None:
    assert serialise_commit(commit).count(b"\n") == len(commit)


@given(st.sampled_from(KINDS), json_values)
def test_an_action_of_any_shape_is_read_or_refused(kind: str, body: object) -> None:
    data = orjson.dumps({kind: body})
    try:
        found = parse_commit(data)
    except CorruptCommit:
        return
    assert parse_commit(serialise_commit(found)) == found


@given(st.data(), st.lists(actions, min_size=1, max_size=3))
def test_a_field_of_any_type_is_read_or_refused(data: st.DataObject, commit: list) -> None:
    rows = [orjson.loads(line) for line in serialise_commit(commit).splitlines()]
    body = next(iter(data.draw(st.sampled_from(rows)).values()))
    if body:
        body[data.draw(st.sampled_from(sorted(body)))] = data.draw(json_values)
    damaged = b"\n".join(orjson.dumps(row) for row in rows)
    try:
        found = parse_commit(damaged)
    except CorruptCommit:
        return
    assert parse_commit(serialise_commit(found)) == found


@settings(max_examples=200)
@given(st.lists(actions, min_size=1, max_size=3), st.data())
def test_damaged_bytes_are_refused_or_mean_what_they_say(commit: list, data: st.DataObject) -> None:
    """A flipped bit that leaves JSON behind cannot be told; then the JSON is taken at its word."""
    whole = bytearray(serialise_commit(commit))
    position = data.draw(st.integers(0, len(whole) - 1))
    whole[position] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = read_rows(bytes(whole), source="x")
    except CorruptCommit:
        return
    lines = [
        json.loads(line, parse_int=_whole_number)
        for line in bytes(whole).split(b"\n")
        if line.strip()
    ]
    said = [(kind, body) for line in lines for kind, body in line.items() if body is not None]
    assert [(kind, body) for _, kind, body in found] == [
        (kind, body) for kind, body in said if isinstance(body, dict)
    ]


@given(st.lists(actions.filter(lambda a: not isinstance(a, CommitInfo)), max_size=4), st.data())
def test_a_counted_commit_is_never_read_in_part(commit: list, data: st.DataObject) -> None:
    info = CommitInfo({ACTION_COUNT: len(commit) + 1})
    whole = serialise_commit([info, *commit])
    cut = data.draw(st.integers(0, len(whole) - 2))  # without its last newline it is still whole
    try:
        found = parse_commit(whole[:cut])
    except CorruptCommit:
        return
    raise AssertionError(found)


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_hold_actions(data: bytes) -> None:
    with contextlib.suppress(CorruptCommit):
        assert read_rows(data, source="x")


def _whole_number(text: str) -> float:
    """Read a number past 64 bits as a float, which is then refused where an integer is due."""
    number = int(text)
    return number if -(2**63) <= number < 2**64 else float(text)
