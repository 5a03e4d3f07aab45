"""What every operation works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polylake.engine import FrameKind, Layout
from polylake.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from polylake.engine import Engine
    from polylake.log import DeltaLog, Snapshot
    from polylake.storage import Storage

DEFAULT_MEMORY_BYTES = 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Target:
    """A table's log, the engine that works on its files, and the memory it may take."""

    log: DeltaLog
    engine: Engine[Any]
    memory_bytes: int = DEFAULT_MEMORY_BYTES
    """About how much an operation that rewrites rows may hold at once."""

    @property
    def storage(self) -> Storage:
        """Where the table is."""
        return self.log.storage

    @property
    def reader(self) -> Engine[pl.LazyFrame]:
        """What reads rows that are wanted on this machine, where a cluster's would have to come."""
        if self.engine.frames is FrameKind.POLARS:
            return self.engine
        # Deferred: imports Polars, which is slow to import.
        from polylake.engine.local import LocalEngine  # noqa: PLC0415

        return LocalEngine(memory_bytes=self.memory_bytes // 4)

    def fresh(self) -> Snapshot:
        """Return the table at its latest version.

        Raises:
            LogError: the table is not there or cannot be read.
        """
        return self.log.refresh()


def layout_of(configuration: Mapping[str, str]) -> Layout:
    """Read how files are to be laid out from a table's properties.

    Raises:
        ValidationError: a property does not hold what it should.
    """
    names = configuration.get("delta.dataSkippingStatsColumns")
    indexed = _whole(configuration, "delta.dataSkippingNumIndexedCols", 32)
    return Layout(
        target_bytes=_whole(configuration, "delta.targetFileSize", Layout().target_bytes),
        codec=configuration.get("delta.parquet.compression.codec", "snappy").lower(),
        row_group_rows=_whole(configuration, "polylake.rowGroupRows", Layout().row_group_rows),
        bloom_columns=_names(configuration.get("polylake.bloomColumns")),
        sort_by=_names(configuration.get("polylake.sortColumns")),
        indexed_columns=None if indexed < 0 else indexed,
        statistics_columns=_names(names),
    )


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def _whole(configuration: Mapping[str, str], name: str, default: int) -> int:
    text = configuration.get(name)
    if text is None:
        return default
    try:
        return _bytes(text.strip().lower())
    except ValueError as error:
        raise ValidationError(f"{name} is {text!r}, which is no number", field=name) from error


_UNITS = {"kb": 1024, "mb": 1024**2, "gb": 1024**3, "k": 1024, "m": 1024**2, "g": 1024**3, "b": 1}


def _bytes(text: str) -> int:
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * factor)
    return int(text)
