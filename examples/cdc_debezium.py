"""Keep a table up to date with what Debezium captures, and go on where it stopped."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from polylake import DeltaTable
from polylake.cdc import (
    CDCConsumer,
    CDCRecord,
    DebeziumMessage,
    TableOffsets,
    apply,
    from_debezium,
)

TOPIC = "shop.public.customers"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        topic = Path(folder, f"{TOPIC}.jsonl")
        table = DeltaTable.create(Path(folder, "customers"), [customer(1, "", 0)])

        publish(topic, [(None, customer(n, "new", 0)) for n in (1, 2, 3)])
        publish(topic, [(customer(1, "new", 0), customer(1, "gold", 250))])
        catch_up(topic, table)

        print("\nMeanwhile the database goes on; a new process takes up where the last one ended:")
        publish(topic, [(customer(2, "new", 0), None), (None, customer(4, "new", 10))])
        catch_up(topic, table)
        catch_up(topic, table)


def catch_up(topic: Path, table: DeltaTable) -> None:
    # The offset is in the log of the table itself, by the same commit as the rows.
    consumer = CDCConsumer(
        lambda after: records(topic, after),
        group="mirror",
        topic=TOPIC,
        offsets=TableOffsets(table),
    )
    start = consumer.committed
    while batch := consumer.poll(1_000):
        apply(table, batch, key="id", txn=consumer.txn)
        print(f"{len(batch)} changes after offset {start}")
    print(f"version {table.refresh().version}, offset {consumer.position}:")
    for row in table.query(sort=["id"]):
        print(f"  {row}")


def records(topic: Path, after: int | None) -> Iterator[CDCRecord]:
    with topic.open("rb") as lines:
        for offset, line in enumerate(lines):
            if after is None or offset > after:
                key, value = orjson.loads(line)
                message = DebeziumMessage(key=key, value=value)
                yield from_debezium(replace(message, topic=TOPIC, partition=0, offset=offset))


def publish(topic: Path, changes: list[tuple[Any, Any]]) -> None:
    """Append messages as a connector writes them for a table of PostgreSQL."""
    with topic.open("ab") as lines:
        for before, after in changes:
            operation = "c" if before is None else "d" if after is None else "u"
            source = {"connector": "postgresql", "name": "shop", "db": "shop"}
            source |= {"schema": "public", "table": "customers", "ts_ms": 1_767_225_600_000}
            value = {"before": before, "after": after, "source": source, "op": operation}
            key = {"id": (after or before)["id"]}
            lines.write(orjson.dumps([key, value | {"ts_ms": 1_767_225_600_100}]) + b"\n")


def customer(number: int, tier: str, spent: int) -> dict[str, Any]:
    return {"id": number, "tier": tier, "spent": spent}


if __name__ == "__main__":
    main()
