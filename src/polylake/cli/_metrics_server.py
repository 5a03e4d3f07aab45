"""Metrics and health over HTTP, for Prometheus and for probes."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from polylake.cli._text import to_json
from polylake.maintenance import prometheus_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from polylake.maintenance import MaintenanceManager

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_JSON = "application/json"


def serving(
    managers: Mapping[str, MaintenanceManager], host: str, port: int
) -> AbstractContextManager[str]:
    """Serve ``/metrics`` and ``/health`` of maintenance while a block runs; yields the address.

    Raises:
        OSError: the address cannot be had.
    """
    return serving_pages(lambda: _metrics(managers), lambda: _health(managers), host, port)


@contextmanager
def serving_pages(
    metrics: Callable[[], bytes], health: Callable[[], dict[str, Any]], host: str, port: int
) -> Iterator[str]:
    """Serve ``/metrics`` and ``/health`` while the block runs; yields the address.

    Args:
        metrics: gives the page for Prometheus.
        health: gives a document that says whether all is ``ok``.
        host: the address to serve at.
        port: its port; 0 for any that is free.

    Raises:
        OSError: the address cannot be had.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = 10  # seconds; a client that says nothing is not waited for longer

        def do_GET(self) -> None:
            match self.path.partition("?")[0]:
                case "/metrics":
                    self._answer(HTTPStatus.OK, _PROMETHEUS, metrics())
                case "/health":
                    facts = health()
                    status = HTTPStatus.OK if facts["ok"] else HTTPStatus.SERVICE_UNAVAILABLE
                    self._answer(status, _JSON, to_json(facts))
                case _:
                    self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"/metrics and /health\n")

        def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:  # noqa: ANN401 - the signature is the library's
            """Say nothing: each scrape would be a line."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="polylake-metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _metrics(managers: Mapping[str, MaintenanceManager]) -> bytes:
    pages = [(manager.metrics(), {"table": url}) for url, manager in managers.items()]
    return prometheus_page(pages).encode()


def _health(managers: Mapping[str, MaintenanceManager]) -> dict[str, Any]:
    """Say whether every manager is at work, and what it last failed at."""
    tables = {}
    for url, manager in managers.items():
        metrics = manager.metrics()
        tables[url] = {
            "running": manager.is_running,
            "is_leader": metrics.is_leader,
            "last_run_ms": metrics.last_run_ms,
            "failures": metrics.failures,
            "last_error": metrics.last_error,
        }
    return {"ok": all(table["running"] for table in tables.values()), "tables": tables}
