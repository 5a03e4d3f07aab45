"""Rows that go out: a table in a terminal, JSON, CSV or Parquet, to stdout or a file."""
# ruff: noqa: PLC0415 - commands load what they need when they run, so that --help is quick

from __future__ import annotations

import os
import sys
from base64 import b64encode
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from polylake.cli._failures import Misuse
from polylake.cli._text import number_of, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from polylake.cli._output import Output

_SHOWN_ROWS = 100


class RowFormat(StrEnum):
    """How rows are written down."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that have not been read yet, in the two forms that they can be had in."""

    columns: tuple[str, ...]
    documents: Callable[[], Iterator[dict[str, Any]]]
    batches: Callable[[], tuple[pa.Schema, Iterator[pa.RecordBatch]]]


def choose_format(given: RowFormat | None, path: str | None, *, as_json: bool) -> RowFormat:
    """Return the format: as said, or by the file's name, or what suits who is looking.

    Raises:
        Misuse: two ways of asking disagree, or the file's name does not tell.
    """
    if as_json and given not in (None, RowFormat.JSON, RowFormat.JSONL):
        raise Misuse(f"--json and --format {given} exclude each other")
    if given is not None:
        return given
    if as_json:
        return RowFormat.JSONL
    if path is None:
        return RowFormat.TABLE if sys.stdout.isatty() else RowFormat.JSONL
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in {*RowFormat} - {RowFormat.TABLE}:
        raise Misuse(
            f"{path}: its name does not end with .json, .jsonl, .csv or .parquet; say --format"
        )
    return RowFormat(suffix)


def write_rows(rows: Rows, form: RowFormat, path: str | None, output: Output) -> None:
    """Write rows to stdout or to a file, which appears when it is whole.

    Raises:
        PolylakeError: the rows cannot be read.
        OSError: the file cannot be written.
    """
    if form is RowFormat.TABLE:
        if path is not None:
            raise Misuse("a table is for looking at; give --output with another --format")
        _show(rows, output)
        return
    if path is None and form is RowFormat.PARQUET and sys.stdout.isatty():
        raise Misuse("Parquet is not for terminals; give --output, or a pipe")
    with _target(path) as target:
        match form:
            case RowFormat.JSON:
                _write_array(rows, target)
            case RowFormat.JSONL:
                for document in rows.documents():
                    target.write(to_json(document) + b"\n")
            case RowFormat.CSV:
                _write_csv(rows, target)
            case RowFormat.PARQUET:
                _write_parquet(rows, target)


def _show(rows: Rows, output: Output) -> None:
    documents = list(islice(rows.documents(), _SHOWN_ROWS + 1))
    shown = documents[:_SHOWN_ROWS]
    columns = list(rows.columns) or list(dict.fromkeys(name for row in shown for name in row))
    output.table(columns, ([row.get(name) for name in columns] for row in shown))
    if len(documents) > len(shown):
        output.note(f"the first {_SHOWN_ROWS} rows; --limit and --format give more")
    else:
        output.note(number_of(len(shown), "row"))


@contextmanager
def _target(path: str | None) -> Iterator[IO[bytes]]:
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    unfinished = Path(f"{path}.{os.getpid()}.part")
    try:
        with _opened(unfinished, path) as file:
            yield file
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _opened(unfinished: Path, path: str) -> IO[bytes]:
    """Open the file that becomes ``path``, which is the one that users know of."""
    try:
        return unfinished.open("wb")
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def _write_array(rows: Rows, target: IO[bytes]) -> None:
    before = b"["
    for document in rows.documents():
        target.write(before + to_json(document))
        before = b",\n"
    target.write(b"[]\n" if before == b"[" else b"]\n")


def _write_csv(rows: Rows, target: IO[bytes]) -> None:
    columns: tuple[str, ...] | None = rows.columns or None
    if columns:
        target.write(_csv_line(columns))
    for document in rows.documents():
        if columns is None:
            columns = tuple(document)
            target.write(_csv_line(columns))
        target.write(_csv_line([document.get(name) for name in columns]))


def _csv_line(values: Any) -> bytes:  # noqa: ANN401 - any values
    return (",".join(map(_csv_cell, values)) + "\n").encode()


def _csv_cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            text = value
        case bytes():
            text = b64encode(value).decode()
        case dict() | list():
            text = to_json(value).decode()
        case _:
            text = str(value)
    # The empty text is quoted: without quotes it would be null.
    if not text or any(mark in text for mark in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _write_parquet(rows: Rows, target: IO[bytes]) -> None:
    import pyarrow.parquet as pq

    schema, batches = rows.batches()
    with pq.ParquetWriter(target, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
