"""Commands that say what a table is and how it came to be."""
# ruff: noqa: PLC0415 - commands load what they need when they run, so that --help is quick

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polylake._format import format_bytes
from polylake.cli._audience import audience
from polylake.cli._command import command
from polylake.cli._json_values import parse_document
from polylake.cli._parameters import At, OptionalFilter, Table
from polylake.cli._session import Session, parse_moment
from polylake.cli._text import number_of

if TYPE_CHECKING:
    from polylake.log import Add, CommitEntry, Snapshot

_PANEL = "Look at tables"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "show", panel=_PANEL)(show)
    command(app, "history", panel=_PANEL)(history)
    command(app, "files", panel=_PANEL)(files)


def show(session: Session, table: Table, *, at: At = None) -> None:
    """Show a table: its columns, properties and size, and who can read it.

    With --json: url, version, id, name, description, files, bytes, rows (null if a file has no
    statistics), commits_since_checkpoint, schema (as the log has it), partition_columns,
    properties, protocol, audience.
    """
    snapshot = _snapshot(session, table, at)
    facts = _facts(snapshot)
    session.output.result(facts, lambda: _show(session, snapshot, facts))


def history(
    session: Session,
    table: Table,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at most.")] = 20,
    everything: Annotated[bool, typer.Option("--all", help="All that the log has.")] = False,
) -> None:
    """List the commits of a table, newest first.

    With --json, a line each: version, timestamp, operation, parameters, metrics, engine, user,
    user_metadata.
    """
    from polylake.log import history as commits

    storage = session.storage(table)
    entries = map(_entry, commits(storage, limit=None if everything else limit))
    if session.output.as_json:
        for entry in entries:
            session.output.line(entry)
        return
    session.output.table(
        ["version", "time (UTC)", "operation", "metrics", "engine", "note"],
        (
            [
                entry["version"],
                f"{entry['timestamp']:%Y-%m-%d %H:%M:%S}",
                entry["operation"],
                _told(entry["metrics"]),
                entry["engine"] or "",
                entry["user_metadata"] or "",
            ]
            for entry in entries
        ),
    )


def files(session: Session, table: Table, where: OptionalFilter = None, *, at: At = None) -> None:
    """List the data files of a table, or those that may hold rows that a filter matches.

    With --json, a line each: path, bytes, rows, deleted_rows, partition, modified_ms.
    """
    snapshot = _snapshot(session, table, at)
    found = _files(snapshot, where)
    if session.output.as_json:
        for file in found:
            session.output.line(file)
        return
    held = list(found)
    names = list(snapshot.partition_columns)
    session.output.table(
        ["path", "bytes", "rows", "deleted", *names],
        (
            [
                file["path"],
                file["bytes"],
                file["rows"],
                file["deleted_rows"],
                *file["partition"].values(),
            ]
            for file in held
        ),
    )
    total = sum(file["bytes"] for file in held)
    session.output.note(f"{number_of(len(held), 'file')}, {format_bytes(total)}")


def _snapshot(session: Session, location: str, moment: str | None) -> "Snapshot":
    from polylake.log import version_at

    log = session.log(location)
    if moment is None:
        return log.snapshot()
    match parse_moment(moment):
        case {"version": int(version)}:
            return log.snapshot(version)
        case _:
            return log.snapshot(version_at(log.storage, moment, latest_if_after=True))


def _facts(snapshot: "Snapshot") -> dict[str, Any]:
    import orjson

    metadata, protocol = snapshot.metadata, snapshot.protocol
    return {
        "url": snapshot.table,
        "version": snapshot.version,
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "created_ms": metadata.created_time,
        "files": snapshot.totals.num_files,
        "bytes": snapshot.totals.size_bytes,
        "rows": _count_rows(snapshot),
        "commits_since_checkpoint": snapshot.version - (snapshot.checkpoint_version or 0),
        "schema": orjson.loads(metadata.schema_string),
        "partition_columns": list(snapshot.partition_columns),
        "properties": dict(snapshot.configuration),
        "protocol": {
            "min_reader_version": protocol.min_reader_version,
            "min_writer_version": protocol.min_writer_version,
            "reader_features": list(protocol.reader_features or ()),
            "writer_features": list(protocol.writer_features or ()),
        },
        "audience": audience(protocol, snapshot.table),
    }


def _count_rows(snapshot: "Snapshot") -> int | None:
    """Return how many rows the log says there are; ``None`` where it does not say it of a file."""
    from polylake.log import num_records

    files = snapshot.files.table(["stats", "deletionVector"])
    counts = [num_records(stats) for stats in files["stats"].to_pylist()]
    vectors = files["deletionVector"].drop_null().to_pylist()
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return None
    deleted = sum(int(vector["cardinality"]) for vector in vectors)
    return sum(known) - deleted


def _show(session: Session, snapshot: "Snapshot", facts: dict[str, Any]) -> None:
    output = session.output
    rows = facts["rows"]
    protocol = snapshot.protocol
    held = number_of(facts["files"], "file") + f", {format_bytes(facts['bytes'])}"
    output.facts(
        {
            "table": facts["url"],
            "name": facts["name"],
            "description": facts["description"],
            "version": str(facts["version"]),
            "size": held if rows is None else f"{number_of(rows, 'row')} in {held}",
            "partitioned by": ", ".join(facts["partition_columns"]) or None,
            "protocol": (
                f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}"
            ),
            "can be read by": facts["audience"]["readers"],
            "can be written by": facts["audience"]["writers"],
            "polylake": facts["audience"]["polylake"],
            "health": _upkeep(facts),
        }
    )
    output.text("")
    output.table(
        ["column", "type", "nulls", "comment"],
        (
            [
                field.name,
                str(field.type),
                "" if field.nullable else "not null",
                str(field.metadata.get("comment", "")),
            ]
            for field in snapshot.schema
        ),
    )
    if facts["properties"]:
        output.text("")
        output.table(["property", "value"], facts["properties"].items())


def _upkeep(facts: dict[str, Any]) -> str:
    """Return the two figures that tell most of how a table is doing; ``health`` judges them."""
    since = number_of(facts["commits_since_checkpoint"], "commit")
    told = f"{since} since the last checkpoint"
    if facts["files"]:
        average = format_bytes(facts["bytes"] // facts["files"])
        told = f"files of {average} on average, {told}"
    return f"{told}; polylake health says more"


def _entry(entry: "CommitEntry") -> dict[str, Any]:
    return {
        "version": entry.version,
        "timestamp": entry.timestamp,
        "operation": entry.operation,
        "parameters": dict(entry.parameters),
        "metrics": dict(entry.metrics),
        "engine": entry.engine_info,
        "user": entry.user_name or entry.user_id,
        "user_metadata": entry.user_metadata,
    }


def _told(metrics: dict[str, Any]) -> str:
    """Return the metrics that say something, without how long it took."""
    return ", ".join(
        f"{name} {value}"
        for name, value in metrics.items()
        if value not in ("0", 0) and not name.endswith("TimeMs")
    )


def _files(snapshot: "Snapshot", where: str | None) -> Iterator[dict[str, Any]]:
    if where is None:
        return map(_file, snapshot.files.adds())
    from polylake.ops import plan_scan

    return map(_file, plan_scan(snapshot, parse_document(where, "FILTER")).files)


def _file(add: "Add") -> dict[str, Any]:
    from polylake.log import num_records

    vector = add.deletion_vector
    return {
        "path": add.file_path,
        "bytes": add.size,
        "rows": num_records(add.stats),
        "deleted_rows": 0 if vector is None else vector.cardinality,
        "partition": dict(add.partition_values),
        "modified_ms": add.modification_time,
    }
