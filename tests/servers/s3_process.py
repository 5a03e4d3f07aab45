"""An S3-protocol server for tests, run in its own process: ``python s3_process.py``.

Prints its port on the first line and serves until it is stopped. Beside S3 it answers three paths
of its own (no bucket name may start with ``_``):

    POST /_faults    add one fault, a JSON object with the fields of ``Fault``
    DELETE /_faults  forget every fault
    GET /_requests   the S3 requests so far, a JSON list of "METHOD /path?query"; then forget them
"""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

Environ = dict[str, Any]
StartResponse = Callable[..., Any]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What to do with the next ``times`` requests of ``method`` whose path holds ``path``."""

    method: str
    path: str
    times: int = 1
    lands: bool = False
    """Whether the request is carried out before the fault strikes."""
    delay_s: float = 0
    drop: bool = False
    """Close the connection without an answer."""
    status: str = ""
    body: str = ""
    strip_header: str = ""
    """Carry the request out as if it did not have this header."""
    query: str = ""


class FaultyS3:
    """moto's WSGI application behind a lock and a list of faults."""

    def __init__(self) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        # moto looks for the object and then stores it: without the lock two threads can both
        # win a put with If-None-Match, which no S3 service lets happen.
        self._one_at_a_time = threading.Lock()
        self._state = threading.Lock()
        self._faults: list[Fault] = []
        self._requests: list[str] = []

    def __call__(self, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith("/_"):
            return self._control(environ, start)
        query = environ.get("QUERY_STRING", "")
        with self._state:
            request = f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}"
            self._requests.append(f"{request}?{query}" if query else request)
        fault = self._take_fault(environ["REQUEST_METHOD"], environ["PATH_INFO"], query)
        return self._serve(environ, start) if fault is None else self._fail(fault, environ, start)

    def _serve(self, environ: Environ, start: StartResponse) -> list[bytes]:
        with self._one_at_a_time:
            return [b"".join(self._app(environ, start))]

    def _fail(self, fault: Fault, environ: Environ, start: StartResponse) -> list[bytes]:
        # Read first: closing a socket with unread bytes resets it before an answer arrives.
        if fault.lands:
            self._serve(environ, lambda *_: None)
        elif fault.drop or fault.status:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        time.sleep(fault.delay_s)
        if fault.strip_header:
            environ.pop(f"HTTP_{fault.strip_header.upper().replace('-', '_')}", None)
        if fault.drop:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        if not fault.drop and not fault.status:
            return self._serve(environ, start)
        body = fault.body.replace("{authorization}", environ.get("HTTP_AUTHORIZATION", ""))
        return _answer(start, fault.status or "500 Dropped", body)

    def _take_fault(self, method: str, path: str, query: str) -> Fault | None:
        with self._state:
            for index, fault in enumerate(self._faults):
                if fault.method == method and fault.path in path and fault.query in query:
                    left = replace(fault, times=fault.times - 1)
                    self._faults[index : index + 1] = [left] if left.times else []
                    return fault
        return None

    def _control(self, environ: Environ, start: StartResponse) -> list[bytes]:
        with self._state:
            match environ["REQUEST_METHOD"], environ["PATH_INFO"]:
                case "POST", "/_faults":
                    body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
                    self._faults.append(Fault(**json.loads(body)))
                    return _answer(start, "200 OK", "")
                case "DELETE", "/_faults":
                    self._faults.clear()
                    return _answer(start, "200 OK", "")
                case "GET", "/_requests":
                    requests, self._requests = self._requests, []
                    return _answer(start, "200 OK", json.dumps(requests))
                case _:
                    return _answer(start, "404 Not Found", "")


def _answer(start: StartResponse, status: str, body: str) -> list[bytes]:
    start(status, [("Content-Length", str(len(body.encode())))])
    return [body.encode()]


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = make_server("127.0.0.1", 0, FaultyS3(), threaded=True)
    print(server.port, flush=True)  # noqa: T201 - the parent process reads the port here
    server.serve_forever()


if __name__ == "__main__":
    main()
