"""Apply an update to a document, as MongoDB does, without changing the document itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

from polylake.errors import ValidationError
from polylake.query._filter import ElemMatch, ElemMatchValue
from polylake.query._match import leaf_test
from polylake.query._update import (
    AddToSet,
    Change,
    Edit,
    Inc,
    Max,
    Min,
    Mul,
    Pull,
    PullWhere,
    Push,
    Rename,
    Set,
    Unset,
    Update,
)
from polylake.query._values import BRACKETS, MISSING, Bracket, compare_key

if TYPE_CHECKING:
    from polylake.schema import Path

Editor: TypeAlias = Callable[[Any], Any]
"""From the value that is there, or ``MISSING``, to the one that shall be."""

_EXACT = Context(prec=76)  # a product of two decimals of 38 digits


def apply_update(document: Mapping[str, object], update: Update) -> dict[str, Any]:
    """Return the document as the update leaves it; what did not change is shared with it.

    Raises:
        ValidationError: a change does not fit what is there, such as adding to a string.
    """
    return reduce(_apply, update.changes, dict(document))


def _apply(document: dict[str, Any], change: Change) -> dict[str, Any]:
    if isinstance(change, Rename):
        return _rename(document, change)
    creates = not isinstance(change, (Unset, Pull, PullWhere))
    changed = _edit(document, change.path, _editor(change), change.path, creates=creates)
    return dict(changed)


def _editor(change: Edit) -> Editor:
    match change:
        case Set(_, value):
            return lambda _: value
        case Unset():
            return lambda _: MISSING
        case Inc(path, number) | Mul(path, number):
            name = "$inc" if isinstance(change, Inc) else "$mul"
            return lambda old: _calculate(path, name, old, number)
        case Min(_, value) | Max(_, value):
            smaller = isinstance(change, Min)
            return lambda old: value if _replaces(value, old, smaller=smaller) else old
        case Push():
            return lambda old: _push(change, old)
        case AddToSet():
            return lambda old: _add_to_set(change, old)
        case Pull() | PullWhere():
            return lambda old: _pull(change, old)
        case _:
            assert_never(change)


def _edit(container: object, steps: Path, edit: Editor, path: Path, *, creates: bool) -> Any:  # noqa: ANN401 - a dict or a list
    """Return a copy of a container with the value at ``steps`` edited."""
    name, rest = steps[0], steps[1:]
    if isinstance(container, list):
        return _edit_in_list(container, steps, edit, path, creates=creates)
    if not isinstance(container, Mapping):
        if not creates:
            return container
        raise _error(path, f"cannot have a field {name!r} inside {container!r}")
    old = container.get(name, MISSING)
    if rest:
        if old is MISSING and not creates:
            return container
        new = _edit({} if old is MISSING else old, rest, edit, path, creates=creates)
    else:
        new = edit(old)
    if new is MISSING:
        return {key: value for key, value in container.items() if key != name}
    return {**container, name: new}


def _edit_in_list(
    array: list[Any], steps: Path, edit: Editor, path: Path, *, creates: bool
) -> list[Any]:
    name, rest = steps[0], steps[1:]
    if not (name.isascii() and name.isdigit()):
        if not creates:
            return array
        raise _error(path, f"leads into an array, where {name!r} is no index")
    index = int(name)
    if index >= len(array) and not creates:
        return array
    if index > len(array) + _MAX_GAP:
        raise _error(path, f"would add more than {_MAX_GAP} nulls to an array")
    padded = array + [None] * (index + 1 - len(array))
    old = array[index] if index < len(array) else MISSING
    if rest:
        new = _edit({} if old is MISSING else old, rest, edit, path, creates=creates)
    else:
        new = edit(old)
    padded[index] = None if new is MISSING else new
    return padded


_MAX_GAP = 1_500_000


def _rename(document: dict[str, Any], change: Rename) -> dict[str, Any]:
    moved: list[object] = []

    def take(old: object) -> object:
        moved.append(old)
        return MISSING

    for path in (change.path, change.to):
        _refuse_arrays(document, path)
    without = _edit(document, change.path, take, change.path, creates=False)
    if not moved or moved[0] is MISSING:
        return document
    return dict(_edit(without, change.to, lambda _: moved[0], change.to, creates=True))


def _refuse_arrays(document: Mapping[str, Any], path: Path) -> None:
    here: Any = document
    for step in path[:-1]:
        here = here.get(step) if isinstance(here, Mapping) else None
        if isinstance(here, list):
            raise _error(path, "leads into an array, where nothing can be renamed")


def _calculate(path: Path, name: str, old: Any, operand: Any) -> Any:  # noqa: ANN401 - numbers of any type
    if old is MISSING:
        return operand if name == "$inc" else operand * 0
    if BRACKETS[type(old)] is not Bracket.NUMBER:
        raise _error(path, f"holds {old!r}, and {name} takes a number")
    if isinstance(old, Decimal) or isinstance(operand, Decimal):
        left, right = Decimal(old), Decimal(operand)
        return _EXACT.add(left, right) if name == "$inc" else _EXACT.multiply(left, right)
    return old + operand if name == "$inc" else old * operand


def _replaces(value: object, old: object, *, smaller: bool) -> bool:
    if old is MISSING:
        return True
    new_key, old_key = compare_key(value), compare_key(old)
    return new_key < old_key if smaller else new_key > old_key


def _array(path: Path, name: str, old: object) -> list[Any]:
    if old is MISSING:
        return []
    if not isinstance(old, list):
        raise _error(path, f"holds {old!r}, and {name} takes an array")
    return old


def _push(change: Push, old: object) -> list[Any]:
    array = list(_array(change.path, "$push", old))
    at = len(array) if change.position is None else change.position
    array[at:at] = change.values
    for path, direction in reversed(change.order):
        array.sort(key=partial(_sort_key, path), reverse=direction < 0)
    if change.slice is None:
        return array
    return array[: change.slice] if change.slice >= 0 else array[change.slice :]


def _sort_key(path: Path, item: object) -> tuple[Bracket, Any]:
    for step in path:
        item = item.get(step, MISSING) if isinstance(item, Mapping) else MISSING
    return compare_key(item)


def _add_to_set(change: AddToSet, old: object) -> list[Any]:
    array = list(_array(change.path, "$addToSet", old))
    present = {compare_key(item) for item in array}
    for value in change.values:
        key = compare_key(value)
        if key not in present:
            present.add(key)
            array.append(value)
    return array


def _pull(change: Pull | PullWhere, old: object) -> object:
    if old is MISSING:
        return MISSING
    array = _array(change.path, "$pull", old)
    if isinstance(change, Pull):
        key = compare_key(change.value)
        return [item for item in array if compare_key(item) != key]
    match_class = ElemMatch if change.of_documents else ElemMatchValue
    test = leaf_test(match_class((), change.filter))
    return [item for item in array if not test([item])]


def _error(path: Path, problem: str) -> ValidationError:
    where = ".".join(path)
    return ValidationError(f"{where!r} {problem}", field=where)
