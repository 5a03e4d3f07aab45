"""What a new table is."""

from __future__ import annotations

import pytest

from polylake.log import TableOptions, new_table
from polylake.schema import LONG, StructField, StructType, parse_schema


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"delta.identity.start": 5}, (5, 1, False)),
        (
            {
                "delta.identity.start": 0,
                "delta.identity.step": 10,
                "delta.identity.allowExplicitInsert": True,
            },
            (0, 10, True),
        ),
    ],
    ids=["start alone", "all"],
)
def test_an_identity_column_says_all_that_other_readers_ask_for(
    given: dict[str, object], said: tuple[int, int, bool]
) -> None:
    schema = StructType((StructField("n", LONG, nullable=True, metadata=given),))
    metadata, _ = new_table(schema, TableOptions(), now_ms=0)
    found = parse_schema(metadata.schema_string).field("n").metadata
    names = ("start", "step", "allowExplicitInsert")
    assert tuple(found[f"delta.identity.{name}"] for name in names) == said
