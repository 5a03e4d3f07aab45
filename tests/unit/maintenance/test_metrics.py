"""Counting what maintenance does, and telling monitoring systems."""

from __future__ import annotations

import re
import sys
import threading

import pytest

from polylake.errors import ValidationError
from polylake.maintenance._instruments import INSTRUMENTS
from polylake.maintenance._metrics import Durations, MaintenanceMetrics, MetricsCounter
from polylake.maintenance._otel import observe_metrics
from polylake.maintenance._prometheus import prometheus_page, to_prometheus

SAMPLE = re.compile(
    r'(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)*)\})?'
    r" (?P<value>[^ ]+)"
)
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"')
UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse(page: str) -> tuple[dict[str, str], Samples]:
    """Read a page as the format's documentation says, and return types and samples."""
    assert page.endswith("\n")
    types: dict[str, str] = {}
    helped: set[str] = set()
    samples: Samples = {}
    for line in page.splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in helped
            helped.add(name)
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types
            types[name] = kind
        else:
            found = SAMPLE.fullmatch(line)
            assert found, line
            assert list(types)[-1] == found["name"]
            labels = frozenset(
                (name, re.sub(r'\\[\\"n]', lambda m: UNESCAPED[m[0]], text))
                for name, text in LABEL.findall(found["labels"] or "")
            )
            assert (found["name"], labels) not in samples
            samples[found["name"], labels] = float(found["value"])
    assert helped == types.keys()
    return types, samples


METRICS = MaintenanceMetrics(
    compactions_run=3,
    bytes_before=2**40 + 1,
    durations={"compaction": Durations(1500, 250), "vacuum": Durations(20, 20)},
    last_run_ms=1_700_000_000_500,
    is_leader=True,
    pending_commits=7,
)


def test_counts_are_not_lost_between_threads() -> None:
    counter = MetricsCounter()

    def work() -> None:
        for _ in range(500):
            counter.add({"compactions_run": 1, "files_compacted": 4, "no such count": 1})
            counter.took("compaction", 2)
            counter.failed("x")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = counter.read(pending_commits=2)
    assert (found.compactions_run, found.files_compacted, found.failures) == (2000, 8000, 2000)
    assert found.durations == {"compaction": Durations(4000, 2)}
    assert (found.last_error, found.pending_commits) == ("x", 2)


def test_a_pass_is_recorded_with_its_time() -> None:
    counter = MetricsCounter()
    counter.leads(is_leader=True)
    counter.passed(5)
    found = counter.read()
    assert (found.passes_run, found.last_run_ms, found.is_leader) == (1, 5, True)


def test_a_page_can_be_parsed_and_holds_the_figures() -> None:
    types, samples = parse(to_prometheus(METRICS))
    nothing: frozenset[tuple[str, str]] = frozenset()
    assert samples["polylake_maintenance_compactions_total", nothing] == 3
    assert samples["polylake_maintenance_replaced_bytes_total", nothing] == 2**40 + 1
    assert samples["polylake_maintenance_is_leader", nothing] == 1
    assert samples["polylake_maintenance_pending_commits", nothing] == 7
    work = "polylake_maintenance_work_seconds_total"
    assert samples[work, frozenset({("kind", "compaction")})] == 1.5
    assert samples["polylake_maintenance_last_run_timestamp_seconds", nothing] == 1_700_000_000.5
    assert all(name.endswith("_total") == (kind == "counter") for name, kind in types.items())
    assert set(types.values()) == {"counter", "gauge"}


@pytest.mark.parametrize("text", ['a"b', "a\\b", "a\nb", "\\n", "é 表"])
def test_labels_are_escaped(text: str) -> None:
    _, samples = parse(to_prometheus(METRICS, {"table": text}))
    assert all(("table", text) in labels for _, labels in samples)


def test_tables_of_one_page_share_the_head_of_each_metric() -> None:
    page = prometheus_page([(METRICS, {"table": "a"}), (MaintenanceMetrics(), {"table": "b"})])
    _, samples = parse(page)
    name = "polylake_maintenance_compactions_total"
    found = [samples[name, frozenset({("table", table)})] for table in "ab"]
    assert found == [3, 0]


@pytest.mark.parametrize("name", ["", "1a", "a-b", "__name__", "kind", "a\n", "é"])
def test_a_label_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="cannot be a label"):
        to_prometheus(METRICS, {name: "x"})


def test_opentelemetry_collects_the_figures() -> None:
    sdk = pytest.importorskip(
        "opentelemetry.sdk.metrics", reason="opentelemetry-sdk is not installed"
    )
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: PLC0415 - as above

    reader = InMemoryMetricReader()
    provider = sdk.MeterProvider(metric_readers=[reader])
    observe_metrics(
        lambda: METRICS, meter=provider.get_meter("test"), attributes={"table": "events"}
    )
    data = reader.get_metrics_data()
    found = {
        (metric.name, point.attributes.get("kind")): point.value
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
        if point.attributes["table"] == "events"
    }
    provider.shutdown()
    assert found["polylake.maintenance.compactions", None] == 3
    assert found["polylake.maintenance.work", "compaction"] == 1.5
    assert found["polylake.maintenance.is_leader", None] == 1
    assert {name.rpartition(".")[2] for name, _ in found} == {one.name for one in INSTRUMENTS}


def test_without_opentelemetry_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ValidationError, match="pip install opentelemetry-api"):
        observe_metrics(lambda: METRICS)
