"""Every option of a maintenance policy: the one list behind parsing, errors and documentation."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from polylake.engine import Curve
from polylake.ops import Strategy, VacuumMode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from enum import StrEnum


@dataclass(frozen=True, slots=True)
class OptionKind:
    """What an option's text can be, and the value it stands for."""

    name: str
    parse: Callable[[str], object]
    """Raises ``ValueError`` for a text that is none of these."""
    accepts: Callable[[Any], bool]
    """Whether a value that was not parsed is one of these."""
    format: Callable[[Any], str] = str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOption:
    """An option, with what a reference page says of it."""

    name: str
    field: str
    """The field of ``MaintenancePolicy`` that it sets."""
    kind: OptionKind
    meaning: str
    least: float | None = None
    unset: str = ""
    """What holds where the option is not given, if that is no fixed value."""
    implies: Mapping[str, object] = dataclasses.field(default_factory=dict)
    """Other fields that it sets, unless they are given."""

    def problem_with(self, value: object) -> str | None:
        """Say why a value is not acceptable, or return ``None`` if it is."""
        if value is None and self.unset:
            return None
        if not self.kind.accepts(value):
            return f"must be {self.kind.name}, not {value!r}"
        if self.least is not None and value < self.least:  # type: ignore[operator]  # a number: it was accepted
            return f"must be {self.least:g} or more, not {value!r}"
        return None


def read_options(
    given: Mapping[str, object], problems: list[str], *, prefix: str = ""
) -> dict[str, object]:
    """Return the fields of a policy that options set; what is wrong with them goes to a list.

    Args:
        given: texts by name; names that do not begin with ``prefix`` are passed over.
        problems: gets a sentence for each unknown name and each bad value.
        prefix: what comes before the options' own names.
    """
    explicit: dict[str, object] = {}
    implied: dict[str, object] = {}
    setters: dict[str, str] = {}
    for name, text in given.items():
        if not name.startswith(prefix):
            continue
        option = OPTIONS.get(name.removeprefix(prefix))
        if option is None:
            problems.append(_unknown(name, prefix))
            continue
        value, problem = _parse(option, text)
        if problem is not None:
            problems.append(f"{name} {problem}")
            continue
        if option.field in setters:
            problems.append(f"{name} cannot be given together with {setters[option.field]}")
        setters[option.field] = name
        explicit[option.field] = value
        implied.update(option.implies)
    if implied.get("cluster_curve") is Curve.Z_ORDER:
        curve = explicit.get("cluster_curve", Curve.Z_ORDER)
        if curve is not Curve.Z_ORDER:
            problems.append(
                f"{setters['cluster_curve']} is {curve}, but columns for z-order are given"
            )
    return {**implied, **explicit}


def _unknown(name: str, prefix: str) -> str:
    close = get_close_matches(name.removeprefix(prefix).lower().replace("_", "-"), OPTIONS, n=1)
    advice = f"; did you mean {prefix}{close[0]}?" if close else ""
    return f"{name} is no option{advice}"


def _parse(option: PolicyOption, given: object) -> tuple[object, str | None]:
    if not isinstance(given, (str, int, float)):  # a bool is an int
        return None, f"must be {option.kind.name}, not {given!r}"
    try:
        value = option.kind.parse(str(given).strip())
    except ValueError:
        return None, f"must be {option.kind.name}, not {given!r}"
    return value, option.problem_with(value)


def _flag(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError(text)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


_UNITS = {"kib": 10, "mib": 20, "gib": 30, "kb": 10, "mb": 20, "gb": 30, "k": 10, "m": 20, "g": 30}


def _size(text: str) -> int:
    lowered = text.lower()
    for unit, power in _UNITS.items():
        if lowered.endswith(unit):
            return int(_number(lowered.removesuffix(unit)) * 2**power)
    return int(lowered.removesuffix("b"))


def _columns(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _are_columns(value: object) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(name, str) and name == name.strip() != "" and "," not in name for name in value
    )


def _choice(kind: type[StrEnum]) -> OptionKind:
    return OptionKind(
        f"one of {', '.join(kind)}",
        lambda text: kind(text.lower().replace("_", "-")),
        lambda value: isinstance(value, kind),
    )


_FLAG = OptionKind(
    "true or false", _flag, lambda value: isinstance(value, bool), lambda value: str(value).lower()
)
_WHOLE = OptionKind("a whole number", int, lambda value: type(value) is int)
_NUMBER = OptionKind(
    "a number",
    _number,
    lambda value: type(value) in {int, float} and math.isfinite(value),
    lambda value: f"{value:.15g}",
)
_SIZE = OptionKind("a size such as 128MB, or bytes", _size, lambda value: type(value) is int)
_COLUMNS = OptionKind("column names with commas between them", _columns, _are_columns, ",".join)

_ALL = (
    PolicyOption(
        name="maintenance.enabled", field="enabled", kind=_FLAG,
        meaning="whether anything is done at all",
    ),
    PolicyOption(
        name="compaction.enabled", field="compaction_enabled", kind=_FLAG,
        meaning="whether small files are merged, or clustered if columns are given",
    ),
    PolicyOption(
        name="compaction.min-files", field="min_files", kind=_WHOLE, least=2,
        meaning="how many files below the target size a partition needs before they are merged",
    ),
    PolicyOption(
        name="compaction.target-file-size", field="target_bytes", kind=_SIZE, least=1,
        unset="the table's delta.targetFileSize, else 128MB",
        meaning="about how large merged files are",
    ),
    PolicyOption(
        name="compaction.check-interval-commits", field="check_interval_commits", kind=_WHOLE,
        least=1,
        meaning="after how many commits to look for small files; fewer are enough "
        "maintenance.interval-seconds after the last look",
    ),
    PolicyOption(
        name="compaction.strategy", field="strategy", kind=_choice(Strategy),
        meaning="how files are put into groups",
    ),
    PolicyOption(
        name="compaction.z-order.columns", field="cluster_columns", kind=_COLUMNS,
        implies={"cluster_curve": Curve.Z_ORDER},
        meaning="columns to cluster by, along a Z-order curve",
    ),
    PolicyOption(
        name="compaction.cluster.columns", field="cluster_columns", kind=_COLUMNS,
        implies={"cluster_curve": Curve.HILBERT},
        meaning="columns to cluster by, along compaction.cluster.curve",
    ),
    PolicyOption(
        name="compaction.cluster.curve", field="cluster_curve", kind=_choice(Curve),
        meaning="the curve that rows are laid out along",
    ),
    PolicyOption(
        name="checkpoint.interval", field="checkpoint_interval", kind=_WHOLE, least=0,
        unset="the table's delta.checkpointInterval, else 10",
        meaning="after how many commits a checkpoint is written; 0 for never",
    ),
    PolicyOption(
        name="vacuum.enabled", field="vacuum_enabled", kind=_FLAG,
        meaning="whether files that no version within the retention needs are deleted",
    ),
    PolicyOption(
        name="vacuum.mode", field="vacuum_mode", kind=_choice(VacuumMode),
        meaning="whether to look at all files of the table, or only at those the log knows",
    ),
    PolicyOption(
        name="vacuum.retention-hours", field="vacuum_retention_hours", kind=_NUMBER, least=1,
        unset="the table's delta.deletedFileRetentionDuration, else 168",
        meaning="for how long removed files are kept",
    ),
    PolicyOption(
        name="vacuum.interval-hours", field="vacuum_interval_hours", kind=_NUMBER, least=0,
        meaning="how many hours lie between two vacuums",
    ),
    PolicyOption(
        name="log-cleanup.enabled", field="log_cleanup_enabled", kind=_FLAG,
        meaning="whether old files of the log are deleted",
    ),
    PolicyOption(
        name="log-cleanup.keep-versions", field="log_keep_versions", kind=_WHOLE, least=1,
        unset="no number: the table's delta.logRetentionDuration alone",
        meaning="how many of the newest versions stay readable whatever their age",
    ),
    PolicyOption(
        name="log-cleanup.interval-hours", field="log_cleanup_interval_hours", kind=_NUMBER,
        least=0, meaning="how many hours lie between two clean-ups of the log",
    ),
    PolicyOption(
        name="maintenance.interval-seconds", field="interval_s", kind=_NUMBER, least=0.01,
        meaning="how often to look at the table without being told of commits",
    ),
    PolicyOption(
        name="maintenance.memory", field="memory_bytes", kind=_SIZE, least=16 * 2**20,
        unset="what the table may take",
        meaning="about how much a rewrite may hold at once",
    ),
    PolicyOption(
        name="maintenance.pause-seconds", field="pause_s", kind=_NUMBER, least=0,
        meaning="how long to leave the machine to writers between two pieces of work",
    ),
    PolicyOption(
        name="maintenance.back-off-seconds", field="back_off_s", kind=_NUMBER, least=0,
        meaning="how long work of a kind rests after a conflict or failure; doubled by each next",
    ),
    PolicyOption(
        name="maintenance.max-back-off-seconds", field="max_back_off_s", kind=_NUMBER, least=0,
        meaning="how long such a rest is at most",
    ),
    PolicyOption(
        name="maintenance.lease-seconds", field="lease_ttl_s", kind=_NUMBER, least=0.1,
        meaning="after how long without a sign of life another process takes over",
    ),
    PolicyOption(
        name="maintenance.journal-entries", field="journal_entries", kind=_WHOLE, least=1,
        meaning="how many entries of the journal are kept",
    ),
)  # fmt: skip

OPTIONS: Mapping[str, PolicyOption] = {option.name: option for option in _ALL}
