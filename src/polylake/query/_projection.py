"""Which fields of a document a reader gets to see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polylake.errors import ValidationError
from polylake.query._parse import parse_path

if TYPE_CHECKING:
    from polylake.schema import Path, StructType

_ID = "_id"


@dataclass(frozen=True, slots=True)
class Projection:
    """Paths that are kept, or paths that are left out; ``_id`` is kept unless it is left out."""

    paths: tuple[Path, ...]
    keep: bool


ALL_FIELDS = Projection((), keep=False)


def parse_projection(
    fields: Mapping[str, object] | Iterable[str] | Projection | None,
) -> Projection:
    """Read a projection: names with 1 or 0, or a list of the names to keep.

    Raises:
        ValidationError: it mixes names to keep with names to leave out, names a field twice, or
            asks for what is neither.
    """
    if fields is None or isinstance(fields, Projection):
        return fields or ALL_FIELDS
    if isinstance(fields, (str, bytes)):
        raise ValidationError(
            f"a projection is a dict or a list of names, not {fields!r}; write [{fields!r}]"
        )
    flags = _flags(fields) if isinstance(fields, Mapping) else _named(fields)
    id_flag = flags.get((_ID,))
    others = {path: flag for path, flag in flags.items() if path != (_ID,)}
    if len(set(others.values())) > 1:
        raise ValidationError(
            "a projection either keeps fields (1) or leaves them out (0); only _id may differ"
        )
    keep = next(iter(others.values()), bool(id_flag))
    if keep and id_flag is not False:
        others = {(_ID,): True, **others} if id_flag is None else flags
    if not keep and id_flag is False:
        others = {**others, (_ID,): False}
    paths = tuple(others)
    _refuse_overlaps(paths)
    return Projection(paths, keep)


def project(document: Mapping[str, object], projection: Projection) -> dict[str, Any]:
    """Return the part of a document that a projection shows, in the document's order."""
    if projection == ALL_FIELDS:
        return dict(document)
    return (_keep if projection.keep else _leave_out)(document, projection.paths)


def projection_columns(projection: Projection, schema: StructType) -> tuple[str, ...]:
    """Return the columns that have to be read, in the schema's order."""
    if projection.keep:
        wanted = {path[0] for path in projection.paths}
        return tuple(name for name in schema.names if name in wanted)
    unwanted = {path[0] for path in projection.paths if len(path) == 1}
    return tuple(name for name in schema.names if name not in unwanted)


def _flags(fields: Mapping[str, object]) -> dict[Path, bool]:
    flags: dict[Path, bool] = {}
    for name, flag in fields.items():
        if not isinstance(flag, (bool, int, float)):
            raise ValidationError(
                f"a projection has 1 or 0 for {name!r}, not {flag!r}: expressions and array "
                "operators are not supported",
                field=name,
            )
        flags[parse_path(name)] = bool(flag)
    return flags


def _named(names: Iterable[str]) -> dict[Path, bool]:
    return dict.fromkeys(map(parse_path, names), True)


def _refuse_overlaps(paths: tuple[Path, ...]) -> None:
    known = set(paths)
    for path in paths:
        for length in range(1, len(path)):
            if path[:length] in known:
                raise ValidationError(
                    f"a projection names {'.'.join(path)!r} and, with all that is in it, "
                    f"{'.'.join(path[:length])!r}",
                    field=".".join(path),
                )


def _below(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Group paths by their first step; an empty rest is the whole field."""
    groups: dict[str, list[Path]] = {}
    for path in paths:
        groups.setdefault(path[0], []).append(path[1:])
    return groups


def _keep(document: Mapping[str, object], paths: Iterable[Path]) -> dict[str, Any]:
    groups = _below(paths)
    kept: dict[str, Any] = {}
    for name, value in document.items():
        rest = groups.get(name)
        if rest is None:
            continue
        if () in rest:
            kept[name] = value
        elif isinstance(value, (Mapping, list)):
            kept[name] = _keep_in(value, rest)
    return kept


def _keep_in(value: object, paths: list[Path]) -> object:
    if isinstance(value, list):
        return [_keep_in(item, paths) for item in value if isinstance(item, (Mapping, list))]
    return _keep(value, paths) if isinstance(value, Mapping) else value


def _leave_out(document: Mapping[str, object], paths: Iterable[Path]) -> dict[str, Any]:
    groups = _below(paths)
    return {
        name: _leave_out_in(value, groups.get(name, []))
        for name, value in document.items()
        if () not in groups.get(name, [])
    }


def _leave_out_in(value: object, paths: list[Path]) -> object:
    if not paths:
        return value
    if isinstance(value, list):
        return [_leave_out_in(item, paths) for item in value]
    return _leave_out(value, paths) if isinstance(value, Mapping) else value
