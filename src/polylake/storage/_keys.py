"""Which strings are keys.

A key is relative and ``/``-separated, and no segment of it is empty, ``.`` or ``..``. A percent
sign is an ordinary character, except that a key which decodes into one that leaves the root is
refused: whoever decodes it later, a server or a path library, must not be led outside.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from polylake.errors import ValidationError

# A segment that starts with neither a dot nor a slash and holds no character worth a second look.
_SEGMENT = r"[^./%\0\ud800-\udfff][^/%\0\ud800-\udfff]*+"
_is_plain = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*+").fullmatch


def check_key(key: str) -> str:
    """Return ``key`` if it can name an object.

    Raises:
        ValidationError: the key is empty, absolute, not Unicode, or could leave the root.
    """
    if _is_plain(key) is None:
        _inspect(key)
    return key


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if some key could start with it; the empty prefix starts every key.

    Raises:
        ValidationError: no key starts with it.
    """
    if prefix:
        check_key(f"{prefix}x")
    return prefix


def is_key(name: str) -> bool:
    """Say whether ``name`` can name an object."""
    return _is_plain(name) is not None or _flaw(name) is None


def _inspect(key: str) -> None:
    flaw = _flaw(key)
    if flaw is not None:
        raise ValidationError(f"{key!r} is not a key: it {flaw}", field="key", key=key)


def _flaw(key: str) -> str | None:
    if not key:
        return "is empty"
    if "\0" in key:
        return "holds a NUL byte"
    if any("\ud800" <= character <= "\udfff" for character in key):
        return "is not valid Unicode"
    if key.startswith("/"):
        return "is absolute"
    if "" in key.split("/"):
        return "has an empty segment"
    return "could leave the root" if _leaves_root(key) else None


def _leaves_root(key: str) -> bool:
    while True:
        if key.startswith("/") or not {".", ".."}.isdisjoint(key.split("/")):
            return True
        decoded = unquote(key)
        if decoded == key:
            return False
        key = decoded
