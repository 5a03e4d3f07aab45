"""Which stored files the log refers to: data files and their deletion vectors, as keys."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from polylake.log import DeletionVectorDescriptor
from polylake.log._columns import key_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FILES = pa.schema([("path", pa.string()), ("size", pa.int64())])
"""A decoded path relative to the table's root, and how large the log says the file is."""


def referenced_files(rows: pa.Table) -> pa.Table:
    """Return the files that adds or removes refer to, as ``FILES``; a file may come twice.

    An absolute path is of a file elsewhere, or of one of this table's that a writer spelled out
    in one of many ways. It is turned into every key that it might end in, so that whatever is
    protected by these paths is protected however it is spelled.

    Args:
        rows: file actions with at least ``path``, ``size`` and ``deletionVector``.

    Raises:
        InvalidTableState: a deletion vector is not described as the protocol says.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import

    paths, _ = key_columns(rows)
    plain = pa.table([paths, rows["size"]], schema=FILES)
    odd = pc.match_substring_regex(paths, _ODD)
    others: list[str] = []
    if pc.any(odd).as_py():
        for path in plain["path"].filter(odd).to_pylist():
            others += _possible_keys(path)
        plain = plain.filter(pc.invert(odd))
    for path in _vector_files(rows["deletionVector"]):
        others += _possible_keys(path)
    if not others:
        return plain
    extra = pa.table([pa.array(others, pa.string()), pa.nulls(len(others), pa.int64())], FILES)
    return pa.concat_tables([plain, extra])


def own_files(rows: pa.Table) -> set[str]:
    """Return the keys of the files that adds or removes refer to below the table's root.

    Raises:
        InvalidTableState: a deletion vector is not described as the protocol says.
    """
    paths = [*key_columns(rows)[0].to_pylist(), *_vector_files(rows["deletionVector"])]
    return {posixpath.normpath(path) for path in paths if not is_absolute(path)}


def is_absolute(path: str) -> bool:
    """Say whether a decoded path of the log is more than a key below the table's root."""
    head, colon, _ = path.partition(":/")
    return path.startswith("/") or (bool(colon) and "/" not in head)


# Absolute: from the root, or with a scheme. Not in its shortest form: empty or dotted segments.
_ODD = r"^/|^[A-Za-z][A-Za-z0-9+.\-]*:/|(^|/)\.{0,2}(/|$)"


def _possible_keys(path: str) -> Iterable[str]:
    if not is_absolute(path):
        return (posixpath.normpath(path),)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ("/".join(parts[start:]) for start in range(len(parts)))


def _vector_files(vectors: pa.ChunkedArray) -> Iterator[str]:
    """Yield the files that deletion vectors are in; several may share one."""
    if vectors.null_count == len(vectors):
        return
    seen: set[tuple[str, str]] = set()
    rows: list[dict[str, Any]] = vectors.drop_null().to_pylist()
    for fields in rows:
        place = fields["storageType"], fields["pathOrInlineDv"]
        if place in seen or fields["storageType"] == "i":
            continue
        seen.add(place)
        location = DeletionVectorDescriptor.from_log(fields).location
        if location is not None:
            yield location
