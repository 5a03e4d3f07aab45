"""Break a table's log, be told what is wrong, and mend it by a plan that was read first."""

import tempfile
import time

from polylake import DeltaTable, open_storage
from polylake.errors import LogError
from polylake.log import apply_repair, commit_key, diagnose, plan_repair


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = DeltaTable(folder)
        for number in range(3):
            table.write([{"_id": number, "amount": 10 * number}])
        print("before:", table.query(sort="_id"))

        storage = open_storage(folder)
        torn = storage.get(commit_key(2))[:-20]
        storage.put(commit_key(2), torn)
        print("\nThe end of commit 2 is cut off. Nothing is guessed:")
        try:
            DeltaTable(folder).query()
        except LogError as error:
            print(f"{error.code}: {error}")

        print("\nWhat is wrong:")
        diagnosis = diagnose(storage, now_ms=time.time_ns() // 1_000_000)
        print(diagnosis)

        print("\nWhat could be done; a loss has to be allowed:")
        plan = plan_repair(diagnosis, allow_loss=True)
        print(plan)

        report = apply_repair(storage, plan)
        print(f"\nDone, and nothing thrown away: {len(report.kept)} files were set aside.")
        print("\nafter:", DeltaTable(folder).query(sort="_id"))


if __name__ == "__main__":
    main()
