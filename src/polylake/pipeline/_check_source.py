"""What is wrong with a source."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from polylake.pipeline._field_types import type_problems
from polylake.pipeline._spec import (
    FileFormat,
    FileSource,
    KafkaSource,
    RateSource,
    TableMode,
    TableSource,
)
from polylake.pipeline._sql_text import rule_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polylake.pipeline._spec import Source


def source_problems(source: Source, where: str) -> Iterator[str]:
    """Yield what is wrong with a source; each sentence begins with the place."""
    yield from type_problems(source, f"{where}.")
    match source:
        case FileSource():
            yield from _file_problems(source, where)
        case TableSource():
            yield from _table_problems(source, where)
        case KafkaSource():
            if not source.servers:
                yield f"{where}.servers is empty"
            if not source.topics:
                yield f"{where}.topics is empty; name one or more"
            yield from _at_least_one(source.max_records, f"{where}.max_records")
        case RateSource():
            yield from _at_least_one(source.rows_per_second, f"{where}.rows_per_second")
        case _:
            assert_never(source)


def _file_problems(source: FileSource, where: str) -> Iterator[str]:
    formats = [each.value for each in FileFormat]
    if source.format not in formats:
        yield f"{where}.format is {source.format!r}; it can be {', '.join(formats)}"
    if not source.path:
        yield f"{where}.path is empty"
    if source.schema is None:
        if source.format == FileFormat.CDC:
            yield f"{where}.schema is missing: change records need the columns of their states"
        elif source.stream and source.format in {FileFormat.JSON, FileFormat.CSV}:
            yield (
                f"{where}.schema is missing: a stream of {source.format.upper()} files needs the "
                "columns, such as id BIGINT, amount DOUBLE"
            )
    elif isinstance(source.schema, str) and (problem := rule_problem(source.schema)):
        yield f"{where}.schema {problem}"
    yield from _at_least_one(source.max_files, f"{where}.max_files")
    if source.max_files is not None and not source.stream:
        yield f"{where}.max_files is for streams; all files are read at once"


def _table_problems(source: TableSource, where: str) -> Iterator[str]:
    if (source.table is None) == (source.step is None):
        yield f"{where} needs either table or step"
    modes = [each.value for each in TableMode]
    if source.mode not in modes:
        yield f"{where}.mode is {source.mode!r}; it can be {', '.join(modes)}"
    if source.skip_changes and source.mode != TableMode.APPEND:
        yield f"{where}.skip_changes is for the mode append"
    if source.mode == TableMode.SNAPSHOT:
        for name in ("from_version", "max_files"):
            if getattr(source, name) is not None:
                yield f"{where}.{name} makes no sense for the mode snapshot, which reads everything"
    if isinstance(source.from_version, int) and source.from_version < 0:
        yield f"{where}.from_version must be 0 or more, not {source.from_version}"
    yield from _at_least_one(source.max_files, f"{where}.max_files")


def _at_least_one(given: object, where: str) -> Iterator[str]:
    if isinstance(given, int) and given < 1:
        yield f"{where} must be 1 or more, not {given}"
