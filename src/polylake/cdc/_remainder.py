"""What another system's form of a change says that a record does not.

A record is written in that form from its own fields. Where that is not what was read, the
difference travels with the record, as ``kept`` fields and ``absent`` ones, and is put back on the
way back. A state that was kept counts only as long as it is the record's state still: a record
that was changed on its way is written as it is now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polylake.cdc._json import dump

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polylake.cdc._record import State


def remainder(original: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, Any]:
    """Return what turns ``written`` into ``original``; empty parts are left out."""
    kept = {
        name: value
        for name, value in original.items()
        if name not in written or not same(written[name], value)
    }
    absent = [name for name in written if name not in original]
    parts = {"kept": kept, "absent": absent}
    return {name: part for name, part in parts.items() if part}


def restored(written: Mapping[str, Any], rest: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what ``remainder`` was given first."""
    if not rest:
        return dict(written)
    absent = rest.get("absent", ())
    whole = {name: value for name, value in written.items() if name not in absent}
    return {**whole, **rest.get("kept", {})}


def without_stale(
    rest: Mapping[str, Any],
    states: Mapping[str, State | None],
    read: Callable[[Any], State | None],
) -> dict[str, Any]:
    """Return a remainder without what it says of states that are not the record's any more.

    Args:
        rest: the remainder.
        states: the states of the record, by the names of their fields.
        read: how a field's value is read as a state.
    """
    kept = {
        name: value
        for name, value in rest.get("kept", {}).items()
        if name not in states or read(value) == states[name]
    }
    absent = [name for name in rest.get("absent", ()) if states.get(name) is None]
    return {"kept": kept, "absent": absent}


def same(left: object, right: object) -> bool:
    """Say whether two values are the same JSON: to Python, ``1 == 1.0 == True``."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def identifier(*values: object) -> str:
    """Return the ``_id`` for a key: a text is its own, anything else its JSON."""
    only = values[0] if len(values) == 1 else list(values)
    return str(only) if isinstance(only, str) else dump(only, escape=False, sort_keys=True).decode()
