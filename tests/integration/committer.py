"""One writer of many: ``python committer.py '{"url": ..., "writer": 3, "commits": 200}'``.

Prints a line when it is ready, waits for one, commits, and prints as JSON what its commits took.
Every commit adds one file, named after the writer and numbered; the files themselves are not
written, because a log does not look at them.
"""

from __future__ import annotations

import json
import sys

from polylake.log import Add, DeltaLog
from polylake.storage import open_storage


def main() -> None:
    order = json.loads(sys.argv[1])
    log = DeltaLog(open_storage(order["url"], **order.get("options", {})))
    log.snapshot()
    print("ready", flush=True)  # noqa: T201 - the parent process waits for it
    sys.stdin.readline()
    attempts = [commit(log, file_name(order["writer"], n)) for n in range(order["commits"])]
    print(json.dumps({"attempts": sum(attempts), "most": max(attempts)}), flush=True)  # noqa: T201 - and reads this


def file_name(writer: int, number: int) -> str:
    return f"writer-{writer}-file-{number}.parquet"


def commit(log: DeltaLog, path: str) -> int:
    transaction = log.begin("WRITE", {"mode": "Append"})
    transaction.add(Add(path=path, size=1, modification_time=0, stats='{"numRecords":1}'))
    return log.commit(transaction).attempts


if __name__ == "__main__":
    main()
