"""Rows that come in: JSON lines, CSV or Parquet, from a file or a pipe, a piece at a time."""
# ruff: noqa: PLC0415 - commands load what they need when they run, so that --help is quick

from __future__ import annotations

import shutil
import sys
import tempfile
from contextlib import contextmanager
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from polylake.cli._failures import Misuse
from polylake.cli._json_values import converter
from polylake.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from polylake.schema import StructType

STDIN = "-"
_BATCH_ROWS = 65_536


class Form(StrEnum):
    """How rows are written down."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


_SUFFIXES = {
    ".jsonl": Form.JSONL,
    ".ndjson": Form.JSONL,
    ".json": Form.JSONL,
    ".csv": Form.CSV,
    ".parquet": Form.PARQUET,
}


def form_of(path: str, given: Form | None) -> Form:
    """Return how rows are written down in a file, by its name unless it is said.

    Raises:
        Misuse: the name does not tell.
    """
    if given is not None:
        return given
    if path == STDIN:
        return Form.JSONL
    form = _SUFFIXES.get(Path(path).suffix.lower())
    if form is None:
        known = ", ".join(_SUFFIXES)
        raise Misuse(f"{path}: its name does not end with {known}; say --format")
    return form


@contextmanager
def open_rows(path: str, form: Form, schema: StructType | None) -> Iterator[Iterator[Any]]:
    """Open rows for reading: dicts of JSON lines, otherwise Arrow batches.

    Args:
        path: a file, or ``-`` for stdin.
        form: how the rows are written down.
        schema: the table's, where there is one; without it types are as JSON and CSV show them.

    Raises:
        OSError: the file cannot be read.
        ValidationError: the rows cannot be read; also raised while going through them.
    """
    if path == STDIN:
        if sys.stdin.isatty():
            raise Misuse("rows are read from stdin, which is a terminal; name a file or use a pipe")
        yield _rows(sys.stdin.buffer, form, schema)
        return
    with Path(path).open("rb") as file:
        yield _rows(file, form, schema)


def _rows(file: IO[bytes], form: Form, schema: StructType | None) -> Iterator[Any]:
    match form:
        case Form.JSONL:
            return _json_lines(file, schema)
        case Form.CSV:
            return _csv(file, schema)
        case Form.PARQUET:
            return _parquet(file)


def _json_lines(file: Iterable[bytes], schema: StructType | None) -> Iterator[dict[str, Any]]:
    import orjson

    convert = None if schema is None else converter(schema)
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise ValidationError(
                f"line {number} is not JSON ({error}); each line is one object", line=number
            ) from error
        if not isinstance(row, dict):
            raise ValidationError(
                f"line {number} is no JSON object; each line is one, such as {{}}", line=number
            )
        yield row if convert is None else convert(row)


def _csv(file: IO[bytes], schema: StructType | None) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyarrow import csv

    known = {} if schema is None else _csv_types(schema)
    # An empty cell is null, a quoted one the empty text; NA and NaN are what they say.
    options = csv.ConvertOptions(
        column_types=known,
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    try:
        for batch in csv.open_csv(file, convert_options=options):
            yield _without_times(batch)
    except pa.ArrowException as error:
        raise ValidationError(f"the CSV cannot be read: {error}") from error


def _csv_types(schema: StructType) -> dict[str, pa.DataType]:
    """Return the types of the columns that CSV can hold."""
    from polylake.schema import VARIANT, VOID, DecimalType, PrimitiveType, to_arrow_type

    return {
        field.name: to_arrow_type(field.type)
        for field in schema
        if isinstance(field.type, (PrimitiveType, DecimalType))
        and field.type not in (VARIANT, VOID)
    }


def _without_times(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose times of day, which Delta does not have, are text."""
    import pyarrow as pa

    for at, field in enumerate(batch.schema):
        if pa.types.is_time(field.type):
            batch = batch.set_column(at, field.name, batch.column(at).cast(pa.string()))
    return batch


def _parquet(file: IO[bytes]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if file.seekable():
            found = pq.ParquetFile(file)
            # Without rows there would be no batch, and so no schema.
            empty = (
                [found.schema_arrow.empty_table().combine_chunks()]
                if not found.metadata.num_rows
                else []
            )
            batches = chain.from_iterable(table.to_batches() for table in empty)
            yield from chain(batches, found.iter_batches(batch_size=_BATCH_ROWS))
            return
        with tempfile.TemporaryFile() as copy:
            # A Parquet file is read from its end.
            shutil.copyfileobj(file, copy)
            copy.seek(0)
            yield from _parquet(copy)
    except pa.ArrowException as error:
        raise ValidationError(f"the Parquet file cannot be read: {error}") from error
