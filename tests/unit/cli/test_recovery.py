"""``health``, ``doctor``, ``repair`` and ``checkpoint``."""

from __future__ import annotations

from tests.unit.cli.running import fails, json_of, ok, orders, run

from polylake import DeltaTable


def test_health_says_what_would_mend_a_table_and_exits_with_3(tmp_path):
    table = orders(tmp_path / "t")
    assert json_of("health", tmp_path / "t")["healthy"] is True
    for number in range(100):
        table.write([{"_id": 10 + number}])
    result = run("health", tmp_path / "t")
    assert result.exit_code == 3
    assert "polylake compact" in result.stdout
    table.compact()
    table.checkpoint()
    assert json_of("health", tmp_path / "t", "--deep")["severity"] == "ok"


def test_a_healthy_table_has_nothing_to_report(tmp_path):
    orders(tmp_path / "t")
    assert json_of("doctor", tmp_path / "t")["healthy"] is True
    assert "nothing to report" in ok("doctor", tmp_path / "t")


def test_doctor_exits_with_3_for_a_broken_table(tmp_path):
    table = orders(tmp_path / "t")
    table.write([{"_id": 4}])
    (tmp_path / "t/_delta_log/00000000000000000001.json").write_text("{")
    result = run("doctor", tmp_path / "t")
    assert result.exit_code == 3
    assert f"polylake repair {tmp_path / 't'} --allow-loss" in result.stdout
    assert '"kind":"CorruptCommitFound"' in run("doctor", tmp_path / "t", "--json").stdout


def test_repair_shows_its_plan_and_mends_if_it_may(tmp_path):
    table = orders(tmp_path / "t")
    table.write([{"_id": 4}])
    broken = tmp_path / "t/_delta_log/00000000000000000001.json"
    broken.write_text("{")
    repair = ("repair", tmp_path / "t")
    assert "pass --allow-loss" in run(*repair).stdout
    assert run(*repair).exit_code == 3
    plan = json_of(*repair, "--allow-loss", "--dry-run")
    assert len(plan["steps"]) == 1
    assert broken.exists()
    assert "end the table at version 0" in fails(*repair, "--allow-loss", code=2)
    done = json_of(*repair, "--allow-loss", "--yes")
    assert done["done"] == 1
    assert done["stopped"] is None
    assert DeltaTable(tmp_path / "t").count() == 3


def test_a_table_that_needs_no_repair_is_left_alone(tmp_path):
    orders(tmp_path / "t")
    assert json_of("repair", tmp_path / "t")["steps"] == []


def test_checkpoint_is_written_once(tmp_path):
    orders(tmp_path / "t")
    first = json_of("checkpoint", tmp_path / "t")
    assert (first["version"], first["reused"]) == (0, False)
    assert json_of("checkpoint", tmp_path / "t")["reused"] is True
    assert "found the checkpoint of version 0" in ok("checkpoint", tmp_path / "t")
