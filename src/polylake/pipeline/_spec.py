"""What a pipeline is made of, as values: nothing here needs Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping  # noqa: TC003 - types of fields are looked at
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias


class FileFormat(StrEnum):
    """The formats of files that a source reads."""

    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    CDC = "cdc"
    """Change records as lines of JSON, for a sink with the mode ``cdc``."""


class TableMode(StrEnum):
    """What a step reads of a table."""

    APPEND = "append"
    """The rows that were added since the last batch; the first batch is the table as it is."""
    CHANGES = "changes"
    """The change feed: rows with ``_change_type``, ``_commit_version``, ``_commit_timestamp``."""
    SNAPSHOT = "snapshot"
    """The whole table, whenever its rows have changed since the last batch."""


class Action(StrEnum):
    """What becomes of a row for which a rule does not hold, from the mildest on."""

    WARN = "warn"
    DROP = "drop"
    QUARANTINE = "quarantine"
    FAIL = "fail"


class TriggerKind(StrEnum):
    """When steps look for new rows."""

    ONCE = "once"
    """Now, all of them as one batch."""
    AVAILABLE_NOW = "available-now"
    """Now, in batches of the size that sources allow."""
    INTERVAL = "interval"
    """Again and again, until stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSource:
    """Files in a folder, or that a pattern matches."""

    format: str
    """``json``, ``csv``, ``parquet``, or ``cdc`` for change records as lines of JSON."""
    path: str
    schema: str | None = None
    """The columns as Spark's DDL: ``id BIGINT, amount DOUBLE``; of ``cdc``, those of the states."""
    stream: bool = True
    """Each file once; otherwise all files, whenever one of them has changed."""
    max_files: int | None = None
    """How many files a batch of a stream has at most."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of Spark's reader for the format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """A Delta table: one by its location, or the table of another step."""

    table: str | None = None
    step: str | None = None
    mode: str = TableMode.APPEND
    from_version: int | None = None
    """The first version to read; without it, the table as it is and then what follows."""
    skip_changes: bool = False
    """In mode ``append``: pass over commits that delete or change rows, instead of failing."""
    max_files: int | None = None
    """How many files of the log a batch has at most; a version is never split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSource:
    """Topics of Kafka; the cluster has to have Spark's connector."""

    servers: str
    topics: tuple[str, ...]
    starting: str = "earliest"
    max_records: int | None = None
    """How many records a batch has at most."""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSource:
    """Rows ``timestamp`` and ``value`` at a steady pace, for trying things out."""

    rows_per_second: int = 10


Source: TypeAlias = FileSource | TableSource | KafkaSource | RateSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Transform:
    """A change to all rows of a batch: SQL over the table ``input``, or a function on a frame."""

    sql: str | None = None
    function: str | Callable[[Any], Any] | None = None
    """A function that takes and gives a Spark DataFrame; as text, ``module:name`` or
    ``file.py:name``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """A rule that every row should keep: SQL that is true. Null breaks it, as in Delta."""

    name: str
    rule: str
    action: str = Action.WARN


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """The table that a step writes, and how; ``SinkOptions`` says what the options mean."""

    table: str
    mode: str = "append"
    options: Mapping[str, Any] = field(default_factory=dict)
    """The other fields of ``SinkOptions``: ``key``, ``partition_by`` and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One table of a pipeline: where its rows come from, and what is done to them."""

    name: str
    source: Source
    sink: Sink
    transforms: tuple[Transform, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    quarantine: str | None = None
    """The table for rows that break a rule with the action ``quarantine``."""
    maintenance: Mapping[str, object] | None = None
    """Options of a ``MaintenancePolicy`` for the step's table; without it, none is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When steps look for new rows."""

    kind: str = TriggerKind.AVAILABLE_NOW
    interval_s: float = 10.0
    """For the kind ``interval``: the time between two looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSpec:
    """A pipeline: steps that read files, topics and tables, and each other's tables."""

    name: str
    steps: tuple[Step, ...]
    checkpoints: str
    """A folder of the pipeline's own, where it keeps how far each step has come."""
    trigger: Trigger = Trigger()
    session: Mapping[str, object] = field(default_factory=dict)
    """Settings of Spark, for a session that the pipeline starts itself."""
    storage: Mapping[str, Any] = field(default_factory=dict)
    """Options of the store, as ``open_storage`` takes them, for every table of the pipeline."""
