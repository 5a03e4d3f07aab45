"""Row tracking: fresh row ids for added files (PROTOCOL.md, "Row Tracking")."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from polylake.errors import InvalidTableState, ValidationError
from polylake.log._actions import Add, DomainMetadata
from polylake.log._stats import num_records

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROW_TRACKING_DOMAIN = "delta.rowTracking"


def assign_row_ids(
    adds: Iterable[Add], domains: Mapping[str, DomainMetadata], *, version: int
) -> tuple[list[Add], DomainMetadata | None]:
    """Give every added file that has none its row ids, above all that were ever given.

    Returns the files, and the new mark of the highest id if any was given.

    Raises:
        ValidationError: a file has no exact ``numRecords``.
        InvalidTableState: the mark in the log cannot be read.
    """
    mark = highest = _high_water_mark(domains)
    assigned = []
    for add in adds:
        fresh = add
        if add.base_row_id is None:
            records = num_records(add.stats)
            if records is None:
                raise ValidationError(
                    f"{add.path}: a table with row tracking needs numRecords in the statistics",
                    field="stats",
                )
            fresh = replace(fresh, base_row_id=highest + 1)
            highest += records
        if add.default_row_commit_version is None:
            fresh = replace(fresh, default_row_commit_version=version)
        assigned.append(fresh)
    if highest == mark:
        return assigned, None
    configuration = orjson.dumps({"rowIdHighWaterMark": highest}).decode()
    return assigned, DomainMetadata(domain=ROW_TRACKING_DOMAIN, configuration=configuration)


def _high_water_mark(domains: Mapping[str, DomainMetadata]) -> int:
    domain = domains.get(ROW_TRACKING_DOMAIN)
    if domain is None:
        return -1
    try:
        mark = orjson.loads(domain.configuration)["rowIdHighWaterMark"]
        return int(mark)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidTableState(
            f"the {ROW_TRACKING_DOMAIN} domain holds {domain.configuration!r}, "
            "which says no highest row id",
            domain=ROW_TRACKING_DOMAIN,
        ) from error
