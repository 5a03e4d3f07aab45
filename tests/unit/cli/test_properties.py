"""``set`` and ``unset``."""

from __future__ import annotations

from tests.unit.cli.running import fails, json_of, ok, orders, run

RETENTION = "delta.logRetentionDuration"


def test_properties_are_set_and_removed(tmp_path):
    table = orders(tmp_path / "t")
    done = json_of("set", tmp_path / "t", f"{RETENTION}=interval 9 days", "owner=ops")
    assert done["properties"] == {RETENTION: "interval 9 days", "owner": "ops"}
    assert (done["version"], done["enabled"]) == (1, [])
    assert json_of("unset", tmp_path / "t", RETENTION)["properties"] == {"owner": "ops"}
    assert "is not set" in fails("unset", tmp_path / "t", RETENTION, code=1)
    assert "version 3" in ok("unset", tmp_path / "t", RETENTION, "owner", "--if-exists")
    assert table.refresh().metadata.configuration == {}


def test_a_property_that_locks_clients_out_needs_a_word(tmp_path):
    orders(tmp_path / "t")
    wanted = ("set", tmp_path / "t", "delta.enableDeletionVectors=true")
    assert "polylake set --feature deletionVectors adds it" in fails(*wanted, code=1)
    result = run(*wanted, "--feature", "deletionVectors")
    assert result.exit_code == 0
    assert "can no longer write" in result.stderr
    assert "set delta.enableDeletionVectors; version 2" in result.stdout
    assert json_of("set", tmp_path / "t", "--feature", "appendOnly")["version"] == 2


def test_what_is_no_property_is_refused(tmp_path):
    orders(tmp_path / "t")
    assert "NAME=VALUE" in fails("set", tmp_path / "t", "owner", code=2)
    assert "NAME=VALUE" in fails("set", tmp_path / "t", code=2)
    assert "there is no Delta table" in fails("set", tmp_path / "none", "a=b", code=1)
