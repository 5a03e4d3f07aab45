"""Create a Delta table, append to it twice, and look at it as it was before."""

import io
import tempfile
import time

import pyarrow as pa
import pyarrow.parquet as pq

from polylake import DeltaLog, open_storage
from polylake.log import Add
from polylake.schema import from_arrow


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        storage = open_storage(folder)
        log = DeltaLog(storage)

        day_one = pa.table({"user": ["ann", "bob"], "amount": [30, 12]})
        log.create(from_arrow(day_one.schema))
        append(log, "day-one.parquet", day_one)
        append(log, "day-two.parquet", pa.table({"user": ["eve"], "amount": [99]}))

        for version in range(log.version() + 1):
            snapshot = log.snapshot(version)
            rows = [row for path in paths(snapshot) for row in read(storage, path)]
            print(f"version {version}: {snapshot.totals.num_files} files, rows {rows}")

        print(f"\nThe same table, for any Delta reader: {storage.url}")


def append(log: DeltaLog, path: str, rows: pa.Table) -> None:
    """Write a data file, then commit it: readers see all of it or nothing."""
    body = io.BytesIO()
    pq.write_table(rows, body)
    log.storage.put(path, body.getvalue())
    transaction = log.begin("WRITE", {"mode": "Append"})
    transaction.add(
        Add(
            path=path,
            size=body.tell(),
            modification_time=time.time_ns() // 1_000_000,
            stats=f'{{"numRecords":{rows.num_rows}}}',
        )
    )
    log.commit(transaction)


def paths(snapshot) -> list[str]:
    return [add.file_path for add in snapshot.files.adds()]


def read(storage, path: str) -> list[dict[str, object]]:
    return pq.read_table(storage.open_reader(path)).to_pylist()


if __name__ == "__main__":
    main()
