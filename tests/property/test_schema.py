"""Rules of the schema layer, against their inverses and their simpler twins."""

from __future__ import annotations

import math
import pickle
from itertools import count, product

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.strategies_schema import (
    ATOMIC_NAMES,
    arrow_leaf_types,
    decimals,
    json_values,
    nested_types,
    partition_types,
    partition_values,
    plain_schemas,
    schemas,
    struct_types,
    text,
)

from polylake.errors import SchemaError
from polylake.schema import (
    ArrayType,
    DataType,
    DecimalType,
    MappingMode,
    PrimitiveType,
    StructType,
    as_nullable,
    assign_mapping,
    can_widen,
    check_column_names,
    contains_type,
    diff_schemas,
    format_partition_value,
    from_arrow,
    merge_schemas,
    parse_partition_column,
    parse_partition_value,
    parse_schema,
    partition_folder,
    physical_path,
    schema_to_json,
    to_arrow,
    to_arrow_type,
    to_physical,
    walk,
)


@given(schemas)
def test_json_gives_back_the_schema_that_was_written(schema):
    assert parse_schema(schema_to_json(schema)) == schema


@given(schemas)
def test_a_schema_survives_pickling_and_hashes_alike(schema):
    copy = pickle.loads(pickle.dumps(schema))
    assert copy == schema
    assert hash(copy) == hash(schema)
    assert copy.names == schema.names


@given(st.binary(max_size=60) | st.text(max_size=60))
def test_any_text_is_a_schema_or_a_schema_error(document):
    _parse_or_refuse(document)


@given(schemas, st.data())
def test_a_damaged_schema_is_a_schema_or_a_schema_error(schema, data):
    node = orjson.loads(schema_to_json(schema))
    spots = list(_spots(node))
    container, key = data.draw(st.sampled_from(spots))
    container[key] = data.draw(json_values)
    _parse_or_refuse(orjson.dumps(node))


@given(plain_schemas)
def test_arrow_gives_back_the_schema_that_was_converted(schema):
    assert from_arrow(to_arrow(schema)) == schema


@given(struct_types(nested_types(arrow_leaf_types)))
def test_arrow_carries_no_column_metadata(schema):
    found = from_arrow(to_arrow(schema))
    assert all(not node.field.metadata for node in walk(found) if node.field)


@given(st.lists(partition_types, min_size=3, max_size=3))
def test_widening_is_transitive_and_antisymmetric(types):
    a, b, c = types
    _check_partial_order(a, b, c)


def test_widening_is_a_partial_order_over_every_primitive_type():
    names = [*ATOMIC_NAMES, "void", "variant"]
    some = [DecimalType(10, 0), DecimalType(20, 0), DecimalType(20, 10), DecimalType(38, 38)]
    types: list[DataType] = [*map(PrimitiveType, names), *some]
    for a, b, c in product(types, repeat=3):
        _check_partial_order(a, b, c)


@given(schemas)
def test_every_column_is_found_by_its_physical_path(schema):
    ids = count()
    mapped, _ = assign_mapping(schema, 0, lambda: str(next(ids)))
    physical = to_physical(mapped, MappingMode.NAME)
    logical = [node for node in walk(mapped) if node.field]
    for node, other in zip(logical, (n for n in walk(physical) if n.field), strict=True):
        assert physical_path(mapped, node.path, MappingMode.NAME) == other.path
        assert physical.field(other.path) is other.field


@given(schemas, st.integers(0, 1000))
def test_mapping_numbers_every_column_once_above_the_highest_id(schema, max_id):
    mapped, last = assign_mapping(schema, max_id, None)
    numbers = [n.field.metadata["delta.columnMapping.id"] for n in walk(mapped) if n.field]
    assert sorted(numbers) == list(range(max_id + 1, last + 1))
    assert assign_mapping(mapped, last, None) == (mapped, last)


@given(schemas)
def test_merging_a_schema_with_itself_changes_nothing(schema):
    assert merge_schemas(schema, schema, widen=True) == schema


@given(schemas, schemas)
def test_a_merged_schema_takes_both_and_merging_again_changes_nothing(current, incoming):
    try:
        merged = merge_schemas(current, incoming, widen=True)
    except SchemaError:
        return
    assert merged.names[: len(current)] == current.names
    assert merge_schemas(merged, incoming, widen=False) == merged
    assert merge_schemas(merged, current, widen=False) == merged


@given(schemas, schemas)
def test_a_diff_is_empty_exactly_for_equal_schemas(a, b):
    assert not diff_schemas(a, a)
    assert bool(diff_schemas(a, b)) == (a != b)


@given(schemas)
def test_a_nullable_type_refuses_nulls_nowhere(schema):
    nullable = as_nullable(schema)
    assert all(node.field.nullable for node in walk(nullable) if node.field)
    assert not contains_type(nullable, lambda k: isinstance(k, ArrayType) and not k.contains_null)


@given(schemas)
def test_mapped_columns_may_have_any_name(schema):
    check_column_names(schema, MappingMode.NAME)


@given(partition_types.flatmap(lambda kind: st.tuples(st.just(kind), partition_values(kind))))
def test_a_partition_value_is_read_back_as_it_was_written(case):
    kind, value = case
    found = parse_partition_value(format_partition_value(value, kind), kind)
    assert _same(found, value)


@given(
    partition_types.flatmap(
        lambda kind: st.tuples(
            st.just(kind), st.lists(st.none() | partition_values(kind), max_size=6)
        )
    )
)
def test_a_column_of_partition_values_equals_its_values_one_by_one(case):
    kind, values = case
    texts = [format_partition_value(value, kind) for value in values]
    column = parse_partition_column(pa.array(texts, pa.string()), kind)
    assert column.type == to_arrow_type(kind)
    one_by_one = [parse_partition_value(text, kind) for text in texts]
    assert all(map(_same, column.to_pylist(), one_by_one))


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**31), 2**31 - 1))
def test_every_day_and_microsecond_is_read_back_from_its_text(micros, days):
    for kind, number in (("timestamp", micros), ("timestamp_ntz", micros), ("date", days)):
        written = format_partition_value(number, PrimitiveType(kind))
        column = parse_partition_column(pa.array([written]), PrimitiveType(kind))
        assert column.view(pa.int32() if kind == "date" else pa.int64()).to_pylist() == [number]


@given(st.text(max_size=20), partition_types | st.sampled_from([PrimitiveType("void")]))
def test_any_text_is_a_partition_value_or_a_schema_error(written, kind):
    try:
        found = parse_partition_value(written, kind)
    except SchemaError:
        return
    assert (found is None) == (written == "")


@given(
    st.from_regex(r"[+-]?[0-9]{0,30}\.?[0-9]{0,30}([eE][+-]?[0-9]{1,22})?", fullmatch=True),
    decimals,
)
def test_any_number_fits_a_decimal_exactly_or_is_refused(written, kind):
    try:
        value = parse_partition_value(written, kind)
    except SchemaError:
        return
    if value is not None:
        assert -value.as_tuple().exponent == kind.scale
        assert len(value.as_tuple().digits) <= max(kind.precision, 1)


@given(st.lists(st.tuples(text, st.none() | text), min_size=1, max_size=3))
def test_a_partition_folder_has_one_segment_for_each_column(values):
    segments = partition_folder(values).split("/")
    assert len(segments) == len(values)
    assert all(segment.count("=") == 1 for segment in segments)


@pytest.mark.parametrize("name", ["void", "variant"])
def test_types_without_partition_values_refuse_every_text(name):
    with pytest.raises(SchemaError):
        parse_partition_value("x", PrimitiveType(name))


def _check_partial_order(a, b, c):
    assert can_widen(a, a)
    if can_widen(a, b) and can_widen(b, a):
        assert a == b
    if can_widen(a, b) and can_widen(b, c):
        assert can_widen(a, c)


def _parse_or_refuse(document):
    try:
        schema = parse_schema(document)
    except SchemaError:
        return
    assert isinstance(schema, StructType)
    assert parse_schema(schema_to_json(schema)) == schema


def _spots(node):
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in list(items):
        yield node, key
        if isinstance(value, (dict, list)):
            yield from _spots(value)


def _same(a, b):
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (
            a == b and math.copysign(1, a) == math.copysign(1, b)
        )
    return a == b and type(a) is type(b)
