"""The tests' side of the S3-protocol server: start it, make buckets, order faults."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

from polylake.storage import Storage, open_storage

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCESS_KEY_ID = "AKIDTESTTESTTEST"
SECRET_ACCESS_KEY = "secret-of-the-test-account"


@dataclass(frozen=True)
class S3Server:
    """A running server."""

    url: str

    def bucket(self) -> str:
        """Create an empty bucket and return its name."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        self._call("PUT", f"/{name}")
        return name

    def open(self, bucket: str, prefix: str = "", **options: object) -> Storage:
        """Open a bucket of this server, with credentials and without retries unless given."""
        given = {
            "endpoint": self.url,
            "allow_http": True,
            "region": "us-east-1",
            "access_key_id": ACCESS_KEY_ID,
            "secret_access_key": SECRET_ACCESS_KEY,
            "max_retries": 0,
        }
        return open_storage(f"s3://{bucket}/{prefix}", **{**given, **options})

    def fault(self, method: str, path: str, **fields: object) -> None:
        """Order a fault; the fields are those of ``s3_process.Fault``."""
        body = json.dumps({"method": method, "path": path, **fields}).encode()
        self._call("POST", "/_faults", body)

    def refuse(self, method: str, path: str, status: str, code: str, **fields: object) -> None:
        """Answer the next such request with an S3 error document."""
        body = f"<Error><Code>{code}</Code><Message>said the server</Message></Error>"
        self.fault(method, path, status=status, body=body, **fields)

    def forget_faults(self) -> None:
        """Serve everything as it should be again."""
        self._call("DELETE", "/_faults")

    def requests(self, bucket: str) -> list[str]:
        """Return and forget the S3 requests made so far, those for ``bucket`` only."""
        requests: list[str] = json.loads(self._call("GET", "/_requests"))
        return [request for request in requests if f"/{bucket}" in request]

    def open_uploads(self, bucket: str) -> int:
        """Count the multipart uploads that were neither completed nor aborted."""
        return self._call("GET", f"/{bucket}?uploads").count(b"<UploadId>")

    def _call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        with urlopen(Request(self.url + path, data=body, method=method)) as answer:
            return bytes(answer.read())


@contextmanager
def running_s3() -> Iterator[S3Server]:
    """Run a server in a process of its own, on a free loopback port."""
    command = [sys.executable, str(Path(__file__).with_name("s3_process.py"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        try:
            port = process.stdout.readline().decode().strip()
            assert port, "the S3 test server did not start"
            yield S3Server(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
