"""Fixtures that more than one test package uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.servers.s3 import S3Server, running_s3

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def s3_process() -> Iterator[S3Server]:
    """Start one S3-protocol server for the whole run."""
    with running_s3() as server:
        yield server


@pytest.fixture
def s3_server(s3_process: S3Server) -> Iterator[S3Server]:
    """Lend the S3-protocol server to one test; faults do not outlive it."""
    yield s3_process
    s3_process.forget_faults()
