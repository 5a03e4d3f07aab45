"""Several processes write to one table in a bucket, without a lock and without a coordinator.

Without settings it runs against moto, which it starts itself (``pip install 'moto[server]'``).
With a bucket of yours, the usual variables hold:

    LAKE_URL=s3://bucket/prefix AWS_REGION=eu-west-1 python examples/s3_writers.py
    LAKE_URL=s3://bucket AWS_ENDPOINT_URL=http://localhost:9000 \
        AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=... python examples/s3_writers.py
"""

import logging
import multiprocessing
import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

from polylake import DeltaTable, RetryPolicy, with_retry
from polylake.retry import RetryHooks

WRITERS = 3
ROUNDS = 3
PATIENT = RetryPolicy(max_retries=50, base_delay_s=0.02, max_delay_s=0.5)


def main() -> None:
    with bucket() as place:
        url = f"{place}/polylake-example-{uuid.uuid4().hex}"
        table = open_table(url)
        table.write([{"_id": "stock", "left": WRITERS * ROUNDS}])
        print(f"the table is {table.url if 'LAKE_URL' in os.environ else 'in a bucket of moto'}")
        try:
            # Nothing is shared but the bucket: each process could be on a host of its own.
            context = multiprocessing.get_context("spawn")
            with context.Pool(WRITERS) as pool:
                conflicts = sum(pool.starmap(sell, [(url, number) for number in range(WRITERS)]))
            table.refresh()
            sold = table.count({"_id": {"$ne": "stock"}})
            (stock,) = table.query({"_id": "stock"})
            print(
                f"{WRITERS} writers, {table.version + 1} versions, {conflicts} conflicts run again"
            )
            print(f"sold {sold}, left {stock['left']}")
            if (sold, stock["left"]) != (WRITERS * ROUNDS, 0):
                raise SystemExit("a write was lost")
        finally:
            storage = table.target.storage
            storage.delete([info.key for info in storage.list()])


def sell(url: str, number: int) -> int:
    """Take things off the stock and note each; return how often somebody else was faster."""
    table = open_table(url)
    conflicts = 0

    def note_conflict(_: object) -> None:
        nonlocal conflicts
        conflicts += 1

    for turn in range(ROUNDS):
        # With its own id and number, a sale is noted once even if this process runs again.
        table.write([{"_id": f"{number}-{turn}"}], txn=(f"till-{number}", turn))
        with_retry(
            lambda: table.update({"_id": "stock"}, {"$inc": {"left": -1}}),
            PATIENT,
            hooks=RetryHooks(on_retry=note_conflict),
        )
    return conflicts


def open_table(url: str) -> DeltaTable:
    endpoint = os.environ.get("AWS_ENDPOINT_URL", "")
    # Plain http has to be asked for, because what is written crosses the network in the clear.
    return DeltaTable(url, allow_http=True) if endpoint.startswith("http://") else DeltaTable(url)


@contextmanager
def bucket() -> Iterator[str]:
    """Lend the bucket that ``LAKE_URL`` names, or one of a server that runs meanwhile."""
    if "LAKE_URL" in os.environ:
        yield os.environ["LAKE_URL"].rstrip("/")
        return
    from moto.server import DomainDispatcherApplication, create_backend_app  # noqa: PLC0415 - only here
    from werkzeug.serving import make_server  # noqa: PLC0415 - comes with moto

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    # One request at a time: moto looks for an object and then stores it, in two steps.
    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.port}"
    os.environ |= {"AWS_ENDPOINT_URL": address, "AWS_REGION": "us-east-1"}
    os.environ |= {"AWS_ACCESS_KEY_ID": "example", "AWS_SECRET_ACCESS_KEY": "example"}
    with urlopen(Request(f"{address}/lake", method="PUT")):
        pass
    try:
        yield "s3://lake"
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    main()
