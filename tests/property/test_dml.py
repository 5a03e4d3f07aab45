"""Rows that change, against a list of dicts; and the change feed, against both."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.unit.ops.changing import KINDS, SCHEMA, Kind, append, make_table, rows_of

from polylake.errors import ValidationError
from polylake.ops._changes import changes
from polylake.ops._delete import delete
from polylake.ops._merge import merge, upsert
from polylake.ops._update import update
from polylake.query import apply_update, matches, parse_update
from polylake.storage import LocalStorage

if TYPE_CHECKING:
    from polylake.ops._target import Target

Row = dict[str, Any]

ids = st.none() | st.integers(0, 9)
names = st.none() | st.sampled_from(["a", "b", "ä"])
amounts = st.none() | st.sampled_from([-1.5, 0.0, 2.0])
days = st.none() | st.sampled_from(["x", "y"])
rows = st.fixed_dictionaries({"id": ids, "name": names, "amount": amounts, "day": days})
tables = st.lists(rows, max_size=12)
leaves = st.one_of(
    st.builds(lambda v: {"id": {"$lt": v}}, st.integers(-1, 10)),
    st.builds(lambda v: {"id": {"$in": v}}, st.lists(ids, max_size=3)),
    st.builds(lambda v: {"name": v}, names),
    st.builds(lambda v: {"day": {"$ne": v}}, days),
    st.builds(lambda v: {"day": v}, days),
    st.builds(lambda v: {"amount": {"$gte": v}}, st.sampled_from([-1.5, 1.0])),
    st.just({"name": {"$regex": "^(?!a)"}}),
)
filters = st.one_of(
    st.none(),
    leaves,
    st.builds(lambda parts: {"$or": parts}, st.lists(leaves, min_size=1, max_size=2)),
    st.builds(lambda parts: {"$nor": parts}, st.lists(leaves, min_size=1, max_size=2)),
)
updates = st.one_of(
    st.builds(lambda v: {"$set": {"name": v}}, names),
    st.builds(lambda v: {"$set": {"day": v}, "$inc": {"id": 1}}, days),
    st.just({"$unset": {"amount": True}}),
    st.just({"$mul": {"amount": 2}, "$max": {"id": 3}}),
)


@dataclass(frozen=True)
class Append:
    rows: list[Row]

    def apply(self, target: Target) -> None:
        append(target, self.rows)

    def expected(self, before: list[Row]) -> list[Row]:
        return before + self.rows


@dataclass(frozen=True)
class Delete:
    where: Row | None

    def apply(self, target: Target) -> None:
        delete(target, self.where)

    def expected(self, before: list[Row]) -> list[Row]:
        return [row for row in before if not matches(present(row), self.where)]


@dataclass(frozen=True)
class Update:
    where: Row | None
    change: Row

    def apply(self, target: Target) -> None:
        update(target, self.where, self.change)

    def expected(self, before: list[Row]) -> list[Row]:
        change = parse_update(self.change)
        return [
            whole(apply_update(present(row), change)) if matches(present(row), self.where) else row
            for row in before
        ]


@dataclass(frozen=True)
class Upsert:
    rows: list[Row]

    def apply(self, target: Target) -> None:
        upsert(target, self.rows, on="id")

    def expected(self, before: list[Row]) -> list[Row]:
        by_key = {row["id"]: row for row in self.rows if row["id"] is not None}
        known = {row["id"] for row in before}
        fresh = [row for row in self.rows if row["id"] is None or row["id"] not in known]
        return [by_key.get(row["id"], row) for row in before] + fresh


@dataclass(frozen=True)
class Merge:
    rows: list[Row]
    gone: Row | None
    set_where: Row | None
    stale: Row | None

    def apply(self, target: Target) -> None:
        begun = (
            merge(target, self.rows, on=["id", "day"])
            .when_matched_delete(condition=prefixed(self.gone))
            .when_matched_update({"name": "$source.name"}, condition=self.set_where)
            .when_not_matched_insert(condition=prefixed(self.gone))
        )
        if self.stale is not None:
            begun = begun.when_not_matched_by_source_delete(condition=self.stale)
        begun.execute()

    def expected(self, before: list[Row]) -> list[Row]:
        after: list[Row] = []
        for row in before:
            found = [other for other in self.rows if same_key(row, other)]
            if not found:
                is_stale = self.stale is not None and matches(present(row), self.stale)
                after += [] if is_stale else [row]
                continue
            actions = [self._action(row, other) for other in found]
            acting = [action for action in actions if action is not None]
            if len(acting) > 1:
                raise ValidationError("ambiguous")
            after += [row] if not acting else acting[0]
        new = [row for row in self.rows if not any(same_key(row, other) for other in before)]
        return after + [row for row in new if matches(present(row), self.gone)]

    def _action(self, row: Row, other: Row) -> list[Row] | None:
        if matches(present(other), self.gone):
            return []
        return [row | {"name": other["name"]}] if matches(present(row), self.set_where) else None


Step = Append | Delete | Update | Upsert | Merge
keyed = st.lists(rows, max_size=6, unique_by=lambda row: (row["id"] is None) or ("k", row["id"]))
steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(Append, tables),
    st.builds(Delete, filters),
    st.builds(Update, filters, updates),
    st.builds(Upsert, keyed),
    st.builds(Merge, st.lists(rows, max_size=4), leaves, filters, st.none() | leaves),
)


@settings(deadline=None, max_examples=25)
@given(data=st.data())
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_table_changes_as_a_list_of_dicts_does(kind: Kind, data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        target = make_table(kind, storage=LocalStorage(folder))
        model: list[Row] = []
        first = data.draw(tables, "rows")
        for step in [Append(first), *data.draw(st.lists(steps, max_size=4), "steps")]:
            try:
                after = step.expected(model)
            except ValidationError:
                with pytest.raises(ValidationError, match="several rows of the source"):
                    step.apply(target)
                continue
            step.apply(target)
            model = after
            note(f"after {step}")
            assert counted(rows_of(target)) == counted(model)
        if kind.feed:
            assert replayed(target) == counted(model)
        if not kind.vectors:
            assert counted(DeltaTable(folder).to_pyarrow_table().to_pylist()) == counted(model)


def replayed(target: Target) -> Counter[tuple[Any, ...]]:
    """Return the rows that the changes of all versions lead to, from none."""
    found: Counter[tuple[Any, ...]] = Counter()
    version = 0
    for row in changes(target, 0).to_arrow().to_pylist():
        assert row["_commit_version"] >= version
        if row["_commit_version"] > version:
            assert min(found.values(), default=0) >= 0
            version = row["_commit_version"]
        comes = row["_change_type"] in {"insert", "update_postimage"}
        found[row_key(row)] += 1 if comes else -1
    return +found if min(found.values(), default=0) >= 0 else found


def counted(found: list[Row]) -> Counter[tuple[Any, ...]]:
    return Counter(map(row_key, found))


def row_key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in SCHEMA.names)


def same_key(one: Row, other: Row) -> bool:
    return all(one[name] is not None and one[name] == other[name] for name in ("id", "day"))


def present(row: Row) -> Row:
    return {name: value for name, value in row.items() if value is not None}


def whole(row: Row) -> Row:
    return {name: row.get(name) for name in SCHEMA.names}


def prefixed(where: Row | None) -> Row | None:
    """Return a filter that asks of the source what this one asks of the table."""
    return None if where is None else {f"source.{name}": test for name, test in where.items()}
