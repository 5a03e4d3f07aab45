"""Schemas as people type them: ``id: long not null, tags: array<string>``.

The form is the one in which schemas are printed.
"""
# ruff: noqa: PLC0415 - commands load what they need when they run, so that --help is quick

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from polylake.cli._failures import Misuse
from polylake.cli._json_values import parse_json

if TYPE_CHECKING:
    from polylake.schema import DataType, StructField, StructType

_TOKEN = re.compile(r"\s*(?:`([^`]+)`|([^\s:,<>()`]+)|([:,<>()]))")
_EXAMPLE = "id: long not null, day: date, price: decimal(10,2), tags: array<string>"


def read_schema(text: str) -> StructType:
    """Read a schema: columns and types, or Delta's JSON; ``@path`` reads a file.

    Raises:
        Misuse: the text is no schema.
        SchemaError: Delta does not have such a schema.
        OSError: the file cannot be read.
    """
    from polylake.schema import parse_schema

    if text.startswith("@"):
        text = Path(text[1:]).read_text()
    if text.lstrip().startswith("{"):
        parse_json(text, "the schema")
        return parse_schema(text)
    return _Parser(text).schema()


class _Parser:
    """Reads a schema from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text.strip()
        self._at = 0

    def schema(self) -> StructType:
        from polylake.schema import StructType

        if self._text.lower().startswith("struct<"):
            kind = self._type()
            if self._peek() is None and isinstance(kind, StructType):
                return kind
            raise self._error("the struct ends before the text does")
        return self._fields(end=None)

    def _fields(self, end: str | None) -> StructType:
        from polylake.schema import StructType

        fields: list[StructField] = []
        while self._peek() not in (end, None):
            fields.append(self._field())
            if self._peek() != ",":
                break
            self._next()
        if self._peek() != end or not fields:
            raise self._error("a column is NAME: TYPE, and a comma comes before the next")
        if end is not None:
            self._next()
        return StructType(tuple(fields))

    def _field(self) -> StructField:
        from polylake.schema import StructField

        name = self._word("a column's name")
        self._expect(":")
        kind = self._type()
        nullable = True
        if (self._peek() or "").lower() == "not":
            self._next()
            if self._word("null").lower() != "null":
                raise self._error("`not` is followed by `null`")
            nullable = False
        return StructField(name, kind, nullable)

    def _type(self) -> DataType:
        from polylake.schema import ArrayType, MapType

        name = self._word("a type").lower()
        if self._peek() == "<":
            self._next()
            match name:
                case "struct":
                    return self._fields(end=">")
                case "array":
                    element = self._type()
                    self._expect(">")
                    return ArrayType(element)
                case "map":
                    key = self._type()
                    self._expect(",")
                    value = self._type()
                    self._expect(">")
                    return MapType(key, value)
                case _:
                    raise self._error(f"{name} takes no types; struct, array and map do")
        return self._simple(name)

    def _simple(self, name: str) -> DataType:
        from polylake.schema._json import parse_type_name

        if self._peek() == "(":
            self._next()
            digits = [self._word("a number of digits")]
            if self._peek() == ",":
                self._next()
                digits.append(self._word("a number of digits"))
            self._expect(")")
            name = f"{name}({','.join(digits)})"
        return parse_type_name(name)

    def _peek(self) -> str | None:
        found = _TOKEN.match(self._text, self._at)
        return None if found is None else found[1] or found[2] or found[3]

    def _next(self) -> str:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise self._error("it ends too early")
        self._at = found.end()
        return found[1] or found[2] or found[3]

    def _word(self, what: str) -> str:
        found = _TOKEN.match(self._text, self._at)
        if found is None or found[3]:
            raise self._error(f"{what} is missing")
        return self._next()

    def _expect(self, mark: str) -> None:
        if self._peek() != mark:
            raise self._error(f"{mark!r} is missing")
        self._next()

    def _error(self, problem: str) -> Misuse:
        left = self._text[self._at :].strip()
        where = f"at {left[:40]!r}" if left else "at the end"
        return Misuse(f"the schema cannot be read {where}: {problem}. An example: {_EXAMPLE}")
