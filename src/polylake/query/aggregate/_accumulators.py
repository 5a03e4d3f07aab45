"""Accumulators: what ``$group`` keeps of the documents of a group.

Numbers only count for sums, averages and deviations; null and missing never for the least and the
greatest; missing is null for the first and the last, and is not pushed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Protocol

from polylake.query._values import MISSING, compare_key
from polylake.query.aggregate._function import Function, is_null, listed
from polylake.query.aggregate._numbers import Sum, is_number, to_double

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Accumulator(Protocol):
    """Takes value after value, and says at the end what they come to."""

    def add(self, value: object) -> None:
        """Take the value of one more document."""
        ...

    def result(self) -> object:
        """Return what the values so far come to."""
        ...


class _Total:
    __slots__ = ("_sum",)

    def __init__(self) -> None:
        self._sum = Sum()

    def add(self, value: object) -> None:
        if is_number(value):
            self._sum.add(value)

    def result(self) -> object:
        return self._sum.total()


class _Average(_Total):
    __slots__ = ()

    def result(self) -> object:
        return self._sum.mean()


class _Extreme:
    """The value with the least key, or the greatest; of equal ones the first."""

    __slots__ = ("_best", "_greatest", "_key")

    def __init__(self, *, greatest: bool) -> None:
        self._greatest = greatest
        self._best: object = None
        self._key: Any = None

    def add(self, value: object) -> None:
        if is_null(value):
            return
        key = compare_key(value)
        if self._key is None or (key > self._key if self._greatest else key < self._key):
            self._best, self._key = value, key

    def result(self) -> object:
        return self._best


class _First:
    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value: list[object] = []

    def add(self, value: object) -> None:
        if not self._value:
            self._value.append(None if value is MISSING else value)

    def result(self) -> object:
        return self._value[0] if self._value else None


class _Last:
    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value: object = None

    def add(self, value: object) -> None:
        self._value = None if value is MISSING else value

    def result(self) -> object:
        return self._value


class _Push:
    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[object] = []

    def add(self, value: object) -> None:
        if value is not MISSING:
            self._values.append(value)

    def result(self) -> object:
        return self._values


class _AddToSet:
    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: dict[object, object] = {}

    def add(self, value: object) -> None:
        if value is not MISSING:
            self._values.setdefault(compare_key(value), value)

    def result(self) -> object:
        return list(self._values.values())


class _Count:
    __slots__ = ("_count",)

    def __init__(self) -> None:
        self._count = 0

    def add(self, _: object) -> None:
        self._count += 1

    def result(self) -> object:
        return self._count


class _Deviation:
    """Welford's method: the mean and the squared distances from it, value by value."""

    __slots__ = ("_count", "_mean", "_sample", "_squares")

    def __init__(self, *, sample: bool) -> None:
        self._sample = sample
        self._count = 0
        self._mean = 0.0
        self._squares = 0.0

    def add(self, value: object) -> None:
        if not is_number(value):
            return
        number = to_double(value)
        self._count += 1
        distance = number - self._mean
        self._mean += distance / self._count
        self._squares += distance * (number - self._mean)

    def result(self) -> object:
        freedom = self._count - self._sample
        return math.sqrt(self._squares / freedom) if freedom > 0 else None


ACCUMULATORS: Final[Mapping[str, Callable[[], Accumulator]]] = {
    "$sum": _Total,
    "$avg": _Average,
    "$min": lambda: _Extreme(greatest=False),
    "$max": lambda: _Extreme(greatest=True),
    "$first": _First,
    "$last": _Last,
    "$push": _Push,
    "$addToSet": _AddToSet,
    "$count": _Count,
    "$stdDevPop": lambda: _Deviation(sample=False),
    "$stdDevSamp": lambda: _Deviation(sample=True),
}


def _over_values(name: str) -> Function:
    """Make an operator that accumulates its operands, or the elements of its only one."""

    def apply(*values: object) -> object:
        only = values[0] if len(values) == 1 else None
        state = ACCUMULATORS[name]()
        for value in only if isinstance(only, list) else values:
            state.add(value)
        return state.result()

    return listed(apply, 1, None)


ACCUMULATING: Final[Mapping[str, Function]] = {
    name: _over_values(name)
    for name in ("$sum", "$avg", "$min", "$max", "$stdDevPop", "$stdDevSamp")
}
"""The accumulators that are also operators of expressions."""
