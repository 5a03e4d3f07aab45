"""``compact``, ``cluster``, ``dedupe``, ``vacuum`` and ``clean-log``."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, get_args, get_type_hints

import pytest
from tests.spark import spark_session
from tests.unit.cli.running import fails, json_of, ok

from polylake import DeltaTable
from polylake.cli import _cleaning, _layout
from polylake.cli._session import parse_size
from polylake.engine import Curve
from polylake.ops import Strategy, VacuumMode
from polylake.ops._duplicates import Keep

if TYPE_CHECKING:
    from pathlib import Path

OLD_S = 40 * 24 * 3600


def many_files(path: Path) -> DeltaTable:
    """Make a table of five small files."""
    table = DeltaTable(path)
    for number in range(5):
        table.write([{"id": number, "x": number % 2}, {"id": number + 10, "x": 1}])
    return table


def age(path: Path) -> None:
    """Make every file look old."""
    then = time.time() - OLD_S
    for file in path.rglob("*"):
        os.utime(file, (then, then))


@pytest.mark.parametrize(
    ("function", "parameter", "kinds"),
    [
        (_layout.compact, "strategy", Strategy),
        (_layout.cluster, "curve", Curve),
        (_layout.dedupe, "keep", Keep),
        (_cleaning.vacuum, "mode", VacuumMode),
    ],
)
def test_choices_are_those_of_the_library(function, parameter, kinds):
    assert set(get_args(get_type_hints(function)[parameter])) == {*kinds}


def test_compact_merges_files(tmp_path):
    table = many_files(tmp_path / "t")
    plan = json_of("compact", tmp_path / "t", "--dry-run")
    assert (plan["dry_run"], plan["commit_version"]) == (True, None)
    assert table.refresh().version == 4
    done = json_of("compact", tmp_path / "t", "--verify", "--sort-by", "id")
    assert (done["files_compacted"], done["files_created"]) == (5, 1)
    assert table.refresh().count() == 10


def test_compact_says_what_it_did(tmp_path):
    many_files(tmp_path / "t")
    assert "merged 5 files" in ok("compact", tmp_path / "t")


def test_cluster_brings_rows_together(tmp_path):
    table = many_files(tmp_path / "t")
    assert json_of("cluster", tmp_path / "t", "id,x", "--dry-run")["dry_run"] is True
    done = json_of("cluster", tmp_path / "t", "id,x", "--curve", "z-order")
    assert (done["files_clustered"], done["rows_written"]) == (5, 10)
    assert table.refresh().count() == 10
    assert json_of("cluster", tmp_path / "t", "id,x", "--curve", "z-order")["rows_written"] == 0
    assert "clustered 10 rows" in ok("cluster", tmp_path / "t", "id,x", "--full")


def test_dedupe_shows_what_it_would_remove_and_removes_if_it_may(tmp_path):
    table = DeltaTable(tmp_path / "t")
    table.write([{"id": 1, "v": 1}, {"id": 1, "v": 2}, {"id": 2, "v": 3}])
    dedupe = ("dedupe", tmp_path / "t", "--on", "id", "--keep", "latest", "--order-by", "v")
    assert json_of(*dedupe, "--dry-run")["duplicates_removed"] == 1
    assert "remove 1 duplicate" in fails(*dedupe, code=2)
    assert table.refresh().version == 0
    assert json_of(*dedupe, "--yes")["version"] == 1
    assert table.refresh().query(sort="id") == [{"id": 1, "v": 2}, {"id": 2, "v": 3}]
    assert json_of(*dedupe)["duplicates_removed"] == 0


def test_vacuum_deletes_what_no_version_needs(tmp_path):
    table = many_files(tmp_path / "t")
    (tmp_path / "t/orphan.parquet").write_bytes(b"rows")
    age(tmp_path / "t")
    plan = json_of("vacuum", tmp_path / "t", "--dry-run")
    assert [file["path"] for file in plan["doomed"]] == ["orphan.parquet"]
    assert "delete orphan.parquet" in ok("vacuum", tmp_path / "t", "--dry-run")
    assert "orphan.parquet" in fails("vacuum", tmp_path / "t", code=2)
    assert (tmp_path / "t/orphan.parquet").exists()
    done = json_of("vacuum", tmp_path / "t", "--yes")
    assert (done["files_deleted"], done["bytes_freed"]) == (1, 4)
    assert table.count() == 10
    assert "deleted 0 files" in ok("vacuum", tmp_path / "t")


def test_clean_log_deletes_old_commits(tmp_path):
    table = many_files(tmp_path / "t")
    table.checkpoint()
    table.write([{"id": 99}])
    age(tmp_path / "t/_delta_log")
    clean = ("clean-log", tmp_path / "t", "--keep-versions", "1")
    doomed = json_of(*clean, "--dry-run")["doomed"]
    assert "_delta_log/00000000000000000000.json" in doomed
    assert "files of the log" in fails(*clean, code=2)
    assert json_of(*clean, "--yes")["deleted_files"] == len(doomed)
    assert DeltaTable(tmp_path / "t").count() == 11


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["compact", "--strategy", "best"], 2, "--strategy"),
        (["compact", "--target-size", "large"], 2, "a size such as 128MiB"),
        (["compact", "--memory", "1"], 1, "--memory"),
        (["compact", "--where", "{"], 2, "--where is not JSON"),
        (["compact", "--where", '{"id": 1}'], 1, "partition"),
        (["compact", "--sort-by", "nothing"], 1, "nothing"),
        (["compact", "--min-files", "0"], 2, "--min-files"),
        (["cluster"], 2, "COLUMNS"),
        (["cluster", ""], 1, "1 to 8 columns"),
        (["cluster", "nothing"], 1, "nothing"),
        (["cluster", "id", "--curve", "peano"], 2, "--curve"),
        (["dedupe", "--on", "nothing", "--yes"], 1, "nothing"),
        (["dedupe", "--keep", "latest", "--yes"], 1, "--order-by"),
        (["dedupe", "--keep", "some"], 2, "--keep"),
        (["vacuum", "--retention-hours", "0.5", "--yes"], 1, "at least one hour"),
        (["vacuum", "--retention-hours", "soon"], 2, "--retention-hours"),
        (["vacuum", "--mode", "deep"], 2, "--mode"),
        (["clean-log", "--keep-versions", "0"], 2, "--keep-versions"),
    ],
)
def test_what_makes_no_sense_changes_nothing(tmp_path, arguments, code, complaint):
    table = many_files(tmp_path / "t")
    command, *others = arguments
    assert complaint in fails(command, tmp_path / "t", *others, code=code)
    assert table.refresh().version == 4


@pytest.mark.parametrize("command", ["compact", "dedupe", "vacuum", "clean-log", "maintain"])
def test_a_table_that_is_not_there_cannot_be_maintained(tmp_path, command):
    assert "there is no Delta table" in fails(command, tmp_path / "t", code=1)


@pytest.mark.parametrize(
    ("text", "count"), [("1000", 1000), ("1kb", 1024), ("1.5 MiB", 1572864), ("2G", 2 << 30)]
)
def test_sizes_are_read_as_people_write_them(text, count):
    assert parse_size(text, "--size") == count


def test_spark_does_the_work_where_it_is_asked_to(tmp_path):
    spark_session()
    table = many_files(tmp_path / "t")
    done = json_of("compact", tmp_path / "t", "--engine", "spark")
    assert (done["files_compacted"], done["files_created"]) == (5, 1)
    gone = json_of("delete", tmp_path / "t", '{"x": 0}', "--yes", "--engine", "spark")
    assert gone["rows_deleted"] == 3
    changed = json_of("update", tmp_path / "t", "{}", '{"$inc": {"x": 1}}', "--engine", "spark")
    assert changed["rows_updated"] == 7
    assert table.refresh().distinct("x") == [2]


def test_a_master_without_spark_is_refused(tmp_path):
    many_files(tmp_path / "t")
    assert "--engine spark" in fails("compact", tmp_path / "t", "--master", "local[2]", code=2)
