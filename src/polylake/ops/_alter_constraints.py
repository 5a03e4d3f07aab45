"""Add and drop CHECK constraints."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from polylake.engine import TableShape
from polylake.errors import ValidationError
from polylake.ops._alter import alter, check_properties
from polylake.ops._constraints import CONSTRAINT_PREFIX, check_batches, compile_check
from polylake.schema import StructType

if TYPE_CHECKING:
    from polylake.log import Snapshot, Version
    from polylake.ops._constraints import Check
    from polylake.ops._target import Target


def add_constraint(target: Target, name: str, sql: str) -> Version:
    """Add a CHECK constraint, once every row of the table keeps it; return the version.

    Raises:
        ValidationError: there is one of that name, polylake cannot evaluate it, a row breaks it,
            or the table does not have the feature ``checkConstraints``.
        ConcurrencyError: another writer got in between.
    """
    snapshot = target.fresh()
    key = CONSTRAINT_PREFIX + name.lower()
    if _find(snapshot, name) is not None:
        raise ValidationError(f"there is a constraint {name!r} already", field="name")
    configuration = {**snapshot.configuration, key: sql}
    metadata = replace(snapshot.metadata, configuration=configuration)
    check_properties(snapshot, metadata)
    check = compile_check(f"the CHECK constraint {name!r}", sql, snapshot.schema)
    _check_table(target, snapshot, check)
    parameters = {"name": name, "expr": sql}
    return alter(target, snapshot, "ADD CONSTRAINT", parameters, metadata=metadata, reads_rows=True)


def drop_constraint(target: Target, name: str, *, if_exists: bool = False) -> Version:
    """Drop a CHECK constraint and return the version.

    Raises:
        ValidationError: there is none of that name, unless ``if_exists``.
        ConcurrencyError: another writer got in between.
    """
    snapshot = target.fresh()
    key = _find(snapshot, name)
    if key is None:
        if if_exists:
            return snapshot.version
        raise ValidationError(f"there is no constraint {name!r}", field="name")
    configuration = dict(snapshot.configuration)
    parameters = {"name": name, "expr": configuration.pop(key), "existed": True}
    metadata = replace(snapshot.metadata, configuration=configuration)
    return alter(target, snapshot, "DROP CONSTRAINT", parameters, metadata=metadata)


def _find(snapshot: Snapshot, name: str) -> str | None:
    wanted = (CONSTRAINT_PREFIX + name).lower()
    return next((key for key in snapshot.configuration if key.lower() == wanted), None)


def _check_table(target: Target, snapshot: Snapshot, check: Check) -> None:
    # Deferred: imports Polars, which is slow to import.
    from polylake.engine.local import to_batches  # noqa: PLC0415

    columns = list(check.condition.columns) or list(snapshot.schema.names[:1])
    shape = TableShape.of(snapshot)
    frame = target.reader.read(target.storage, shape, tuple(snapshot.files.adds()), columns=columns)
    batches = to_batches(frame, snapshot.schema)
    for _ in check_batches(StructType(()), (check,), batches):
        pass
