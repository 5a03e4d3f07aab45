"""Which column names a table can have."""

from __future__ import annotations

from polylake.errors import SchemaError
from polylake.schema._mapping import MappingMode
from polylake.schema._types import DataType, Path, StructType
from polylake.schema._walk import walk

_REFUSED_WITHOUT_MAPPING = frozenset(" ,;{}()\n\t=")


def check_column_names(schema: StructType, mode: MappingMode) -> None:
    """Check that a table with this schema can be written.

    Raises:
        SchemaError: two columns of a struct differ in case alone, or a name holds a character
            that only tables with column mapping can have.
    """
    _check_case((), schema)
    for path, kind, field in walk(schema):
        _check_case(path, kind)
        refused = _REFUSED_WITHOUT_MAPPING.intersection(field.name) if field else ()
        if refused and mode is MappingMode.NONE:
            column = ".".join(path)
            shown = ", ".join(sorted(map(repr, refused)))
            raise SchemaError(
                f"the name of column {column!r} holds {shown}: rename it, or turn on column "
                "mapping",
                field=column,
            )


def _check_case(path: Path, kind: DataType) -> None:
    seen: dict[str, str] = {}
    for field in kind if isinstance(kind, StructType) else ():
        other = seen.setdefault(field.name.lower(), field.name)
        if other != field.name:
            column = ".".join((*path, field.name))
            raise SchemaError(
                f"column {column!r} differs from {other!r} in case alone", field=column
            )
