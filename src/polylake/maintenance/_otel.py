"""Metrics for OpenTelemetry, where its API is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polylake.errors import ValidationError
from polylake.maintenance._instruments import INSTRUMENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.metrics import CallbackOptions, Meter, Observation

    from polylake.maintenance._instruments import Instrument
    from polylake.maintenance._metrics import MaintenanceMetrics

_UNITS = {"bytes": "By", "seconds": "s", "": "1"}


def observe_metrics(
    read: Callable[[], MaintenanceMetrics],
    *,
    meter: Meter | None = None,
    attributes: Mapping[str, str] | None = None,
) -> None:
    """Let OpenTelemetry ask for metrics whenever it collects.

    Instruments cannot be taken back: call this once for a manager.

    Args:
        read: what returns the metrics, such as a manager's ``metrics``.
        meter: where instruments are made; the global one named ``polylake`` if not given.
        attributes: put on every observation, such as the table's name.

    Raises:
        ValidationError: OpenTelemetry's API is not installed.
    """
    try:
        # An optional dependency.
        from opentelemetry import metrics as api  # noqa: PLC0415
    except ImportError as error:
        raise ValidationError(
            "OpenTelemetry is not installed: pip install opentelemetry-api", field="meter"
        ) from error
    meter = meter or api.get_meter("polylake")
    common = dict(attributes or {})

    def callback(
        instrument: Instrument,
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            for kind, value in instrument.read(read()).items():
                yield api.Observation(value, {**common, "kind": kind} if kind else common)

        return observe

    for instrument in INSTRUMENTS:
        create = (
            meter.create_observable_counter
            if instrument.is_counter
            else meter.create_observable_gauge
        )
        create(
            f"polylake.maintenance.{instrument.name}",
            callbacks=[callback(instrument)],
            unit=_UNITS[instrument.unit],
            description=instrument.meaning,
        )
