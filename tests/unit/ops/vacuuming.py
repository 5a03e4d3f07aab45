"""Tables with a clock of their own, for tests of what grows old."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tests.unit.log.small_table import Clock
from tests.unit.ops.changing import SCHEMA, Kind

from polylake.engine.local import LocalEngine
from polylake.log import CommitSettings, DeltaLog, TableOptions
from polylake.ops._target import Target
from polylake.ops._vacuum import vacuum
from polylake.ops._vacuum_plan import VacuumOptions
from polylake.storage import LocalStorage, MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from polylake.ops._vacuum import VacuumMetrics
    from polylake.schema import StructType
    from polylake.storage import Storage

HOUR_MS = 60 * 60 * 1000
DAY_MS = 24 * HOUR_MS


class TimedTable:
    """A table whose files are dated by ``clock``."""

    def __init__(
        self,
        kind: Kind = Kind(),  # noqa: B008 - frozen
        *,
        properties: Mapping[str, str] | None = None,
        schema: StructType = SCHEMA,
        root: Path | None = None,
    ) -> None:
        self.clock = Clock()
        self.root = root
        self.storage: Storage = (
            MemoryStorage(clock_ms=self.clock) if root is None else LocalStorage(root)
        )
        self.target = self.opened(self.storage)
        configuration = {**kind.properties, **(properties or {})}
        self.target.log.create(
            schema, TableOptions(partition_by=kind.partition_by, properties=configuration)
        )
        self.dated: set[Path] = set()

    def opened(
        self, storage: Storage, *, sleep: Callable[[float], object] = lambda _: None
    ) -> Target:
        """Return the table as another process would hold it."""
        settings = CommitSettings(clock_ms=self.clock, sleep=sleep)
        return Target(DeltaLog(storage, settings=settings), LocalEngine())

    def wait(self, hours: float) -> None:
        """Let time pass; files on disk that were written since are dated before it."""
        for path in [] if self.root is None else sorted(self.root.rglob("*")):
            if path.is_file() and path not in self.dated:
                os.utime(path, (self.clock.ms / 1000, self.clock.ms / 1000))
                self.dated.add(path)
        self.clock.ms += round(hours * HOUR_MS)

    def vacuum(self, retention_hours: float | None = None, **options: Any) -> VacuumMetrics:
        return vacuum(self.target, VacuumOptions(retention_hours=retention_hours, **options))

    def files(self) -> set[str]:
        """Return everything but the log and polylake's own."""
        keys = (info.key for info in self.storage.list())
        return {key for key in keys if not key.startswith(("_delta_log/", "_polylake/"))}


def paths(rows: Any) -> set[str]:
    """Return the paths of a part of a plan."""
    return set(rows["path"].to_pylist())


def reasons(rows: Any) -> dict[str, str]:
    """Return the reason of each file in a part of a plan."""
    return dict(zip(rows["path"].to_pylist(), rows["reason"].to_pylist(), strict=True))
