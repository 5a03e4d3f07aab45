"""Wrong input to the maintenance of a table is told before anything is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from polylake import DeltaTable
from polylake.errors import ValidationError
from polylake.storage import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda table: table.pin("x"), "'x' is no version"),
        (lambda table: table.should_checkpoint("a"), "'a' is no number of commits"),
        (lambda table: table.compact(min_files="x"), "min_files='x'"),
        (lambda table: table.vacuum("a"), "retention_hours='a'"),
    ],
    ids=["pin", "should-checkpoint", "compact", "vacuum"],
)
def test_a_value_of_the_wrong_type_is_named(
    call: Callable[[DeltaTable], object], told: str
) -> None:
    table = DeltaTable(MemoryStorage())
    table.write([{"id": 1}])
    with pytest.raises(ValidationError, match=told):
        call(table)
    assert table.refresh().version == 0
