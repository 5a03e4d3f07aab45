"""Which clients a table's protocol locks out."""
# ruff: noqa: PLC0415 - commands load what they need when they run, so that --help is quick

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polylake.log import Protocol

_NAMED_FOR_READERS = 3
_NAMED_FOR_WRITERS = 7
_EVERY_WRITER = 2


def audience(protocol: Protocol, table: str) -> dict[str, str]:
    """Say who can read and write a table, and what of it polylake can."""
    from polylake.log import FEATURES, supports

    held = [feature for name, feature in FEATURES.items() if supports(protocol, name)]
    read = list(protocol.reader_features or ())
    written = list(protocol.writer_features or ())
    if protocol.min_reader_version < _NAMED_FOR_READERS:
        read = [feature.name for feature in held if feature.for_readers]
    if protocol.min_writer_version < _NAMED_FOR_WRITERS:
        written = [f.name for f in held if f.writer_version > _EVERY_WRITER]
    return {
        "readers": _told(read, "reader"),
        "writers": _told(written, "writer"),
        "polylake": _own(protocol, table),
    }


def _told(features: list[str], who: str) -> str:
    if not features:
        return f"every Delta {who}"
    return f"{who}s that know {', '.join(sorted(features))}; others are locked out"


def _own(protocol: Protocol, table: str) -> str:
    from polylake.errors import UnsupportedFeature
    from polylake.log import check_writable

    try:
        check_writable(protocol, table)
    except UnsupportedFeature as error:
        needed = ", ".join(error.features) or f"writer version {protocol.min_writer_version}"
        return f"reads it, but cannot write it: it does not have {needed}"
    return "reads and writes it"
