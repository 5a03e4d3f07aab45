"""Names of the files in ``_delta_log``, and how paths are written inside them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NewType
from urllib.parse import quote, unquote

from polylake.errors import ValidationError

Version = NewType("Version", int)

LOG_FOLDER = "_delta_log/"
HINT_KEY = LOG_FOLDER + "_last_checkpoint"
SIDECAR_FOLDER = LOG_FOLDER + "_sidecars/"
# ":" is the character after "9": every versioned file of the log sorts below it.
LOG_END = LOG_FOLDER + ":"

_VERSION_DIGITS = 20
_MAX_VERSION = 2**63 - 1


def format_version(version: int) -> str:
    """Write a table version as the log's file names do: zero-padded to 20 digits.

    Raises:
        ValidationError: the version is negative or does not fit in 63 bits.
    """
    if not 0 <= version <= _MAX_VERSION:
        raise ValidationError(f"{version} is not a table version", field="version", value=version)
    return f"{version:0{_VERSION_DIGITS}d}"


def parse_version(text: str) -> Version:
    """Read a table version from the start of a log file's name.

    Raises:
        ValidationError: the name does not start with 20 digits followed by its end or a dot.
    """
    digits, _, _ = text.partition(".")
    if len(digits) != _VERSION_DIGITS or not (digits.isascii() and digits.isdigit()):
        raise ValidationError(f"{text!r} does not start with a version", field="name", value=text)
    return Version(int(digits))


def commit_key(version: int) -> str:
    """Return the key of a version's commit file."""
    return f"{LOG_FOLDER}{format_version(version)}.json"


def checksum_key(version: int) -> str:
    """Return the key of a version's checksum file."""
    return f"{LOG_FOLDER}{format_version(version)}.crc"


def compaction_key(first: int, last: int) -> str:
    """Return the key of the log compaction file that stands for ``first`` to ``last``."""
    return f"{LOG_FOLDER}{format_version(first)}.{format_version(last)}.compacted.json"


def classic_checkpoint_key(version: int) -> str:
    """Return the key of a version's single-file checkpoint."""
    return f"{LOG_FOLDER}{format_version(version)}.checkpoint.parquet"


def part_checkpoint_key(version: int, part: int, parts: int) -> str:
    """Return the key of one part (counted from 1) of a multi-part checkpoint."""
    return f"{LOG_FOLDER}{format_version(version)}.checkpoint.{part:010d}.{parts:010d}.parquet"


def v2_checkpoint_key(version: int, unique: str, suffix: str) -> str:
    """Return the key of a UUID-named checkpoint; ``suffix`` is ``json`` or ``parquet``."""
    return f"{LOG_FOLDER}{format_version(version)}.checkpoint.{unique}.{suffix}"


def sidecar_key(path: str) -> str:
    """Return the key of a sidecar file from the path its action carries."""
    return SIDECAR_FOLDER + decode_path(path).rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class CommitName:
    """``<version>.json``."""

    version: Version


@dataclass(frozen=True, slots=True)
class ChecksumName:
    """``<version>.crc``."""

    version: Version


@dataclass(frozen=True, slots=True)
class CompactionName:
    """``<first>.<last>.compacted.json``."""

    version: Version
    last: Version


@dataclass(frozen=True, slots=True)
class CheckpointName:
    """One file of a checkpoint; ``unique`` is set for UUID-named ones, ``parts`` for parts."""

    version: Version
    part: int = 1
    parts: int = 1
    unique: str | None = None


LogName = CommitName | ChecksumName | CompactionName | CheckpointName

_UNIQUE = "[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_OTHER_NAMES = re.compile(
    r"(?P<version>\d{20})\.(?:"
    r"(?P<crc>crc)"
    r"|(?P<last>\d{20})\.compacted\.json"
    r"|(?P<classic>checkpoint\.parquet)"
    r"|checkpoint\.(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet"
    rf"|checkpoint\.(?P<unique>{_UNIQUE})\.(?:json|parquet)"
    r")",
    re.ASCII,
)


def parse_log_name(name: str) -> LogName | None:
    """Tell what a file in ``_delta_log`` is by its name; ``None`` for what the log ignores."""
    if len(name) == 25 and name.endswith(".json") and name.isascii() and name[:20].isdigit():
        return CommitName(Version(int(name[:20])))
    found = _OTHER_NAMES.fullmatch(name)
    if found is None:
        return None
    version = Version(int(found["version"]))
    if found["crc"]:
        return ChecksumName(version)
    if found["last"]:
        last = Version(int(found["last"]))
        return CompactionName(version, last) if last > version else None
    if found["parts"]:
        part, parts = int(found["part"]), int(found["parts"])
        return CheckpointName(version, part, parts) if 1 <= part <= parts else None
    return CheckpointName(version, unique=found["unique"])


def encode_path(decoded: str) -> str:
    """Write a data file's path as the log wants it: a URI reference.

    Everything but unreserved characters, ``/`` and ``=`` is encoded: a bare ``:`` in a relative
    path would make Java read a scheme.
    """
    return quote(decoded, safe="/=-_.~")


def encode_absolute(url: str) -> str:
    """Write an absolute path or URL as the log wants it, keeping its scheme and host."""
    scheme, separator, rest = url.partition("://")
    return scheme + separator + encode_path(rest) if separator else encode_path(url)


def decode_path(encoded: str) -> str:
    """Read a path from the log; ``file:/x`` and ``file:///x`` are the same file as ``/x``.

    Raises:
        ValidationError: the path holds percent-encoded bytes that are not UTF-8.
    """
    plain = "/" + encoded[5:].lstrip("/") if encoded.startswith("file:") else encoded
    if "%" not in plain:
        return plain
    try:
        return unquote(plain, errors="strict")
    except UnicodeDecodeError as error:
        raise ValidationError(
            f"the path {encoded!r} does not decode to UTF-8", field="path", value=encoded
        ) from error


def logical_key(path: str, vector: str | None) -> str:
    """Join a decoded path and a deletion vector's id into the key of a logical file."""
    return path if vector is None else f"{path}\0{vector}"
