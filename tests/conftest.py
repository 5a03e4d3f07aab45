"""Fixtures that more than one test package uses."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from tests.servers.s3 import S3Server, running_s3

if TYPE_CHECKING:
    from collections.abc import Iterator

# A busy machine is no reason for an example to fail. CI tries the same examples each time, so that
# a change is judged by what it changes; by hand, every run looks for new ones.
settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


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
