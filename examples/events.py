"""Collect events one by one, and commit them in batches that are written exactly once."""

import random
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from polylake import DeltaTable

BATCHES = 3
EVENTS_PER_BATCH = 5_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = DeltaTable(folder)
        for number in range(1, BATCHES + 1):
            collect(table, number)
        print("The last batch once more, as after a crash whose outcome is not known:")
        collect(table, BATCHES)

        print(f"\n{table.count()} events in {table.detail().num_files} files, by kind:")
        for row in table.aggregate([{"$sortByCount": "$kind"}]):
            print(f"  {row['_id']:<6} {row['count']}")
        table.checkpoint()


def collect(table: DeltaTable, number: int) -> None:
    # Rows go to files as they fill up, and become part of the table when the block is left.
    with table.writer(txn=("collector", number), roll_seconds=5, sort_by=["user"]) as writer:
        for event in events(number):
            writer.write(event)
    result = writer.result
    done = f"{result.rows} rows" if result.applied else "recorded before, nothing written"
    print(f"batch {number}: version {result.version}, {done}")


def events(number: int) -> Iterator[dict[str, Any]]:
    dice = random.Random(number)
    start = datetime(2026, 1, number, tzinfo=UTC)
    for second in range(EVENTS_PER_BATCH):
        yield {
            "at": start + timedelta(seconds=second),
            "user": dice.randrange(100),
            "kind": dice.choice(["view", "view", "view", "click", "buy"]),
            "page": {"path": f"/item/{dice.randrange(20)}", "ms": dice.randrange(5, 200)},
        }


if __name__ == "__main__":
    main()
