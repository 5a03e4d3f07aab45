"""``show``, ``history`` and ``files``."""

from __future__ import annotations

import pytest
from tests.unit.cli.running import fails, json_of, lines_of, ok, orders

from polylake import DeltaTable
from polylake.log import Protocol, commit_key, serialise_commit


def test_show_gives_the_facts_of_a_table(tmp_path):
    table = orders(tmp_path / "t", partition_by=["user"])
    facts = json_of("show", tmp_path / "t")
    assert facts["url"] == table.url
    assert (facts["version"], facts["files"], facts["rows"]) == (0, 2, 3)
    assert facts["partition_columns"] == ["user"]
    assert [field["name"] for field in facts["schema"]["fields"]] == list(table.schema.names)
    assert facts["protocol"]["min_reader_version"] == 1
    assert facts["audience"]["readers"] == "every Delta reader"


def test_show_is_for_people(tmp_path):
    orders(tmp_path / "t", properties={"delta.appendOnly": "true"})
    shown = ok("show", tmp_path / "t")
    assert "3 rows in 1 file" in shown
    assert "tags" in shown
    assert "array<string>" in shown
    assert "delta.appendOnly" in shown


def test_show_counts_rows_without_those_that_are_deleted(tmp_path):
    table = orders(tmp_path / "t", properties={"delta.enableDeletionVectors": "true"})
    table.delete({"_id": 1})
    facts = json_of("show", tmp_path / "t")
    assert facts["rows"] == 2
    assert facts["audience"]["readers"].startswith("readers that know deletionVectors")
    assert json_of("show", tmp_path / "t", "--at", "0")["rows"] == 3


def test_show_tells_a_table_that_polylake_cannot_write(tmp_path):
    table = orders(tmp_path / "t")
    protocol = Protocol(
        min_reader_version=1, min_writer_version=7, writer_features=("icebergCompatV1",)
    )
    table.target.storage.put_if_absent(commit_key(1), serialise_commit([protocol]))
    said = json_of("show", tmp_path / "t")["audience"]
    assert said["polylake"] == "reads it, but cannot write it: it does not have icebergCompatV1"


@pytest.mark.parametrize("command", ["show", "history", "files", "query", "checkpoint", "doctor"])
def test_a_table_that_is_not_there_is_an_error(tmp_path, command):
    said = fails(command, tmp_path / "t", code=1)
    assert "there is no Delta table" in said
    assert "polylake init" in said


def test_history_lists_commits_newest_first(tmp_path):
    table = orders(tmp_path / "t", user_metadata="first")
    table.delete({"_id": 1})
    entries = lines_of("history", tmp_path / "t")
    assert [entry["operation"] for entry in entries] == ["DELETE", "WRITE"]
    assert entries[1]["user_metadata"] == "first"
    assert entries[0]["timestamp"].endswith("Z")
    assert len(lines_of("history", tmp_path / "t", "--limit", "1")) == 1
    assert len(lines_of("history", tmp_path / "t", "--limit", "1", "--all")) == 2
    shown = ok("history", tmp_path / "t").splitlines()
    assert shown[1].split()[0] == "1"


def test_files_are_listed_and_narrowed(tmp_path):
    orders(tmp_path / "t", partition_by=["user"])
    assert sum(file["rows"] for file in lines_of("files", tmp_path / "t")) == 3
    (found,) = lines_of("files", tmp_path / "t", '{"user": "bob"}')
    assert found["partition"] == {"user": "bob"}
    assert (tmp_path / "t" / found["path"]).stat().st_size == found["bytes"]
    assert found["path"] in ok("files", tmp_path / "t")


def test_storage_options_reach_the_store(tmp_path):
    said = fails("show", tmp_path / "t", "--option", "region=eu-west-1", code=1)
    assert "means nothing for a file store" in said
    assert "unknown option" in fails("show", "s3://b/t", "-o", "colour=red", code=1)
    assert "NAME=VALUE" in fails("show", tmp_path / "t", "--option", "region", code=2)
    assert "takes a number" in fails("show", "s3://b/t", "-o", "max_retries=many", code=2)
    assert "must be True or False" in fails("show", "s3://b/t", "-o", "allow_http=maybe", code=1)


def test_a_table_on_s3_can_be_shown(s3_server):
    bucket = s3_server.bucket()
    DeltaTable(s3_server.open(bucket, "t")).write([{"a": 1}])
    given = {"endpoint": s3_server.url, "allow_http": "true", "region": "us-east-1"}
    given |= {"access_key_id": "x", "secret_access_key": "x", "max_retries": "1"}
    options = [f"--option={name}={value}" for name, value in given.items()]
    assert json_of("show", f"s3://{bucket}/t", *options)["rows"] == 1
