"""The partitions of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polylake.schema import parse_partition_value, physical_name

if TYPE_CHECKING:
    from polylake.log import Snapshot


def partition_summaries(snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return each partition's values with its number of files and bytes, in order of the text.

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
        count = counts.setdefault(tuple(values.get(name) for name in names), [0, 0])
        count[0] += 1
        count[1] += size
    ordered = sorted(counts.items(), key=lambda item: [(v is not None, v or "") for v in item[0]])
    return [
        {
            "values": {
                column.name: parse_partition_value(text, column.type, column=column.name)
                for column, text in zip(columns, texts, strict=True)
            },
            "files": files,
            "bytes": size,
        }
        for texts, (files, size) in ordered
    ]
