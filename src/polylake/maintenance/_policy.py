"""What maintenance a table gets, and when."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Self

from polylake.engine import Curve
from polylake.errors import ValidationError
from polylake.maintenance._policy_options import OPTIONS, PolicyOption, read_options
from polylake.ops import Strategy, VacuumMode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROPERTY_PREFIX = "polylake.maintenance."
"""What comes before the name of an option that is kept as a property of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePolicy:
    """What maintenance a table gets, and when. ``policy_reference`` tells what each field does.

    Raises:
        ValidationError: values are not acceptable; the message names all of them.
    """

    enabled: bool = True
    compaction_enabled: bool = True
    min_files: int = 4
    target_bytes: int | None = None
    """``None`` stands for the table's ``delta.targetFileSize``, or 128 MiB without one."""
    check_interval_commits: int = 10
    strategy: Strategy = Strategy.GREEDY
    cluster_columns: tuple[str, ...] = ()
    """Where columns are given, files are clustered instead of merged as they are."""
    cluster_curve: Curve = Curve.HILBERT
    checkpoint_interval: int | None = None
    """``None`` stands for the table's ``delta.checkpointInterval``, or 10."""
    vacuum_enabled: bool = True
    vacuum_mode: VacuumMode = VacuumMode.FULL
    vacuum_retention_hours: float | None = None
    """``None`` stands for the table's ``delta.deletedFileRetentionDuration``, or a week."""
    vacuum_interval_hours: float = 24
    log_cleanup_enabled: bool = True
    log_keep_versions: int | None = None
    log_cleanup_interval_hours: float = 24
    interval_s: float = 60
    memory_bytes: int | None = None
    pause_s: float = 0.1
    back_off_s: float = 1
    max_back_off_s: float = 300
    lease_ttl_s: float = 60
    journal_entries: int = 500

    def __post_init__(self) -> None:
        problems = []
        for option in _BY_FIELD.values():
            problem = option.problem_with(getattr(self, option.field))
            if problem is not None:
                problems.append(f"{option.field} {problem}")
        if problems:
            raise _refusal(problems)

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> Self:
        """Read a policy from texts by option name, as a SQL ``WITH`` clause or Spark has them.

        Raises:
            ValidationError: names are unknown or values are bad; the message names all of them.
        """
        return cls.of({}, options)

    @classmethod
    def of(
        cls, configuration: Mapping[str, str], overrides: Mapping[str, object] | None = None
    ) -> Self:
        """Read a policy from a table's properties; options given explicitly win.

        Args:
            configuration: the table's properties; those of the policy begin with
                ``polylake.maintenance.``, as in ``polylake.maintenance.compaction.min-files``.
            overrides: texts by option name.

        Raises:
            ValidationError: names are unknown or values are bad; the message names all of them.
        """
        problems: list[str] = []
        values = read_options(configuration, problems, prefix=PROPERTY_PREFIX)
        values.update(read_options(overrides or {}, problems))
        if problems:
            raise _refusal(problems)
        return cls(**values)  # type: ignore[arg-type]  # each option's kind gives its field's type

    def to_options(self) -> dict[str, str]:
        """Return the options that differ from their defaults; ``from_options`` reads them back."""
        options = {}
        for option in _BY_FIELD.values():
            value = getattr(self, option.field)
            if value != _default(option):
                options[option.name] = option.kind.format(value)
        return options

    def to_properties(self) -> dict[str, str]:
        """Return ``to_options`` as properties of a table; ``of`` reads them back."""
        return {PROPERTY_PREFIX + name: text for name, text in self.to_options().items()}


def policy_reference() -> str:
    """Return every option with its kind, default and meaning, as a table in Markdown."""
    lines = ["| option | value | default | meaning |", "| --- | --- | --- | --- |"]
    for option in OPTIONS.values():
        default = _default(option)
        shown = option.unset if default is None else option.kind.format(default) or "none"
        lines.append(f"| `{option.name}` | {option.kind.name} | {shown} | {option.meaning} |")
    return "\n".join(lines) + "\n"


# Of options that set the same field, the last: the one that says least besides.
_BY_FIELD = {option.field: option for option in OPTIONS.values()}


def _default(option: PolicyOption) -> object:
    return _DEFAULTS[option.field]


def _refusal(problems: Sequence[str]) -> ValidationError:
    return ValidationError(
        "the maintenance policy cannot be used: " + "; ".join(problems),
        field=problems[0].split(" ", 1)[0],
        problems=tuple(problems),
    )


_DEFAULTS = {field.name: field.default for field in fields(MaintenancePolicy)}
