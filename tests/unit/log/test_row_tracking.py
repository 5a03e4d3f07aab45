"""Fresh row ids."""

from __future__ import annotations

import orjson
import pytest
from tests.builders import make_add

from polylake.errors import InvalidTableState, ValidationError
from polylake.log import DomainMetadata
from polylake.log._row_tracking import ROW_TRACKING_DOMAIN, assign_row_ids


def marked(configuration: str) -> dict[str, DomainMetadata]:
    domain = DomainMetadata(domain=ROW_TRACKING_DOMAIN, configuration=configuration)
    return {ROW_TRACKING_DOMAIN: domain}


def rows(path: str, count: int) -> dict[str, object]:
    return {"path": path, "stats": f'{{"numRecords":{count}}}'}


def test_the_first_ids_start_at_zero() -> None:
    adds, mark = assign_row_ids([make_add(**rows("a", 3)), make_add(**rows("b", 2))], {}, version=4)
    assert [add.base_row_id for add in adds] == [0, 3]
    assert {add.default_row_commit_version for add in adds} == {4}
    assert mark is not None
    assert orjson.loads(mark.configuration) == {"rowIdHighWaterMark": 4}


def test_further_ids_lie_above_the_mark() -> None:
    adds, mark = assign_row_ids(
        [make_add(**rows("a", 3))], marked('{"rowIdHighWaterMark":9}'), version=5
    )
    assert adds[0].base_row_id == 10
    assert mark is not None
    assert orjson.loads(mark.configuration) == {"rowIdHighWaterMark": 12}


def test_files_that_have_ids_keep_them() -> None:
    add = make_add("a", base_row_id=4, default_row_commit_version=2)
    assert assign_row_ids([add], marked('{"rowIdHighWaterMark":9}'), version=5) == ([add], None)


def test_an_empty_file_takes_no_id() -> None:
    adds, mark = assign_row_ids([make_add(**rows("a", 0))], {}, version=1)
    assert adds[0].base_row_id == 0
    assert mark is None


@pytest.mark.parametrize("stats", [None, "{}", '{"numRecords":-1}', '{"numRecords":"3"}', "no"])
def test_a_file_without_its_number_of_rows_is_refused(stats: str | None) -> None:
    with pytest.raises(ValidationError) as refused:
        assign_row_ids([make_add("a", stats=stats)], {}, version=1)
    assert refused.value.field == "stats"


@pytest.mark.parametrize("configuration", ["", "{}", "[]", '{"rowIdHighWaterMark":"x"}', "null"])
def test_a_mark_that_cannot_be_read_stops_the_commit(configuration: str) -> None:
    with pytest.raises(InvalidTableState, match="row id"):
        assign_row_ids([make_add("a")], marked(configuration), version=1)
