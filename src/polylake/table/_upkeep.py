"""Keeping a table small, ordered and clean: each call plans, works and reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polylake.errors import ValidationError
from polylake.log import refresh_snapshot, write_checkpoint
from polylake.ops import (
    CleanLogOptions,
    ClusterOptions,
    CompactOptions,
    DeduplicateOptions,
    VacuumOptions,
    clean_log,
    cluster,
    compact,
    deduplicate,
    pin,
    read_leases,
    should_checkpoint,
    vacuum,
    with_newest_checkpoint,
)
from polylake.table._options import build_options
from polylake.table._reader import TableReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polylake.engine import Curve
    from polylake.log import CheckpointKind, CheckpointReport, Snapshot
    from polylake.ops import (
        CleanLogMetrics,
        ClusterMetrics,
        CompactMetrics,
        DeduplicateMetrics,
        Lease,
        VacuumMetrics,
    )


class TableUpkeep(TableReader):
    """Maintenance of a table. With ``dry_run=True`` each call only says what it would do.

    ``metrics.plan`` is what was planned; print it.
    """

    def compact(self, **options: Any) -> CompactMetrics:  # noqa: ANN401 - fields of CompactOptions
        """Merge small files into larger ones; the rows stay the same.

        Never in conflict with appends. Each group of files is a commit of its own, so that what is
        done stays done.

        Args:
            options: the fields of ``CompactOptions``: ``target_bytes``, ``min_files``,
                ``strategy``, ``where``, ``sort_by``, ``verify_integrity`` and more.

        Raises:
            ValidationError: an option is not acceptable.
            IntegrityError: the rows written are not the rows read; nothing was committed.
            UnsupportedFeature: the table has row tracking enabled.
        """
        return compact(self._target, build_options(CompactOptions, options))

    def cluster(
        self,
        columns: str | Sequence[str],
        *,
        curve: str | Curve = "hilbert",
        **options: Any,  # noqa: ANN401 - fields of ClusterOptions
    ) -> ClusterMetrics:
        """Bring rows together that are near each other in one to eight columns.

        Range filters on any of these columns then read few files. Files that were clustered
        before are left alone, unless ``full=True``.

        Args:
            columns: what to cluster by.
            curve: ``hilbert`` or ``z-order``.
            options: the other fields of ``ClusterOptions``.

        Raises:
            ValidationError: a column has no order or no statistics, or an option is not acceptable.
            IntegrityError: the rows written are not the rows read; nothing was committed.
            UnsupportedFeature: the table has row tracking enabled.
        """
        named = {"columns": columns, "curve": curve, **options}
        return cluster(self._target, build_options(ClusterOptions, named))

    def deduplicate(
        self,
        keys: str | Sequence[str] = (),
        *,
        keep: str = "first",
        order_by: str | Sequence[str] = (),
        **options: Any,  # noqa: ANN401 - fields of DeduplicateOptions
    ) -> DeduplicateMetrics:
        """Leave one row for each key; without keys, one of rows that are equal.

        Args:
            keys: the columns that tell rows apart.
            keep: ``first`` or ``last`` in the order they were written, or ``latest`` by
                ``order_by``.
            order_by: for ``latest``: the row with the highest value stays.
            options: the other fields of ``DeduplicateOptions``.

        Raises:
            ValidationError: there is no such column, or an option is not acceptable.
            ConcurrencyError: other writers kept changing what was read.
        """
        named = {"keys": keys, "keep": keep, "order_by": order_by, **options}
        return deduplicate(self._target, build_options(DeduplicateOptions, named))

    def vacuum(
        self,
        retention_hours: float | None = None,
        *,
        dry_run: bool = False,
        **options: Any,  # noqa: ANN401 - fields of VacuumOptions
    ) -> VacuumMetrics:
        """Delete the files that no version within the retention needs.

        Args:
            retention_hours: how long removed files stay; the table's own setting, 168 hours if it
                has none, where not given. Never below one hour.
            dry_run: only say what would go.
            options: the other fields of ``VacuumOptions``.

        Raises:
            ValidationError: the retention is below one hour, or an option is not acceptable.
            LogError: the log cannot be read whole; nothing was deleted.
        """
        named = {"retention_hours": retention_hours, "dry_run": dry_run, **options}
        return vacuum(self._target, build_options(VacuumOptions, named))

    def clean_log(self, **options: Any) -> CleanLogMetrics:  # noqa: ANN401 - fields of CleanLogOptions
        """Delete the parts of the log that no version within its retention needs.

        Args:
            options: the fields of ``CleanLogOptions``: ``keep_versions``,
                ``keep_last_checkpoints``, ``dry_run`` and more.

        Raises:
            ValidationError: the table does not want it, or an option is not acceptable.
            LogError: the log cannot be read; nothing was deleted.
        """
        return clean_log(self._target, build_options(CleanLogOptions, options))

    def pin(self, version: int | None = None, *, ttl_s: float = 3600, reason: str = "") -> Lease:
        """Keep a version readable for a while, whatever is vacuumed or cleaned meanwhile.

        Args:
            version: the version; the one that reads see if not given.
            ttl_s: how long, unless it is renewed or released.
            reason: told in the plans of vacuum and log cleanup.

        Raises:
            ValidationError: the version is no number, or ``ttl_s`` not above zero.
            VersionNotFound: the log does not hold the version.
            FileNotFound: data files of it are gone already.
        """
        if version is not None and type(version) is not int:
            raise ValidationError(f"{version!r} is no version", field="version")
        return pin(
            self._target, self.version if version is None else version, ttl_s=ttl_s, reason=reason
        )

    def leases(self) -> tuple[Lease, ...]:
        """Return the versions that are pinned now.

        Raises:
            InvalidTableState: a lease cannot be read.
        """
        return read_leases(self._target.storage, self._target.log.settings.clock_ms())

    def should_checkpoint(self, interval: int | None = 10) -> bool:
        """Say whether so many commits lie behind the last checkpoint that a new one pays.

        Args:
            interval: how many; ``None`` for the table's own ``delta.checkpointInterval``.

        Raises:
            ValidationError: the interval is not a whole number above zero.
        """
        if interval is not None and type(interval) is not int:
            raise ValidationError(f"{interval!r} is no number of commits", field="interval")
        latest = with_newest_checkpoint(self._target.storage, self._latest())
        return should_checkpoint(latest, interval)

    def checkpoint(self, kind: CheckpointKind | None = None) -> CheckpointReport:
        """Write a checkpoint of the latest version, so that opening the table stays fast.

        Raises:
            ValidationError: the table does not allow this kind.
        """
        clock_ms = self._target.log.settings.clock_ms
        return write_checkpoint(self._target.storage, self._latest(), kind=kind, clock_ms=clock_ms)

    def _latest(self) -> Snapshot:
        """Return the latest version, leaving what reads see as it is."""
        return refresh_snapshot(self._target.storage, self.snapshot())
