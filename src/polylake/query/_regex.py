r"""Which regular expressions mean the same to Python and to the engines' own library.

Only what both read alike passes: plain characters, dots, simple classes, groups, alternatives,
repetition and anchors at the ends. Classes such as ``\\w``, case folding and look-around differ
in their fine print, so those are left to Python.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""
      (?P<plain>[^\\.^$*+?{}\[\]()|])
    | \\(?P<escaped>[.^$*+?{}\[\]()|\\/-])
    | (?P<dot>\.)
    | \[\^?(?:[A-Za-z0-9](?:-[A-Za-z0-9])?|[ _.,:;/@%=!<>"'])+\]
    | (?P<open>\((?:\?:)?)
    | \)
    | \|
    """,
    re.VERBOSE,
)
_REPEAT = re.compile(r"(?:[*+?]|\{(?P<least>\d{1,3})(?:,(?P<most>\d{1,3})?)?\})\??")
_PREFIX = re.compile(r"(?:\^|\\A)(?P<text>(?:[^\\.^$*+?{}\[\]()|]|\\[.^$*+?{}\[\]()|\\/-])+)")
_CHARACTER = re.compile(r"\\?.", re.DOTALL)


def engine_pattern(pattern: re.Pattern[str]) -> str | None:
    """Return the pattern for Rust's regex library, or None if it might find other strings."""
    if pattern.flags & ~re.DOTALL != re.UNICODE:
        return None
    text = pattern.pattern
    start = 1 if text.startswith("^") else 0
    # A final $ also matches before a newline that ends the string.
    ends = text.endswith("$") and not text.endswith("\\$")
    body = text[start : len(text) - ends]
    if not _is_common(body):
        return None
    flags = "(?s)" if pattern.flags & re.DOTALL else ""
    end = r"\n?\z" if ends else ""
    return f"{flags}{text[:start]}{body}{end}"


def literal_prefix(pattern: re.Pattern[str]) -> str:
    """Return the text that every string begins with in which the pattern is found."""
    if pattern.flags & ~re.DOTALL != re.UNICODE or "|" in pattern.pattern:
        return ""
    found = _PREFIX.match(pattern.pattern)
    if found is None:
        return ""
    characters = _CHARACTER.findall(found["text"])
    if pattern.pattern[found.end() : found.end() + 1] in ("*", "?", "{"):
        characters.pop()  # it may be repeated no times at all
    return "".join(character[-1] for character in characters)


def _is_common(body: str) -> bool:
    at, counted = 0, 0
    repeatable = False
    while at < len(body):
        repeat = _REPEAT.match(body, at) if repeatable else None
        if repeat is not None:
            # Counted repetitions multiply when nested, and the engine limits a pattern's size.
            counted += repeat["least"] is not None
            at, repeatable = repeat.end(), False
            continue
        token = _TOKEN.match(body, at)
        if token is None:
            return False
        repeatable = token["open"] is None and token[0] != "|"
        at = token.end()
    return counted <= 1
