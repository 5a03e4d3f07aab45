"""The types a Delta column can have, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from polylake.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Path: TypeAlias = tuple[str, ...]
"""Names from the root; ``element``, ``key`` and ``value`` step into arrays and maps."""

MAX_DEPTH = 64
"""How deep types nest at most: a bound for recursion, far above what tables hold."""

PRIMITIVE_NAMES = frozenset(
    {
        "string",
        "long",
        "integer",
        "short",
        "byte",
        "float",
        "double",
        "boolean",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
        "void",
        "variant",
    }
)


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type without parts, by the name the protocol gives it."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in PRIMITIVE_NAMES:
            raise SchemaError(f"{self.name!r} is not a Delta type", type=self.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class DecimalType:
    """A decimal of ``precision`` digits, ``scale`` of them after the point."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        if not (1 <= self.precision <= 38 and 0 <= self.scale <= self.precision):
            raise SchemaError(
                f"{self} is not a Delta type: a decimal has 1 to 38 digits, and no more of them "
                "after the point than it has",
                type=str(self),
            )

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of values of one type."""

    element: DataType
    contains_null: bool = True

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """Pairs of a key, which is never null, and a value."""

    key: DataType
    value: DataType
    value_contains_null: bool = True

    def __str__(self) -> str:
        return f"map<{self.key}, {self.value}>"


@dataclass(frozen=True, slots=True)
class StructField:
    """A column, top-level or nested. ``metadata`` is read-only and kept as it was found."""

    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"{self.name}: {self.type}{'' if self.nullable else ' not null'}"


@dataclass(frozen=True, slots=True)
class StructType:
    """Columns in order: a table's schema, or a column made of columns.

    Two columns of one name are refused here. Names that differ in case alone are refused by
    ``check_column_names``, because tables that hold them exist and can be read.
    """

    fields: tuple[StructField, ...]
    _by_name: dict[str, StructField] = field(init=False, repr=False, compare=False)
    _by_folded_name: dict[str, StructField] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fields", tuple(self.fields))
        by_name: dict[str, StructField] = {}
        by_folded_name: dict[str, StructField] = {}
        for column in self.fields:
            if column.name in by_name:
                raise SchemaError(
                    f"column {column.name!r} appears twice in one struct", field=column.name
                )
            by_name[column.name] = column
            by_folded_name.setdefault(column.name.lower(), column)
        object.__setattr__(self, "_by_name", by_name)
        object.__setattr__(self, "_by_folded_name", by_folded_name)

    def __str__(self) -> str:
        return f"struct<{', '.join(map(str, self.fields))}>"

    def __iter__(self) -> Iterator[StructField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns in order."""
        return tuple(self._by_name)

    def get(self, name: str) -> StructField | None:
        """Return the column of exactly this name."""
        return self._by_name.get(name)

    def find(self, name: str) -> StructField | None:
        """Return the column of this name, or else the first whose name differs in case alone."""
        return self._by_name.get(name) or self._by_folded_name.get(name.lower())

    def field(self, path: str | Path) -> StructField:
        """Return the column at ``path``; a plain string is one top-level name, dots and all.

        Raises:
            SchemaError: no column is there.
        """
        steps = (path,) if isinstance(path, str) else path
        here: DataType = self
        found: StructField | None = None
        for step in steps:
            found = here.get(step) if isinstance(here, StructType) else None
            inner = found.type if found else nested_type(here, step)
            if inner is None:
                found = None
                break
            here = inner
        if found is None:
            raise SchemaError(f"there is no column {'.'.join(steps)!r}", field=".".join(steps))
        return found

    def leaves(self) -> Iterator[Path]:
        """Yield the paths of the columns that are not structs, in order.

        Arrays and maps are leaves: that is how statistics count columns.
        """
        for column in self.fields:
            if isinstance(column.type, StructType):
                for rest in column.type.leaves():
                    yield (column.name, *rest)
            else:
                yield (column.name,)


DataType: TypeAlias = PrimitiveType | DecimalType | StructType | ArrayType | MapType


def nested_type(parent: DataType, step: str) -> DataType | None:
    """Return what ``element``, ``key`` or ``value`` means inside an array or a map."""
    match parent, step:
        case ArrayType(element=element), "element":
            return element
        case MapType(key=key), "key":
            return key
        case MapType(value=value), "value":
            return value
        case _:
            return None


STRING = PrimitiveType("string")
LONG = PrimitiveType("long")
INTEGER = PrimitiveType("integer")
SHORT = PrimitiveType("short")
BYTE = PrimitiveType("byte")
FLOAT = PrimitiveType("float")
DOUBLE = PrimitiveType("double")
BOOLEAN = PrimitiveType("boolean")
BINARY = PrimitiveType("binary")
DATE = PrimitiveType("date")
TIMESTAMP = PrimitiveType("timestamp")
TIMESTAMP_NTZ = PrimitiveType("timestamp_ntz")
VOID = PrimitiveType("void")
VARIANT = PrimitiveType("variant")
