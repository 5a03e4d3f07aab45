"""The partitions of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polylake.query import compare_key
from polylake.schema import parse_partition_value, physical_name

if TYPE_CHECKING:
    from polylake.log import Snapshot


def partition_summaries(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return each partition's values with its number of files and bytes, in order of the values.

    Raises:
        SchemaError: a partition value does not fit its column.
    """
    columns = [snapshot.schema.field(name) for name in snapshot.partition_columns]
    names = [physical_name(column, snapshot.mapping_mode) for column in columns]
    counts: dict[tuple[str | None, ...], list[int]] = {}
    rows = snapshot.files.table(["partitionValues", "size"])
    for values, size in zip(
        rows["partitionValues"].to_pylist(maps_as_pydicts="strict"),
        rows["size"].to_pylist(),
        strict=True,
    ):
        # PROTOCOL.md, "Partition Value Serialization": empty text is null too.
        count = counts.setdefault(tuple(values.get(name) or None for name in names), [0, 0])
        count[0] += 1
        count[1] += size
    found: list[dict[str, Any]] = [
        {
            "values": {
                column.name: parse_partition_value(text, column.type, column=column.name)
                for column, text in zip(columns, texts, strict=True)
            },
            "files": files,
            "bytes": size,
        }
        for texts, (files, size) in counts.items()
    ]
    return sorted(found, key=lambda partition: [*map(compare_key, partition["values"].values())])
