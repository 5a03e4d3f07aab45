"""Which orders rows of a table can be put in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polylake.errors import ValidationError
from polylake.schema import VARIANT, VOID, ArrayType, MapType

if TYPE_CHECKING:
    from polylake.engine._contract import RowOrder, TableShape
    from polylake.schema import Path


def check_order(shape: TableShape, order: RowOrder) -> tuple[Path, ...]:
    """Return where the columns of an order are.

    Raises:
        ValidationError: there is no such column, or its values have no order.
    """
    paths = {".".join(path): path for path in shape.schema.leaves()}
    for name in order.columns:
        kind = shape.schema.field(paths[name]).type if name in paths else None
        if kind is None or kind in {VARIANT, VOID} or isinstance(kind, (ArrayType, MapType)):
            problem = (
                "is no column of the table" if kind is None else f"is {kind}, without an order"
            )
            raise ValidationError(f"{name!r} {problem}", field="order", column=name)
    return tuple(paths[name] for name in order.columns)
