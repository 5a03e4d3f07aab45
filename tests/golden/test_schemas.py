"""Schemas and partition values that other writers wrote."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from polylake.schema import (
    MappingMode,
    check_mapping,
    check_type_changes,
    from_arrow,
    parse_partition_value,
    parse_schema,
    physical_name,
    schema_to_json,
    to_arrow,
    to_physical,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = Path(os.environ.get("POLYLAKE_GOLDEN", Path(__file__).parents[3] / "shared" / "golden"))
pytestmark = pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"no golden tables at {GOLDEN}")


def actions(kind: str) -> Iterator[tuple[Path, Any]]:
    """Yield every readable action of one kind with the commit that holds it."""
    for commit in sorted(GOLDEN.rglob("_delta_log/*.json")):
        for line in commit.read_bytes().splitlines():
            if f'"{kind}"'.encode() not in line:
                continue
            try:
                action = orjson.loads(line)
            except orjson.JSONDecodeError:  # some tables are broken on purpose
                continue
            if isinstance(action, dict) and isinstance(action.get(kind), dict):
                yield commit, action[kind]


@pytest.fixture(scope="module")
def metadata() -> list[tuple[Path, Any]]:
    return [
        (commit, action) for commit, action in actions("metaData") if action.get("schemaString")
    ]


def test_every_schema_is_written_back_as_equal_json(metadata):
    assert len(metadata) > 100
    for commit, action in metadata:
        text = action["schemaString"]
        found = orjson.loads(schema_to_json(parse_schema(text)))
        assert found == orjson.loads(text), commit


def test_every_schema_keeps_its_shape_through_arrow(metadata):
    for commit, action in metadata:
        schema = parse_schema(action["schemaString"])
        found = from_arrow(to_arrow(schema))
        assert [n.path for n in walk(found)] == [n.path for n in walk(schema)], commit
        assert str(found) == str(schema), commit


def test_every_mapped_schema_has_a_whole_mapping(metadata):
    for _, action in metadata:
        mode = MappingMode.from_configuration(action.get("configuration") or {})
        schema = parse_schema(action["schemaString"])
        check_mapping(schema, mode)
        to_arrow(to_physical(schema, mode))


def test_every_recorded_type_change_is_supported(metadata):
    for _, action in metadata:
        check_type_changes(parse_schema(action["schemaString"]))


def test_every_partition_value_is_read(metadata):
    kinds: dict[Path, dict[str, Any]] = {}
    for commit, action in metadata:
        mode = MappingMode.from_configuration(action.get("configuration") or {})
        columns = kinds.setdefault(commit.parent, {})
        for field in parse_schema(action["schemaString"]):
            columns.setdefault(physical_name(field, mode), field.type)
    for commit, action in actions("add"):
        for name, text in (action.get("partitionValues") or {}).items():
            if name in kinds.get(commit.parent, {}):
                parse_partition_value(text, kinds[commit.parent][name], column=name)
