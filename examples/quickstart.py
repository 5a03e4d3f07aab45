"""A tour of a Delta table, from its first row to its history.

Everything happens in a temporary folder, so that it can be run again and leaves nothing behind.
"""

import tempfile
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

import polars as pl

from polylake import DeltaTable
from polylake.errors import SchemaError

ORDERS = [
    {"_id": 1, "day": date(2026, 1, 1), "user": "ann", "amount": 30, "tags": ["new", "gift"]},
    {"_id": 2, "day": date(2026, 1, 1), "user": "bob", "amount": 12},
    {"_id": 3, "day": date(2026, 1, 2), "user": "ann", "amount": 75, "tags": ["gift"]},
    {"_id": 4, "day": date(2026, 1, 2), "user": "cid", "amount": 8},
    {"_id": 5, "day": date(2026, 1, 3), "user": "bob", "amount": 41},
]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        orders = DeltaTable(Path(folder) / "orders")
        write_rows(orders)
        ask_questions(orders)
        change_rows(orders)
        look_back(orders)
        look_inside(orders)
        use_another_reader(orders)
    print("\nNext: docs/tutorial.md, or the other files in examples/.")


def write_rows(orders: DeltaTable) -> None:
    heading("Write dicts; the table begins with them")
    result = orders.write(
        ORDERS,
        partition_by=["day"],
        properties={"delta.enableChangeDataFeed": "true"},
    )
    print(f"version {result.version}: {result.rows} rows in {len(result.files)} files")
    print(orders.schema)

    heading("A row that does not fit is refused, and the message says what would help")
    try:
        orders.write([{"_id": 6, "day": date(2026, 1, 3), "user": "ann", "coupon": "X1"}])
    except SchemaError as error:
        print(error)


def ask_questions(orders: DeltaTable) -> None:
    heading("Ask in MongoDB's language")
    show(
        orders.query(
            {"amount": {"$gte": 10}, "user": {"$in": ["ann", "bob"]}},
            projection={"user": 1, "amount": 1},
            sort=[("amount", -1)],
            limit=3,
        )
    )
    print(f"{orders.count({'tags': 'gift'})} orders are tagged as a gift")

    heading("Add up")
    show(
        orders.aggregate(
            [
                {"$group": {"_id": "$user", "orders": {"$sum": 1}, "total": {"$sum": "$amount"}}},
                {"$sort": {"total": -1}},
            ]
        )
    )


def change_rows(orders: DeltaTable) -> None:
    heading("Update, delete, upsert: one version each")
    updated = orders.update({"user": "ann"}, {"$inc": {"amount": 1}, "$push": {"tags": "vip"}})
    print(f"version {updated.version}: {updated.rows_updated} rows updated")
    deleted = orders.delete({"amount": {"$lt": 10}})
    print(f"version {deleted.version}: {deleted.rows_deleted} row deleted")
    news = [
        {"_id": 2, "day": date(2026, 1, 1), "user": "bob", "amount": 15},
        {"_id": 6, "day": date(2026, 1, 3), "user": "dot", "amount": 20},
    ]
    merged = orders.upsert(news, on="_id")
    print(
        f"version {merged.version}: {merged.rows_updated} row updated, "
        f"{merged.rows_inserted} inserted"
    )
    show(orders.query(sort="_id"))


def look_back(orders: DeltaTable) -> None:
    heading("Every version is still there")
    show(
        {"version": entry.version, "operation": entry.operation, "by": entry.engine_info}
        for entry in orders.history()
    )
    total = [{"$group": {"_id": None, "total": {"$sum": "$amount"}}}]
    for version in (0, orders.version):
        print(f"version {version}: total", orders.at(version=version).aggregate(total)[0]["total"])

    heading("What changed since version 1, row by row")
    changes = orders.changes(from_version=2, columns=["_id", "amount"]).to_arrow()
    show(changes.drop_columns("_commit_timestamp").to_pylist())


def look_inside(orders: DeltaTable) -> None:
    heading("What a question costs: the log rules files out before any is opened")
    print(orders.scan({"day": date(2026, 1, 3)}, columns=["user"]).explain())


def use_another_reader(orders: DeltaTable) -> None:
    heading("The same folder, read by Polars and delta-rs")
    frame = pl.read_delta(orders.url)
    with pl.Config(tbl_formatting="ASCII_MARKDOWN", tbl_hide_dataframe_shape=True):
        print(frame.group_by("day").agg(pl.col("amount").sum()).sort("day"))


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def show(rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows as columns of text."""
    rows = list(rows)
    names = list(rows[0])
    lines = [names] + [["" if row[n] is None else str(row[n]) for n in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip())


if __name__ == "__main__":
    main()
