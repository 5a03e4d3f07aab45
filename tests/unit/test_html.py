"""What notebooks show."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser

import pytest
from tests.unit.cli.running import orders

from polylake import DeltaTable
from polylake._html import ShownAsTable, ShownAsText, facts_html, grid_html
from polylake.maintenance import MaintenanceManager, health

NASTY = "<script>alert('&')</script>"


def shown(value: object) -> str:
    """Return the text of what a notebook shows, having looked that its tags are in order."""
    page = value._repr_html_()  # type: ignore[attr-defined]  # what notebooks ask for
    open_tags: list[str] = []
    text: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attributes):
            assert tag not in {"script", "style", "link", "img", "iframe"}
            assert {name for name, _ in attributes} <= {"style", "colspan"}
            assert "color" not in dict(attributes).get("style", "")
            if tag != "br":
                open_tags.append(tag)

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

        def handle_data(self, data):
            text.append(data)

    Reader(convert_charrefs=True).feed(page)
    assert not open_tags
    return " | ".join(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(ShownAsText):
    lines: int

    def __str__(self):
        return "\n".join(f"line {n} {NASTY}" for n in range(self.lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics(ShownAsTable):
    files_removed: int = 0
    bytes_freed: int = 1536
    avg_file_size: float = 2048.5
    bytes_per_second: float = 1024
    rows_per_second: float = 12345.6
    duration_ms: int = 200_000
    last_run_ms: int = 0
    rate: float = 0.123456
    missing: int | None = None
    none: tuple[str, ...] = ()
    applied: bool = True
    errors: dict[str, str]
    plan: Plan


def test_values_are_shown_as_their_names_say():
    text = shown(Metrics(errors={NASTY: NASTY}, plan=Plan(lines=60)))
    for claim in (
        "files removed | 0",
        "bytes freed | 1.5 KiB",
        "avg file size | 2.0 KiB",
        "bytes per second | 1.0 KiB/s",
        "rows per second | 12,346/s",
        "duration | 3 min 20 s",
        "last run | 1970-01-01 00:00:00 UTC",
        "rate | 0.123",
        "applied | yes",
        f"errors | {NASTY}: {NASTY}",
        f"plan | line 0 {NASTY}",
        "… and 20 lines more",
    ):
        assert claim in text
    assert "missing" not in text
    assert "none" not in text


def test_long_values_are_cut():
    assert "… and 90 more" in facts_html("t", {"many": [str(n) for n in range(100)]})
    assert "… and 450 more" in grid_html(("a",), ([n] for n in range(500)))
    assert len(facts_html("t", {"long": "x" * 10_000})) < 1_000


def test_a_table_shows_what_it_is_and_its_columns(tmp_path):
    table = orders(
        tmp_path / "t",
        partition_by=["user"],
        properties={"note": NASTY},
    )
    text = shown(table)
    assert f"{table.url} at version 0" in text
    assert "files | 2" in text
    assert "partitioned by | user" in text
    assert f"note: {NASTY}" in text
    assert "_id | long" in text
    assert shown(table.snapshot()) == text
    table.delete()
    assert shown(table.at(version=0)) == text


def test_a_table_that_is_not_there_says_so(tmp_path):
    assert "there is no Delta table" in shown(DeltaTable(tmp_path / "t"))
    assert not (tmp_path / "t").exists()


def test_showing_reads_no_data_file(tmp_path):
    table = orders(tmp_path / "t")
    for file in (tmp_path / "t").glob("*.parquet"):
        file.unlink()
    assert "version 0" in shown(table)
    assert "files | 0 of 1" in shown(table.scan({"amount": {"$gt": 1000}}))
    assert "version 0" in shown(table.plan({"amount": {"$gt": 1000}}))


def test_a_scan_shows_what_it_would_read(tmp_path):
    table = orders(tmp_path / "t", partition_by=["user"])
    text = shown(table.scan({"user": "bob"}, columns=["amount"]))
    assert "files | 1 of 2" in text
    assert "columns | amount" in text
    assert re.search(r"cannot match \| .*user.*: 1", text)
    assert "no operator $gtt" in shown(table.scan({"amount": {"$gtt": 1}}))


CALLS = {
    "write": (lambda t: t.write([{"_id": 4}]), "rows | 1"),
    "delete": (lambda t: t.delete({"_id": 1}), "rows deleted | 1"),
    "update": (lambda t: t.update({"_id": 1}, {"$set": {"amount": 1}}), "rows updated | 1"),
    "upsert": (lambda t: t.upsert([{"_id": 1, "amount": 1}], on="_id"), "rows updated | 1"),
    "restore": (lambda t: t.restore(version=0), "restored version | 0"),
    "compact": (lambda t: t.compact(dry_run=True), "dry run | yes"),
    "compact plan": (lambda t: t.compact(dry_run=True).plan, "CompactPlan"),
    "cluster": (lambda t: t.cluster(["amount"], dry_run=True), "dry run | yes"),
    "cluster plan": (lambda t: t.cluster(["amount"], dry_run=True).plan, "ClusterPlan"),
    "deduplicate": (lambda t: t.deduplicate("_id"), "duplicates removed | 0"),
    "deduplicate plan": (lambda t: t.deduplicate("_id").plan, "DeduplicatePlan"),
    "vacuum": (lambda t: t.vacuum(dry_run=True), "bytes freed | 0 bytes"),
    "vacuum plan": (lambda t: t.vacuum(dry_run=True).plan, "VacuumPlan"),
    "clean log": (lambda t: t.clean_log(dry_run=True), "deleted files | 0"),
    "checkpoint": (lambda t: t.checkpoint(), "num actions | 3"),
    "detail": (lambda t: t.detail(), "num files | 1"),
    "plan": (lambda t: t.plan(), "read 1 of 1 files"),
    "maintenance": (lambda t: MaintenanceManager(t).metrics(), "failures | 0"),
    "health": (health, "ok | checkpoint"),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_plans_and_metrics_are_shown(tmp_path, name):
    call, claim = CALLS[name]
    assert claim in shown(call(orders(tmp_path / "t")))
