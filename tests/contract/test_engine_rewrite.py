"""What ``polylake.engine.Engine`` promises of rewriting, for every engine."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from tests.contract.engines import ENGINES, EngineUnderTest
from tests.unit.engine.reading import mapped, mapped_shape, rows_of, shape_of
from tests.unit.engine.test_rewrite import (
    ALL_TYPES,
    SHAPE,
    adds,
    check_moves,
    numbered,
    rich_row,
    without,
    write_rows,
)

from polylake.engine import Curve, CurveOrder, Layout, RewriteOptions, SortOrder, TableShape
from polylake.engine.local import LocalEngine
from polylake.errors import FileNotFound, ValidationError
from polylake.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    DecimalType,
    MappingMode,
)
from polylake.storage import LocalStorage

if TYPE_CHECKING:
    from pathlib import Path

    from polylake.storage import Storage

PLAIN = RewriteOptions(memory_bytes=1 << 18)
CHECKED = replace(PLAIN, verify=True, report_moves=True)
MOMENT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
CLUSTERED = shape_of(
    n=LONG, real=DOUBLE, text=STRING, day=DATE, at=TIMESTAMP, plain_at=TIMESTAMP_NTZ,
    price=DecimalType(12, 2), flag=BOOLEAN, raw=BINARY,
)  # fmt: skip


@pytest.fixture(scope="module", params=list(ENGINES))
def engine(request: pytest.FixtureRequest) -> EngineUnderTest:
    """Every engine."""
    return ENGINES[request.param]()


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    """A folder: what every engine can open."""
    return LocalStorage(tmp_path / "a table")


def scattered(at: int, rng: random.Random) -> dict[str, Any]:
    """Return a row of every type that has an order, a few values null or NaN."""
    day = rng.randrange(100)
    row = {
        "real": float("nan") if day % 9 == 0 else rng.gauss(0, 1e6),
        "text": rng.choice("äbc日") * rng.randrange(3),
        "day": MOMENT.date() + dt.timedelta(days=day),
        "at": MOMENT + dt.timedelta(minutes=rng.randrange(10_000)),
        "plain_at": (MOMENT + dt.timedelta(minutes=rng.randrange(50))).replace(tzinfo=None),
        "price": Decimal(rng.randrange(-(10**6), 10**6)).scaleb(-2),
        "flag": day % 2 == 0,
        "raw": rng.randbytes(2),
    }
    return {"n": at} | {name: None if rng.random() < 0.1 else row[name] for name in row}


def test_rows_keep_the_order_of_files_and_rows_but_for_deleted_ones(
    engine: EngineUnderTest, storage: Storage
) -> None:
    first, second, gone, last = write_rows(
        storage, SHAPE, *numbered((5, 9), (0, 5), (20, 22), (9, 12))
    )
    files = [without(first, 0, 3), second, without(gone, 0, 1), last]
    seen: list[int] = []
    done = engine.engine.rewrite(
        storage, SHAPE, files, Layout(), replace(CHECKED, on_rows=seen.append)
    )
    assert (len(done.files), done.rows_read, done.rows_written, sum(seen)) == (1, 10, 10, 10)
    assert done.verified
    ids = rows_of(storage, SHAPE, *adds(done))["id"].to_pylist()
    assert ids == [6, 7, 0, 1, 2, 3, 4, 9, 10, 11]
    check_moves(storage, SHAPE, files, done)
    nothing = engine.engine.rewrite(storage, SHAPE, [without(second, *range(5))], Layout(), CHECKED)
    assert (nothing.files, nothing.rows_read, nothing.moves.num_rows) == ((), 0, 0)


def test_files_are_cut_at_the_target_size_and_sorted_if_the_layout_says_so(
    engine: EngineUnderTest, storage: Storage
) -> None:
    rng = random.Random(1)
    shape = shape_of(id=LONG, noise=BINARY)
    parts = [
        [{"id": at, "noise": rng.randbytes(5000)} for at in range(start, start + 10)]
        for start in range(70, -1, -10)
    ]
    files = write_rows(storage, shape, *parts)
    layout = Layout(target_bytes=150_000, sort_by=("id",))
    options = replace(CHECKED, memory_bytes=8 << 20)
    done = engine.engine.rewrite(storage, shape, files, layout, options)
    assert 3 <= len(done.files) <= 4
    kept = [rows_of(storage, shape, add)["id"].to_pylist() for add in adds(done)]
    assert all(ids == sorted(ids) for ids in kept)
    assert sorted(at for ids in kept for at in ids) == list(range(80))
    check_moves(storage, shape, files, done)


@pytest.mark.parametrize(
    "order", [None, CurveOrder(("real", "day"))], ids=["as-they-come", "on-a-curve"]
)
def test_values_of_every_type_stay_as_they_are(
    engine: EngineUnderTest, storage: Storage, order: CurveOrder | None
) -> None:
    shape = TableShape(schema=ALL_TYPES)
    parts = [[rich_row(at) for at in range(start, start + 9)] for start in (0, 9, 18)]
    files = write_rows(storage, shape, *parts)
    before = rows_of(storage, shape, *files)
    options = replace(PLAIN, verify=True, order=order)
    done = engine.engine.rewrite(storage, shape, files, Layout(), options)
    after = rows_of(storage, shape, *adds(done)).sort_by("id")
    assert str(after.to_pylist()) == str(before.to_pylist())  # as text, NaN equals NaN


def test_values_of_the_log_and_names_of_columns_go_with_the_rows(
    engine: EngineUnderTest, storage: Storage
) -> None:
    columns = (mapped("a", LONG, "p1", 1), mapped("day", STRING, "p2", 2))
    shape = replace(mapped_shape(MappingMode.NAME, *columns), partition_columns=("day",))
    files = write_rows(storage, shape, [{"a": 1, "day": "a b"}], [{"a": 2, "day": "a b"}])
    now = replace(shape, schema=replace(shape.schema, fields=(
        mapped("b", LONG, "p1", 1), columns[1], mapped("c", DATE, "p3", 3),
    )))  # fmt: skip
    done = engine.engine.rewrite(storage, now, files, Layout(), replace(PLAIN, verify=True))
    assert [file.partition_values for file in done.files] == [{"p2": "a b"}]
    expected = [{"b": at, "day": "a b", "c": None} for at in (1, 2)]
    assert rows_of(storage, now, *adds(done)).to_pylist() == expected


def test_sorted_rows_go_on_from_file_to_file(engine: EngineUnderTest, storage: Storage) -> None:
    rng = random.Random(2)
    rows = [scattered(at, rng) for at in range(150)]
    files = write_rows(storage, CLUSTERED, rows[:70], rows[70:])
    order = SortOrder(("text", "price"))
    size = sum(file.size for file in files)
    layout = Layout(target_bytes=size // 3)
    done = engine.engine.rewrite(storage, CLUSTERED, files, layout, replace(CHECKED, order=order))
    assert len(done.files) > 1
    found = rows_of(storage, CLUSTERED, *adds(done)).to_pylist()

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        text, price = row["text"], row["price"]
        return (text is not None, (text or "").encode(), price is not None, price or 0)

    assert [row["n"] for row in found] == [row["n"] for row in sorted(found, key=key)]
    check_moves(storage, CLUSTERED, files, done)


@pytest.mark.parametrize(
    ("curve", "columns"),
    [
        pytest.param(Curve.HILBERT, ("n", "text"), id="hilbert"),
        pytest.param(Curve.Z_ORDER, ("real", "day", "at"), id="z-order"),
        pytest.param(Curve.HILBERT, ("plain_at", "price", "flag", "raw"), id="four columns"),
    ],
)
def test_a_curve_is_the_same_on_every_engine(
    engine: EngineUnderTest, storage: Storage, curve: Curve, columns: tuple[str, ...]
) -> None:
    rng = random.Random(3)
    rows = [scattered(at, rng) for at in range(400)]
    files = write_rows(storage, CLUSTERED, rows[:150], rows[150:])
    options = replace(CHECKED, verify=False, order=CurveOrder(columns, curve))
    layout = Layout(target_bytes=sum(file.size for file in files) // 3)
    done = engine.engine.rewrite(storage, CLUSTERED, files, layout, options)
    local = LocalEngine().rewrite(storage, CLUSTERED, files, layout, options)
    found, expected = (
        rows_of(storage, CLUSTERED, *adds(each))["n"].to_pylist() for each in (done, local)
    )
    assert found == expected != sorted(expected)


def test_what_cannot_be_rewritten_is_named(engine: EngineUnderTest, storage: Storage) -> None:
    shape = TableShape(schema=ALL_TYPES)
    files = write_rows(storage, shape, [rich_row(1)], [rich_row(2)])
    for name in ("nothing", "tags", "any", "inner"):
        with pytest.raises(ValidationError, match=name):
            engine.engine.rewrite(
                storage, shape, files, Layout(), replace(PLAIN, order=SortOrder((name,)))
            )
    storage.delete([files[1].file_path])
    with pytest.raises(FileNotFound, match=files[1].file_path):
        engine.engine.rewrite(storage, shape, files, Layout(), PLAIN)
