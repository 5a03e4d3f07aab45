"""The Spark SQL that tables hold: constraints, invariants, generated columns, defaults.

Polars evaluates it. Polars reads another dialect, so only what both understand alike goes through,
token by token; everything else is refused by name, and a rule that cannot be evaluated stops the
write. Timestamps are compared, and taken apart, in UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from polylake.errors import ValidationError
from polylake.schema import (
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DataType,
    DecimalType,
    StructType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl
    import pyarrow as pa

_KEYWORDS = frozenset(
    {"AND", "OR", "NOT", "IN", "BETWEEN", "IS", "NULL", "LIKE", "TRUE", "FALSE"}
    | {"CASE", "WHEN", "THEN", "ELSE", "END"}
)
# What the result is cast to: Polars gives the narrowest type, which then overflows sooner.
_FUNCTIONS = {
    **dict.fromkeys(("ABS", "COALESCE", "LOWER", "UPPER"), ""),
    **dict.fromkeys(("LENGTH", "CHAR_LENGTH", "CHARACTER_LENGTH"), "BIGINT"),
    **dict.fromkeys(("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"), "BIGINT"),
}
_CAST_FUNCTIONS = {"DATE": "DATE", "TO_DATE": "DATE"}
_TYPES = {
    "BYTE": "TINYINT",
    "TINYINT": "TINYINT",
    "SHORT": "SMALLINT",
    "SMALLINT": "SMALLINT",
    "INT": "INT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "BIGINT": "BIGINT",
    "DOUBLE": "DOUBLE",
    "STRING": "VARCHAR",
    "DATE": "DATE",
}
_WHOLE = frozenset({BYTE, SHORT, INTEGER, LONG})
_MOMENTS = frozenset({DATE, TIMESTAMP, TIMESTAMP_NTZ})
_OPERATORS = frozenset({"<=>", "<=", ">=", "<>", "!=", "==", "=", "<", ">", "+", "-", "*", "||"})
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>'[^']*'|"[^"]*")
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?L?(?![\w.]))
      | (?P<name>(?:`[^`]+`|[^\W\d]\w*)(?:\s*\.\s*(?:`[^`]+`|[^\W\d]\w*))*)
      | (?P<sign><=>|<=|>=|<>|!=|==|\|\||[-=<>+*/%(),])
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class SqlExpression:
    """An expression that Polars evaluates as Spark does."""

    text: str
    """As the table has it."""
    expr: pl.Expr
    columns: tuple[str, ...]
    """The top-level columns it looks at."""

    def evaluate(self, batch: pa.RecordBatch) -> pl.Series:
        """Return the expression's value for each row of a batch of the table's columns.

        Raises:
            ValidationError: the types do not go together.
        """
        import polars as pl  # noqa: PLC0415 - slow to import

        frame = pl.DataFrame(batch.select(list(self.columns)))
        frame = frame.with_columns(_as_compared(column) for column in frame.iter_columns())
        if not self.columns:
            frame = pl.DataFrame({"": range(len(batch))})
        try:
            series = frame.select(_value=self.expr).get_column("_value")
        except pl.exceptions.PolarsError as error:
            reason = str(error).split("\n", 1)[0]
            raise ValidationError(f"{self.text!r} cannot be evaluated: {reason}") from error
        return series if len(series) == len(batch) else series.new_from_index(0, len(batch))


def compile_sql(text: str, schema: StructType) -> SqlExpression:
    """Read an expression of Spark SQL over a table's columns.

    Raises:
        ValidationError: it uses what polylake cannot evaluate; the message names it.
    """
    import polars as pl  # noqa: PLC0415 - slow to import

    translation = _Translation(_tokens(text), schema)
    translated = translation.run()
    try:
        expr = pl.sql_expr(translated)
    except pl.exceptions.PolarsError as error:
        reason = str(error).split("\n", 1)[0]
        raise ValidationError(f"{text!r} cannot be read: {reason}", expression=text) from error
    return SqlExpression(text, expr, tuple(dict.fromkeys(translation.columns)))


class _Token(NamedTuple):
    kind: str
    text: str

    @property
    def word(self) -> str:
        return self.text.upper()


_END = _Token("end", "the end")


def _tokens(text: str) -> list[_Token]:
    found, at = [], 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            _refuse(text[at:].split(maxsplit=1)[0])
        found.append(_Token(match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return found


class _Translation:
    """One pass over the tokens; what it gives is the same expression in Polars' dialect."""

    def __init__(self, tokens: Sequence[_Token], schema: StructType) -> None:
        self._tokens = [*tokens, _END, _END, _END]
        self._schema = schema
        self._at = 0
        self._closings: list[str] = []
        self._compared: DataType | None = None
        self.columns: list[str] = []

    def run(self) -> str:
        """Return the translated expression."""
        parts = []
        while self._tokens[self._at] is not _END:
            parts.append(self._step())
        return " ".join(parts)

    def _step(self) -> str:
        token = self._take()
        match token.kind:
            case "text":
                return self._literal(token.text)
            case "number":
                return token.text.removesuffix("L")
            case "name":
                return self._name(token)
            case _:
                return self._sign(token.text)

    def _take(self) -> _Token:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _literal(self, text: str, kind: str = "") -> str:
        inner = text[1:-1]
        # Spark reads \ and a doubled quote in its own way, and not in all versions alike.
        if "\\" in inner or "'" in inner or self._tokens[self._at].kind == "text":
            _refuse(text)
        if not kind and self._compared in _MOMENTS:
            kind = "DATE" if self._compared == DATE else "TIMESTAMP"
        if kind == "TIMESTAMP" and re.fullmatch(r"\d{4}-\d\d-\d\d", inner):
            inner += " 00:00:00"
        return f"{kind} '{inner}'"

    def _name(self, token: _Token) -> str:
        after, word = self._tokens[self._at], token.word
        if after.text == "(" and word not in _KEYWORDS:
            return self._call(word)
        if after.kind == "text" and word in {"DATE", "TIMESTAMP"}:
            return self._literal(self._take().text, word)
        if word in _KEYWORDS and not token.text.startswith("`"):
            if word == "IS":
                return self._is_null()
            return word
        return self._column(token.text)

    def _is_null(self) -> str:
        # Polars' IS TRUE and IS DISTINCT FROM give null where Spark's do not.
        words = ["IS"]
        if self._tokens[self._at].word == "NOT":
            words.append(self._take().word)
        if self._tokens[self._at].word != "NULL":
            _refuse(" ".join([*words, self._tokens[self._at].text]))
        return " ".join([*words, self._take().word])

    def _call(self, word: str) -> str:
        self._take()
        if word == "CAST":
            return self._cast()
        if word in _CAST_FUNCTIONS:
            source = self._argument()
            self._expect(")")
            return self._converted(source, _CAST_FUNCTIONS[word])
        if word not in _FUNCTIONS:
            _refuse(f"{word.lower()}()")
        kind = _FUNCTIONS[word]
        self._closings.append(f") AS {kind})" if kind else ")")
        return f"CAST({word}(" if kind else f"{word}("

    def _cast(self) -> str:
        """Translate the cast of a column; casts of other things are too many to compare."""
        source = self._argument()
        self._expect("AS")
        kind = self._take().word
        if kind not in _TYPES:
            _refuse(f"CAST AS {kind}")
        self._expect(")")
        return self._converted(source, kind)

    def _argument(self) -> tuple[str, DataType]:
        token = self._take()
        if token.kind != "name" or self._tokens[self._at].text == "(":
            _refuse(f"a cast of {token.text}")
        if self._tokens[self._at].word not in {"AS", ")"}:
            _refuse("a cast of more than a column")
        column = self._column(token.text)
        kind, self._compared = self._compared, None
        assert kind is not None  # noqa: S101 - set by _column
        return column, kind

    def _converted(self, source: tuple[str, DataType], target: str) -> str:
        column, kind = source
        name = _TYPES[target]
        number = kind in _WHOLE or kind in {FLOAT, DOUBLE} or isinstance(kind, DecimalType)
        match name:
            case "DATE":
                possible = kind in _MOMENTS or kind == STRING
            case "VARCHAR":
                possible = kind in _WHOLE or kind in {STRING, DATE, BOOLEAN}
            case _:
                possible = number
        if not possible:
            _refuse(f"a cast of {kind} to {target.lower()}")
        self._compared = DATE if name == "DATE" else None
        return f"CAST({column} AS {name})"

    def _column(self, text: str) -> str:
        path = [part.strip().strip("`") for part in re.findall(r"`[^`]+`|[^.]+", text)]
        here: DataType = self._schema
        names = []
        for step in path:
            field = here.find(step) if isinstance(here, StructType) else None
            if field is None or '"' in field.name:
                _refuse(text)
            names.append(field.name)
            here = field.type
        self.columns.append(names[0])
        self._compared = here
        return ".".join(f'"{name}"' for name in names)

    def _sign(self, sign: str) -> str:
        if sign == "(":
            self._closings.append(")")
            return sign
        if sign == ")":
            if not self._closings:
                _refuse(sign)
            return self._closings.pop()
        if sign in {"/", "%"}:
            divisor = self._tokens[self._at]
            # By zero, Spark gives null or fails, and Polars gives infinity.
            if divisor.kind != "number" or float(divisor.text.removesuffix("L")) == 0:
                _refuse(f"{sign} by anything but a number")
        elif sign not in _OPERATORS and sign != ",":
            _refuse(sign)
        return sign

    def _expect(self, word: str) -> None:
        token = self._take()
        if token.word != word:
            _refuse(token.text)


def _refuse(what: str) -> NoReturn:
    raise ValidationError(f"{what}, which polylake cannot evaluate", uses=what)


def _as_compared(column: pl.Series) -> pl.Series:
    """Widen numbers as Spark does before it computes, and let timestamps stand in UTC."""
    import polars as pl  # noqa: PLC0415 - slow to import

    if column.dtype.is_integer():
        return column.cast(pl.Int64)
    if column.dtype == pl.Float32:
        return column.cast(pl.Float64)
    if isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone:
        return column.dt.replace_time_zone(None)
    return column
