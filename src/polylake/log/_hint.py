"""``_last_checkpoint``: a hint where to start reading (PROTOCOL.md, "Last Checkpoint File").

Only a hint: a log is readable without it, so one that cannot be trusted is as good as none.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import orjson

_Value = TypeVar("_Value")

_VERSION = re.compile(rb'"version"\s*:\s*(\d{1,18})\b')


@dataclass(frozen=True, slots=True, kw_only=True)
class V2CheckpointHint:
    """The UUID-named file of a V2 checkpoint, as Spark records it.

    Attributes:
        path: the checkpoint's file name, without a folder.
        modified_ms: when the file was written.
        non_file_actions: every action but ``add`` and ``remove`` as JSON, if recorded.
        sidecar_files: the checkpoint's sidecars as JSON, if recorded.
    """

    path: str
    size_in_bytes: int
    modified_ms: int
    non_file_actions: list[Any] | None = None
    sidecar_files: list[Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointHint:
    """What a writer says about the last checkpoint it wrote.

    Attributes:
        size: the number of actions in the checkpoint; -1 where the writer did not count.
        checkpoint_schema: the schema as the JSON value found, not looked into.
    """

    version: int
    size: int
    parts: int | None = None
    size_in_bytes: int | None = None
    num_of_add_files: int | None = None
    checkpoint_schema: Any = None
    tags: dict[str, str] | None = None
    v2_checkpoint: V2CheckpointHint | None = None


def parse_hint(data: bytes) -> CheckpointHint | None:
    """Return the hint, or None for one that is broken or does not match its own checksum."""
    try:
        fields = orjson.loads(data)
        # orjson takes the last of two equal keys; the protocol rejects both.
        json.loads(data, object_pairs_hook=_reject_duplicates)
        if not isinstance(fields, dict) or not _checksum_matches(fields):
            return None
        return _read_hint(fields)
    except (ValueError, RecursionError):
        return None


def hint_version(data: bytes) -> int | None:
    """Return the version a hint names, without checking the rest; None if it does not say."""
    found = _VERSION.search(data)
    return None if found is None else int(found[1])


def format_hint(hint: CheckpointHint) -> bytes:
    """Return the file's content, with its checksum."""
    # version, size and parts come first: readers that know no checksum rely on getting these
    # three from one request.
    fields = _without_nulls(
        {
            "version": hint.version,
            "size": hint.size,
            "parts": hint.parts,
            "sizeInBytes": hint.size_in_bytes,
            "numOfAddFiles": hint.num_of_add_files,
            "checkpointSchema": hint.checkpoint_schema,
            "tags": hint.tags,
        }
    )
    if hint.v2_checkpoint is not None:
        fields["v2Checkpoint"] = _without_nulls(
            {
                "path": hint.v2_checkpoint.path,
                "sizeInBytes": hint.v2_checkpoint.size_in_bytes,
                "modificationTime": hint.v2_checkpoint.modified_ms,
                "nonFileActions": hint.v2_checkpoint.non_file_actions,
                "sidecarFiles": hint.v2_checkpoint.sidecar_files,
            }
        )
    return orjson.dumps(fields | {"checksum": _md5(canonical_form(fields))})


def canonical_form(fields: dict[str, Any]) -> str:
    """Return the text whose MD5 is the checksum (PROTOCOL.md, "JSON checksum")."""
    return ",".join(f"{path}={value}" for path, value in sorted(_leaves(fields)))


def _read_hint(fields: dict[str, Any]) -> CheckpointHint:
    v2 = _optional(fields, "v2Checkpoint", dict)
    tags = _optional(fields, "tags", dict)
    if tags is not None and not all(isinstance(tag, str) for tag in tags.values()):
        raise ValueError("tags hold strings only")
    hint = CheckpointHint(
        version=_required(fields, "version", int),
        size=_required(fields, "size", int),
        parts=_optional(fields, "parts", int),
        size_in_bytes=_optional(fields, "sizeInBytes", int),
        num_of_add_files=_optional(fields, "numOfAddFiles", int),
        checkpoint_schema=fields.get("checkpointSchema"),
        tags=tags,
        v2_checkpoint=None if v2 is None else _read_v2(v2),
    )
    if not 0 <= hint.version < 2**63 or (hint.parts is not None and hint.parts < 1):
        raise ValueError("no checkpoint has such a version or number of parts")
    return hint


def _read_v2(fields: dict[str, Any]) -> V2CheckpointHint:
    return V2CheckpointHint(
        path=_required(fields, "path", str),
        size_in_bytes=_required(fields, "sizeInBytes", int),
        modified_ms=_required(fields, "modificationTime", int),
        non_file_actions=_optional(fields, "nonFileActions", list),
        sidecar_files=_optional(fields, "sidecarFiles", list),
    )


def _required(fields: dict[str, Any], name: str, kind: type[_Value]) -> _Value:
    value = _optional(fields, name, kind)
    if value is None:
        raise ValueError(f"{name} is missing")
    return value


def _optional(fields: dict[str, Any], name: str, kind: type[_Value]) -> _Value | None:
    value = fields.get(name)
    if value is None or (isinstance(value, kind) and not isinstance(value, bool)):
        return value
    raise ValueError(f"{name} is not {kind.__name__}")


def _without_nulls(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key occurs twice")


def _checksum_matches(fields: dict[str, Any]) -> bool:
    stored = fields.get("checksum")
    if stored is None:
        return True
    if stored == _md5(canonical_form(fields)):
        return True
    # Spark sorts whole "path=value" texts where the protocol sorts paths, which differs once an
    # array holds more than ten scalars, such as the features of a protocol action.
    as_spark = ",".join(sorted(f"{path}={value}" for path, value in _leaves(fields)))
    return bool(stored == _md5(as_spark))


def _leaves(fields: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the canonical path and value of every scalar but the checksum itself."""
    found: list[tuple[str, str]] = []
    pending = [(_canonical_string(k), v) for k, v in fields.items() if k != "checksum"]
    while pending:
        path, value = pending.pop()
        if isinstance(value, dict):
            pending += [(f"{path}+{_canonical_string(k)}", v) for k, v in value.items()]
        elif isinstance(value, list):
            pending += [(f"{path}+{position}", v) for position, v in enumerate(value)]
        elif isinstance(value, str):
            found.append((path, _canonical_string(value)))
        else:
            found.append((path, orjson.dumps(value).decode()))
    return found


def _canonical_string(text: str) -> str:
    return f'"{quote(text, safe="")}"'


def _md5(text: str) -> str:
    return hashlib.md5(text.encode("ascii"), usedforsecurity=False).hexdigest()
