"""Delta types to Arrow types and back."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from polylake.errors import SchemaError
from polylake.schema import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    ArrayType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    from_arrow,
    from_arrow_type,
    to_arrow,
    to_arrow_type,
)


class Tagged(pa.ExtensionType):
    def __init__(self, storage: pa.DataType, name: str) -> None:
        super().__init__(storage, name)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""


@pytest.mark.parametrize(
    ("arrow", "kind"),
    [
        (pa.large_string(), STRING),
        (pa.string_view(), STRING),
        (pa.large_binary(), BINARY),
        (pa.binary_view(), BINARY),
        (pa.binary(16), BINARY),
        (pa.dictionary(pa.int8(), pa.large_string()), STRING),
        (pa.run_end_encoded(pa.int32(), pa.int64()), LONG),
        (pa.uint8(), SHORT),
        (pa.uint16(), INTEGER),
        (pa.uint32(), LONG),
        (pa.uint64(), DecimalType(20, 0)),
        (pa.float16(), FLOAT),
        (pa.float64(), DOUBLE),
        (pa.date64(), DATE),
        (pa.timestamp("ns"), TIMESTAMP_NTZ),
        (pa.timestamp("s"), TIMESTAMP_NTZ),
        (pa.timestamp("ms", "Europe/Berlin"), TIMESTAMP),
        (pa.timestamp("us", "+05:30"), TIMESTAMP),
        (pa.decimal32(5, 2), DecimalType(5, 2)),
        (pa.decimal64(18, 2), DecimalType(18, 2)),
        (pa.decimal256(38, 10), DecimalType(38, 10)),
        (pa.decimal128(5, -2), DecimalType(7, 0)),
        (pa.decimal128(2, 5), DecimalType(5, 5)),
        (pa.list_(pa.int64()), ArrayType(LONG)),
        (
            pa.list_(pa.field("item", pa.int64(), nullable=False)),
            ArrayType(LONG, contains_null=False),
        ),
        (pa.large_list(pa.int64()), ArrayType(LONG)),
        (pa.list_(pa.int64(), 3), ArrayType(LONG)),
        (pa.list_view(pa.int64()), ArrayType(LONG)),
        (pa.large_list_view(pa.int64()), ArrayType(LONG)),
        (pa.map_(pa.string(), pa.list_(pa.int64())), MapType(STRING, ArrayType(LONG))),
        (pa.struct([pa.field("a", pa.null())]), StructType((StructField("a", VOID),))),
        (pa.uuid(), BINARY),
        (pa.json_(), STRING),
        (Tagged(pa.int64(), "some.thing"), LONG),
        (Tagged(pa.struct([("metadata", pa.binary())]), "arrow.parquet.variant"), VARIANT),
    ],
    ids=str,
)
def test_every_arrow_type_with_a_counterpart_is_taken(arrow, kind):
    assert from_arrow(pa.schema([("c", arrow)])) == StructType((StructField("c", kind),))
    assert from_arrow_type(arrow) == kind


@pytest.mark.parametrize(
    ("arrow", "advice"),
    [
        (pa.time32("ms"), "cast it to a string"),
        (pa.time64("us"), "cast it to a string"),
        (pa.duration("s"), "cast it to int64"),
        (pa.month_day_nano_interval(), "split it"),
        (pa.sparse_union([pa.field("a", pa.int8())]), "make it a struct"),
        (pa.decimal256(76, 0), "1 to 38 digits"),
        (pa.decimal128(38, -1), "1 to 38 digits"),
    ],
    ids=str,
)
def test_an_arrow_type_without_a_counterpart_is_an_error_that_says_what_to_do(arrow, advice):
    with pytest.raises(SchemaError, match=advice) as caught:
        from_arrow(pa.schema([("s", pa.struct([("c", pa.list_(arrow))]))]))
    assert caught.value.field == "s.c.element"


def test_a_variant_is_told_from_a_struct_of_two_binaries_wherever_it_is():
    twin = StructType((StructField("metadata", BINARY, False), StructField("value", BINARY, False)))
    schema = StructType(
        tuple(
            StructField(f"c{number}", kind)
            for number, kind in enumerate(
                [VARIANT, twin, ArrayType(VARIANT), MapType(STRING, VARIANT), ArrayType(twin)]
            )
        )
    )
    assert to_arrow_type(VARIANT) == to_arrow_type(twin)
    assert from_arrow(to_arrow(schema)) == schema


def test_an_unregistered_variant_extension_is_a_variant():
    field = pa.field(
        "v",
        pa.struct([("metadata", pa.binary()), ("value", pa.binary())]),
        metadata={"ARROW:extension:name": "arrow.parquet.variant"},
    )
    assert from_arrow(pa.schema([field])).field("v").type == VARIANT


def test_a_struct_is_a_schema_and_any_other_type_a_type():
    assert to_arrow(StructType((StructField("a", LONG),))) == pa.schema([("a", pa.int64())])
    assert to_arrow(TIMESTAMP) == pa.timestamp("us", "UTC")


def test_a_void_column_is_nullable_in_arrow():
    assert to_arrow(StructType((StructField("a", VOID, nullable=False),))).field("a").nullable


def test_a_map_with_void_keys_is_a_schema_error():
    with pytest.raises(SchemaError, match="keys are void"):
        to_arrow(MapType(VOID, LONG))


def test_two_columns_of_one_name_are_a_schema_error():
    with pytest.raises(SchemaError, match="appears twice"):
        from_arrow(pa.schema([("a", pa.int8()), ("a", pa.int8())]))


def test_a_hostile_depth_is_a_schema_error():
    kind = pa.int64()
    for _ in range(300):
        kind = pa.list_(kind)
    with pytest.raises(SchemaError, match="nests more than"):
        from_arrow_type(kind)


def test_importing_the_schema_layer_imports_no_compute_kernels():
    code = "import sys, polylake.schema; print(sorted(m for m in sys.modules if 'pyarrow.' in m))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pyarrow.compute" not in out.stdout
    assert "pyarrow.parquet" not in out.stdout
