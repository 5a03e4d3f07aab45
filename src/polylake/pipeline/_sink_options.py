"""How batches go into a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

import orjson

from polylake.cdc import ApplyMode
from polylake.errors import ValidationError
from polylake.pipeline._option_texts import OptionTexts, flag, names, size, text


class SinkMode(StrEnum):
    """What becomes of a batch's rows."""

    APPEND = "append"
    """They are added."""
    OVERWRITE = "overwrite"
    """They replace the rows that are there."""
    UPSERT = "upsert"
    """They replace the rows that have their key, or are added."""
    CDC = "cdc"
    """They are change records, and are applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """How batches go into a table.

    Raises:
        ValidationError: options do not go together; the message says all that is wrong.
    """

    mode: str = SinkMode.APPEND
    key: tuple[str, ...] = ()
    """The columns that tell rows apart, for ``upsert`` and ``cdc``."""
    order_by: str | None = None
    """With ``upsert``: only a row with a greater value of this column replaces another, in the
    batch and in the table. Without it the last batch counts, in which a key may be once."""
    app_id: str | None = None
    """Whose batches these are: a batch of one application counts once. The query's id, unless
    given."""
    schema_mode: str | None = None
    """``merge`` adds the columns that batches have and the table does not."""
    partition_by: tuple[str, ...] = ()
    """The partition columns of a table to be created."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """The properties of a table to be created."""
    target_file_size: int | None = None
    """About how many bytes a file gets; what the table says, unless given."""
    seq_column: str | None = None
    """With ``cdc``: where the table keeps the sequence number of each row's last change."""
    apply_mode: str = ApplyMode.MERGE
    """With ``cdc``: what becomes of deleted and replaced rows; see ``polylake.cdc.apply``."""

    def __post_init__(self) -> None:
        problems = list(_problems(self))
        if problems:
            raise _refused(problems)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> SinkOptions:
        """Make options of keywords, which may give a name or a list for a tuple.

        Raises:
            ValidationError: there is no such option, or it does not take such a value; the
                message says all that is wrong.
        """
        known = {each.name for each in fields(cls)}
        told = ", ".join(sorted(known))
        problems = [f"unknown: {name}; there are {told}" for name in given if name not in known]
        values = {name: value for name, value in given.items() if name in known}
        for name in ("key", "partition_by"):
            value = values.get(name, ())
            if isinstance(value, (str, list)):
                values[name] = (value,) if isinstance(value, str) else tuple(value)
        for name, kind, wanted in _TYPES:
            value = values.get(name)
            if value is not None and not isinstance(value, kind):
                problems.append(f"{name} must be {wanted}, not {value!r}")
                del values[name]
        return _built(values, problems)

    @classmethod
    def from_options(cls, given: Mapping[str, str]) -> SinkOptions:
        """Make options of texts as Spark and SQL have them, under names of any case.

        ``key`` and ``partitionBy`` are names with commas between them; ``properties`` are
        ``name=value`` with commas between them, or a JSON object.

        Raises:
            ValidationError: there is no such option, or it does not take such a value; the
                message says all that is wrong.
        """
        texts = OptionTexts(given)
        options = cls.take(texts)
        texts.check()
        return options

    @classmethod
    def take(cls, texts: OptionTexts, **known: str) -> SinkOptions:
        """Take the options that are not known from others, which are told what is wrong."""
        values = {**texts.take(_READERS), **known}
        # As Delta's users know it.
        if texts.take({"merge_schema": flag}).get("merge_schema"):
            values["schema_mode"] = "merge"
        try:
            return cls(**values)
        except ValidationError as error:
            problems = error.facts["problems"]
            assert isinstance(problems, tuple)  # noqa: S101 - as _refused made it
            for problem in problems:
                texts.refuse(problem)
            return cls()


def _built(values: dict[str, Any], problems: list[str]) -> SinkOptions:
    try:
        options = SinkOptions(**values)
    except ValidationError as error:
        found = error.facts["problems"]
        assert isinstance(found, tuple)  # noqa: S101 - as _refused made it
        raise _refused([*problems, *found]) from error
    if problems:
        raise _refused(problems)
    return options


def _problems(options: SinkOptions) -> list[str]:
    mode, problems = options.mode, []
    if mode not in list(SinkMode):
        return [f"mode must be one of {', '.join(SinkMode)}, not {mode!r}"]
    if mode in (SinkMode.UPSERT, SinkMode.CDC) and not options.key:
        problems.append(f"mode {mode} needs key: the columns that tell rows apart")
    if mode in (SinkMode.APPEND, SinkMode.OVERWRITE) and options.key:
        problems.append(f"key means nothing for mode {mode}")
    if len(set(options.key)) < len(options.key):
        problems.append(f"key has a column twice: {', '.join(options.key)}")
    for name, (default, own_mode) in _OF_MODES.items():
        if getattr(options, name) != default and mode != own_mode:
            problems.append(f"{name} is for mode {own_mode}")
    if options.apply_mode not in list(ApplyMode):
        problems.append(
            f"apply_mode must be one of {', '.join(ApplyMode)}, not {options.apply_mode!r}"
        )
    if options.schema_mode not in (None, "merge"):
        problems.append(f"schema_mode must be merge, not {options.schema_mode!r}")
    if options.target_file_size is not None and options.target_file_size < 1:
        problems.append(f"target_file_size must be above 0, not {options.target_file_size}")
    return problems


def _refused(problems: list[str]) -> ValidationError:
    return ValidationError(
        f"options: {'; '.join(problems)}", field="options", problems=tuple(problems)
    )


def _properties(value: str) -> dict[str, str]:
    if value.lstrip().startswith("{"):
        try:
            return {name: str(held) for name, held in orjson.loads(value).items()}
        except orjson.JSONDecodeError:
            raise ValueError("a JSON object of texts") from None
    pairs = [pair.partition("=") for pair in value.split(",")]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        raise ValueError("name=value with commas between them, or a JSON object")
    return {name.strip(): held.strip() for name, _, held in pairs}


_OF_MODES: Mapping[str, tuple[object, SinkMode]] = {
    "order_by": (None, SinkMode.UPSERT),
    "seq_column": (None, SinkMode.CDC),
    "apply_mode": (ApplyMode.MERGE, SinkMode.CDC),
}
_READERS = {
    "mode": str.lower,
    "key": names,
    "order_by": text,
    "app_id": text,
    "schema_mode": str.lower,
    "partition_by": names,
    "properties": _properties,
    "target_file_size": size,
    "seq_column": text,
    "apply_mode": lambda value: value.lower().replace("_", "-"),
}
_TYPES: tuple[tuple[str, type, str], ...] = (
    ("mode", str, "a text"),
    ("key", tuple, "columns"),
    ("partition_by", tuple, "columns"),
    ("order_by", str, "a column"),
    ("app_id", str, "a text"),
    ("schema_mode", str, "merge"),
    ("properties", Mapping, "a table of names and values"),
    ("target_file_size", int, "a number of bytes"),
    ("seq_column", str, "a column"),
    ("apply_mode", str, "a text"),
)
