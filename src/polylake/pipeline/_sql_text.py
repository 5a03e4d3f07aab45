"""What can be told of SQL before there is a Spark session to read it."""

from __future__ import annotations

import re

_PARTS = re.compile(
    r"""(?P<skip>--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)
      | (?P<open>'|"|`|/\*)
      | (?P<bracket>[()\[\]])
      | (?P<end>;)
      | (?P<word>[A-Za-z_]\w*)""",
    re.VERBOSE | re.DOTALL,
)
_PAIRS = {")": "(", "]": "["}
_QUERIES = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE"})


def rule_problem(text: str) -> str | None:
    """Say what is wrong with a condition, as far as can be told; ``None`` if nothing is."""
    words, problem = _scan(text)
    if problem is None and words and words[0].upper() == "SELECT":
        return "is a query; a rule is a condition, such as amount > 0"
    return problem


def query_problem(text: str) -> str | None:
    """Say what is wrong with a query, as far as can be told; ``None`` if nothing is."""
    words, problem = _scan(text.strip().rstrip(";"))
    if problem is not None:
        return problem
    if not words or words[0].upper() not in _QUERIES:
        return "is no query; it begins with SELECT, WITH, FROM or VALUES"
    if "input" not in {word.lower() for word in words} and words[0].upper() != "VALUES":
        return "does not read the rows: they are the table input, as in SELECT * FROM input"
    return None


def _scan(text: str) -> tuple[list[str], str | None]:
    """Return the words outside of quotes and comments, and what does not close."""
    if not text.strip():
        return [], "is empty"
    words: list[str] = []
    opened: list[str] = []
    for part in _PARTS.finditer(text):
        match part.lastgroup:
            case "open":
                return words, f"has a {part[0]} that is not closed"
            case "end":
                return words, "has more than one statement"
            case "word":
                words.append(part[0])
            case "bracket" if part[0] in _PAIRS:
                if not opened or opened.pop() != _PAIRS[part[0]]:
                    return words, f"has a {part[0]} that was not opened"
            case "bracket":
                opened.append(part[0])
    return words, f"has a {opened[-1]} that is not closed" if opened else None
