"""Documents to JSON and back, with nothing lost on the way."""

from __future__ import annotations

from typing import Any

import orjson

from polylake.cdc._extended import from_extended, to_extended
from polylake.errors import CDCError


def dump(value: Any, *, escape: bool = True, sort_keys: bool = False) -> bytes:  # noqa: ANN401 - any value
    """Return a value as JSON, extended where JSON lacks a type.

    Args:
        value: the value.
        escape: mark objects that look like extended values and are none, so that ``load``
            gives back what was there.
        sort_keys: write equal documents as equal texts.

    Raises:
        CDCError: a part of the value has no JSON form.
    """
    try:
        plain = to_extended(value, escape=escape)
        return orjson.dumps(plain, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    except (TypeError, RecursionError) as error:
        raise CDCError(f"the value has no JSON form: {error}") from error


def load(text: bytes | str, *, escape: bool = True) -> Any:  # noqa: ANN401 - any value
    """Return the value that ``dump`` wrote.

    Raises:
        CDCError: the text is not JSON, or an extended value in it is malformed.
    """
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    try:
        value = orjson.loads(data)
        # Most documents hold no extended value at all, and are not looked through.
        if b"$" not in data and b"\\u0024" not in data:
            return value
        return from_extended(value, escape=escape)
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise CDCError(f"not JSON: {error}") from error
