"""Options as a user gives them: keywords, checked by name, made into an options value."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from polylake.errors import ValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping

_LISTS = frozenset(
    {"partition_by", "features", "bloom_columns", "sort_by", "columns", "keys", "order_by"}
)


def build_options(kind: type[Any], options: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of ``kind``
    """Make an options value of keywords, which may give a name or a list for a tuple.

    Raises:
        ValidationError: there is no such option, or it does not take such a value.
    """
    known = option_names(kind)
    unknown = options.keys() - known
    if unknown:
        raise unknown_option(min(unknown), known)
    given = dict(options)
    for name in _LISTS & given.keys():
        value = given[name]
        if isinstance(value, (str, list)):
            given[name] = (value,) if isinstance(value, str) else tuple(value)
    try:
        return kind(**given)
    except TypeError as error:
        told = ", ".join(f"{name}={value!r}" for name, value in options.items())
        raise ValidationError(
            f"an option has the wrong type, of {told}: {error}", field="options"
        ) from error


def option_names(kind: type[Any]) -> frozenset[str]:
    """Return the names of the options that a kind of options has."""
    return frozenset(field.name for field in fields(kind))


def unknown_option(name: str, known: frozenset[str]) -> ValidationError:
    """Return the error for an option that does not exist."""
    return ValidationError(
        f"unknown option {name!r}; there are {', '.join(sorted(known))}", field=name
    )
