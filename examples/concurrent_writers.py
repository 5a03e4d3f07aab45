"""Several processes write to one table: appends never collide, and conflicts are run again."""

import multiprocessing
import tempfile

from polylake import DeltaTable, RetryPolicy, with_retry
from polylake.retry import RetryHooks

WRITERS = 3
ROUNDS = 5
PATIENT = RetryPolicy(max_retries=50, base_delay_s=0.01, max_delay_s=0.5)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = DeltaTable(folder)
        table.write([{"_id": "counter", "value": 0}])

        # Nothing is inherited: each process opens the table by its path, as another host would.
        context = multiprocessing.get_context("spawn")
        with context.Pool(WRITERS) as pool:
            conflicts = pool.starmap(work, [(folder, number) for number in range(WRITERS)])

        table.refresh()
        appended = table.count({"_id": {"$ne": "counter"}})
        counter = table.query({"_id": "counter"})[0]["value"]
        print(f"{WRITERS} processes, {ROUNDS} rounds each, {table.version + 1} versions")
        print(f"appended: {appended} rows, none lost, none twice")
        print(f"counter: {counter}, after {sum(conflicts)} conflicts that were run again")
        if (appended, counter) != (WRITERS * ROUNDS, WRITERS * ROUNDS):
            raise SystemExit("a write was lost")


def work(folder: str, number: int) -> int:
    """Append rows and count them; return how often another process got in between."""
    table = DeltaTable(folder)
    conflicts = 0

    def note_conflict(_: object) -> None:
        nonlocal conflicts
        conflicts += 1

    for turn in range(ROUNDS):
        table.write([{"_id": f"{number}-{turn}", "value": turn}])
        # An update reads before it writes, so another one in between is a conflict: it starts
        # from the latest version each time it is run.
        with_retry(
            lambda: table.update({"_id": "counter"}, {"$inc": {"value": 1}}),
            PATIENT,
            hooks=RetryHooks(on_retry=note_conflict),
        )
    return conflicts


if __name__ == "__main__":
    main()
