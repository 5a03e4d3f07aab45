from __future__ import annotations

import pytest

from polylake.errors import ValidationError
from polylake.log._names import (
    LOG_END,
    LOG_FOLDER,
    CheckpointName,
    ChecksumName,
    CommitName,
    CompactionName,
    checksum_key,
    classic_checkpoint_key,
    commit_key,
    compaction_key,
    decode_path,
    encode_absolute,
    encode_path,
    format_version,
    parse_log_name,
    parse_version,
    part_checkpoint_key,
    sidecar_key,
    v2_checkpoint_key,
)

UNIQUE = "80a083e8-7026-4e79-81be-64bd76c43a11"
V7 = "00000000000000000007"


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (commit_key(7), CommitName(7)),
        (checksum_key(7), ChecksumName(7)),
        (compaction_key(7, 9), CompactionName(7, 9)),
        (classic_checkpoint_key(7), CheckpointName(7)),
        (part_checkpoint_key(7, 2, 3), CheckpointName(7, part=2, parts=3)),
        (v2_checkpoint_key(7, UNIQUE, "json"), CheckpointName(7, unique=UNIQUE)),
        (v2_checkpoint_key(7, UNIQUE, "parquet"), CheckpointName(7, unique=UNIQUE)),
        (commit_key(2**63 - 1), CommitName(2**63 - 1)),
    ],
)
def test_a_key_is_parsed_to_what_made_it(key, name):
    assert parse_log_name(key.removeprefix(LOG_FOLDER)) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "_last_checkpoint",
        f"{V7}",
        f"{V7}.json.tmp",
        f".{V7}.json",
        f"{V7}.JSON",
        f"{V7[1:]}.json",
        f"0{V7}.json",
        "0000000000000000000x.json",
        "+0000000000000000007.json",
        "\u0660" * 20 + ".json",  # digits, but not those of ASCII
        f"{V7}.crc.json",
        f"{V7}.{V7}.compacted.json",
        f"{V7}.00000000000000000006.compacted.json",
        f"{V7}.8.compacted.json",
        f"{V7}.checkpoint.json",
        f"{V7}.checkpoint.parquet.tmp",
        f"{V7}.checkpoint.0000000000.0000000002.parquet",
        f"{V7}.checkpoint.0000000003.0000000002.parquet",
        f"{V7}.checkpoint.1.2.parquet",
        f"{V7}.checkpoint.0000000001.0000000002.json",
        f"{V7}.checkpoint.{UNIQUE[:-1]}.parquet",
        f"{V7}.checkpoint.{UNIQUE.replace('-', '')}.parquet",
        f"{V7}.checkpoint.{UNIQUE}.crc",
        f"{V7}.json\n",
        f"_staged_commits/{V7}.{UNIQUE}.json",
    ],
)
def test_what_is_nearly_a_name_is_ignored(name):
    assert parse_log_name(name) is None


@pytest.mark.parametrize("version", [-1, 2**63])
def test_what_is_no_version_is_refused(version):
    with pytest.raises(ValidationError, match=str(version)):
        format_version(version)


@pytest.mark.parametrize("text", ["", "7", "x" * 20, V7[1:], f"{V7}0.json", f"{V7}json"])
def test_a_name_without_a_version_is_refused(text):
    with pytest.raises(ValidationError, match="version"):
        parse_version(text)


def test_a_version_is_read_from_any_file_of_it():
    for key in (commit_key(7), checksum_key(7), part_checkpoint_key(7, 1, 2)):
        assert parse_version(key.removeprefix(LOG_FOLDER)) == 7


def test_keys_sort_by_version_and_below_the_end_of_the_log():
    keys = [commit_key(9), classic_checkpoint_key(10), commit_key(10), commit_key(2**63 - 1)]
    assert sorted(keys) == keys
    assert max(keys) < LOG_END < f"{LOG_FOLDER}_last_checkpoint"


@pytest.mark.parametrize(
    ("decoded", "encoded"),
    [
        ("day=1/part-0.parquet", "day=1/part-0.parquet"),
        ("a b", "a%20b"),
        ("100%", "100%25"),
        ("a%20b", "a%2520b"),
        ("t=10:00", "t=10%3A00"),
        ("größe/雪", "gr%C3%B6%C3%9Fe/%E9%9B%AA"),
        ("a+b#c?d", "a%2Bb%23c%3Fd"),
    ],
)
def test_a_path_is_encoded_as_a_uri_reference(decoded, encoded):
    assert encode_path(decoded) == encoded
    assert decode_path(encoded) == decoded


@pytest.mark.parametrize(
    ("decoded", "encoded"),
    [
        ("s3://bucket/a b:c", "s3://bucket/a%20b%3Ac"),
        ("/data/a b", "/data/a%20b"),
    ],
)
def test_an_absolute_path_keeps_its_scheme(decoded, encoded):
    assert encode_absolute(decoded) == encoded


def test_a_plus_is_a_plus():
    assert decode_path("a+b%2Bc") == "a+b+c"


def test_bytes_that_are_not_utf8_are_refused():
    with pytest.raises(ValidationError, match="UTF-8"):
        decode_path("a%ff")


@pytest.mark.parametrize(
    "path", ["a%20b.parquet", "s3://bucket/t/_delta_log/_sidecars/a%20b.parquet"]
)
def test_a_sidecar_is_found_by_its_name_alone(path):
    assert sidecar_key(path) == "_delta_log/_sidecars/a b.parquet"
