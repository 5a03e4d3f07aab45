"""The two ways a file is reached: by its path on this machine, and through a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from polylake.storage import LocalStorage, MemoryStorage

if TYPE_CHECKING:
    from pathlib import Path

    from polylake.storage import Storage


@pytest.fixture
def local(tmp_path: Path) -> Storage:
    return LocalStorage(tmp_path)


@pytest.fixture(params=["local", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return LocalStorage(tmp_path) if request.param == "local" else MemoryStorage()
