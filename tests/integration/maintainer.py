"""One manager of many: ``python maintainer.py '{"url": ..., "holder": "a", "options": {...}}'``.

With ``stall_commits_s``, each commit takes that long to reach the store. Runs until it is killed
or a line comes, and prints whether it leads whenever that changes.
"""

from __future__ import annotations

import json
import select
import sys

from polylake.maintenance import MaintenanceManager
from polylake.storage import Fault, FaultKind, FaultyStorage, open_storage
from polylake.table import DeltaTable


def main() -> None:
    order = json.loads(sys.argv[1])
    stall_s = order.get("stall_commits_s", 0)
    stall = Fault("put_if_absent", None, FaultKind.STALL, key="_delta_log/", stall_s=stall_s)
    storage = open_storage(order["url"])
    table = DeltaTable(FaultyStorage(storage, [stall]) if stall_s else storage)
    leads: bool | None = None
    with MaintenanceManager(table, order["options"], holder=order["holder"]) as manager:
        while not select.select([sys.stdin], [], [], 0.02)[0]:
            metrics = manager.metrics()
            if metrics.passes_run and metrics.is_leader != leads:
                leads = metrics.is_leader
                print("leads" if leads else "stands by", flush=True)  # noqa: T201 - read by the parent


if __name__ == "__main__":
    main()
