"""``maintain``."""

from __future__ import annotations

import json
import re
import signal
from subprocess import PIPE
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from tests.unit.cli.running import fails, lines_of, start
from tests.unit.cli.test_maintenance import many_files

from polylake import DeltaTable

PATIENCE_S = 60


def test_once_does_what_is_due(tmp_path):
    many_files(tmp_path / "a")
    many_files(tmp_path / "b")
    done = lines_of("maintain", tmp_path / "a", tmp_path / "b", "--once")
    ran = {(entry["table"], entry["kind"]) for entry in done if entry["outcome"] == "ran"}
    assert {(DeltaTable(tmp_path / name).url, "compaction") for name in "ab"} <= ran
    assert DeltaTable(tmp_path / "a").snapshot().totals.num_files == 1


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        (["--set", "colour=red"], 1, "colour"),
        (["--set", "colour"], 2, "NAME=VALUE"),
        (["--metrics-port", "70000"], 2, "--metrics-port"),
    ],
)
def test_maintain_refuses_what_makes_no_sense(tmp_path, options, code, complaint):
    many_files(tmp_path / "t")
    assert complaint in fails("maintain", tmp_path / "t", "--once", *options, code=code)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_daemon_works_is_watched_and_stops_when_told(tmp_path, number, code):
    many_files(tmp_path / "t")
    daemon = start(
        "maintain", tmp_path / "t", "--metrics-port", "0", "--json", stdout=PIPE, stderr=PIPE
    )
    assert daemon.stdout is not None
    assert daemon.stderr is not None
    address = re.search(rb"http://[\d.:]+", daemon.stderr.readline())
    assert address is not None
    first = json.loads(daemon.stdout.readline())
    assert first["outcome"] == "ran"
    with urlopen(f"{address[0].decode()}/metrics") as answer:
        page = answer.read().decode()
    assert re.search(r'^polylake_maintenance_\w+\{table="file:///', page, re.MULTILINE)
    with urlopen(f"{address[0].decode()}/health") as answer:
        assert json.load(answer)["ok"] is True
    with pytest.raises(HTTPError, match="404") as refused:
        urlopen(f"{address[0].decode()}/nothing")
    refused.value.close()
    daemon.send_signal(number)
    assert daemon.wait(PATIENCE_S) == code
    assert b"Traceback" not in daemon.stderr.read()
    daemon.stdout.close()
    daemon.stderr.close()
    assert DeltaTable(tmp_path / "t").count() == 10
