"""Commands that lay the rows of a table out anew."""
# ruff: noqa: PLC0415 - commands load what they need when they run, so that --help is quick

from typing import Annotated, Literal

import typer

from polylake._format import format_bytes
from polylake.cli._command import command
from polylake.cli._json_values import parse_document
from polylake.cli._metrics import metrics_facts
from polylake.cli._parameters import DryRun, EngineName, Master, Table, Yes
from polylake.cli._session import Session, parse_names, parse_size
from polylake.cli._text import number_of

_PANEL = "Maintenance"

Where = Annotated[
    str | None,
    typer.Option(metavar="FILTER", help="Only partitions that match; JSON, or @FILE."),
]
TargetSize = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="About how large files are to be, such as 128MiB."),
]
Memory = Annotated[
    str | None, typer.Option(metavar="SIZE", help="About how much memory to take, such as 1GiB.")
]
Verify = Annotated[
    bool, typer.Option("--verify", help="Read new files back and compare checksums first.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, "compact", panel=_PANEL)(compact)
    command(app, "cluster", panel=_PANEL)(cluster)
    command(app, "dedupe", panel=_PANEL)(dedupe)


def compact(  # noqa: PLR0913 - one parameter for each option
    session: Session,
    table: Table,
    *,
    target_size: TargetSize = None,
    min_files: Annotated[
        int, typer.Option(min=1, help="Partitions with fewer small files are left alone.")
    ] = 4,
    strategy: Annotated[
        Literal["greedy", "bin-packing", "sort-by-size"],
        typer.Option(help="How files are put together."),
    ] = "greedy",
    where: Where = None,
    sort_by: Annotated[
        str | None, typer.Option(metavar="A,B", help="Sort the rows of new files.")
    ] = None,
    verify: Verify = False,
    memory: Memory = None,
    engine: EngineName = "local",
    master: Master = None,
    dry_run: DryRun = False,
) -> None:
    """Merge small files into larger ones; the rows stay the same.

    With --json: the fields of CompactMetrics, such as files_compacted, files_created,
    bytes_compacted, bytes_created, commit_version (null if nothing was done), dry_run and plan.
    """
    from polylake.ops import CompactOptions
    from polylake.ops import compact as merge

    target = session.table(table, engine=engine, master=master).target
    with session.output.progress() as progress:
        options = CompactOptions(
            target_bytes=parse_size(target_size, "--target-size"),
            min_files=min_files,
            strategy=strategy,
            where=None if where is None else parse_document(where, "--where"),
            sort_by=parse_names(sort_by),
            verify_integrity=verify,
            memory_bytes=parse_size(memory, "--memory"),
            dry_run=dry_run,
            progress=progress,
        )
        metrics = merge(target, options)

    def show() -> None:
        if dry_run or metrics.commit_version is None:
            session.output.text(str(metrics.plan))
            return
        session.output.done(
            f"merged {number_of(metrics.files_compacted, 'file')} "
            f"({format_bytes(metrics.bytes_compacted)}) into {metrics.files_created:,} "
            f"({format_bytes(metrics.bytes_created)}); the table is at version "
            f"{metrics.commit_version}"
        )

    session.output.result(metrics_facts(metrics), show)


def cluster(  # noqa: PLR0913 - one parameter for each option
    session: Session,
    table: Table,
    columns: Annotated[
        str, typer.Argument(metavar="COLUMNS", help="One to eight columns, such as user,day.")
    ],
    *,
    curve: Annotated[
        Literal["hilbert", "z-order"], typer.Option(help="The curve that rows lie on.")
    ] = "hilbert",
    full: Annotated[
        bool, typer.Option("--full", help="Also files that are clustered already.")
    ] = False,
    where: Where = None,
    target_size: TargetSize = None,
    verify: Verify = False,
    memory: Memory = None,
    engine: EngineName = "local",
    master: Master = None,
    dry_run: DryRun = False,
) -> None:
    """Bring rows together that are near each other in some columns, so that filters read less.

    With --json: the fields of ClusterMetrics, such as files_clustered, files_created, rows_written,
    skip_rate_before, skip_rate_after, commit_version (null if nothing was done), dry_run and plan.
    """
    from polylake.engine import Curve
    from polylake.ops import ClusterOptions
    from polylake.ops import cluster as arrange

    target = session.table(table, engine=engine, master=master).target
    with session.output.progress() as progress:
        options = ClusterOptions(
            columns=parse_names(columns),
            curve=Curve(curve),
            where=None if where is None else parse_document(where, "--where"),
            full=full,
            target_bytes=parse_size(target_size, "--target-size"),
            verify_integrity=verify,
            memory_bytes=parse_size(memory, "--memory"),
            dry_run=dry_run,
            progress=progress,
        )
        metrics = arrange(target, options)

    def show() -> None:
        if dry_run or metrics.commit_version is None:
            session.output.text(str(metrics.plan))
            return
        before, after = _percent(metrics.skip_rate_before), _percent(metrics.skip_rate_after)
        session.output.done(
            f"clustered {number_of(metrics.rows_written, 'row')}: {metrics.files_clustered:,} "
            f"files became {metrics.files_created:,}; range queries now leave {after} of the bytes "
            f"unread, before {before}; the table is at version {metrics.commit_version}"
        )

    session.output.result(metrics_facts(metrics), show)


def dedupe(  # noqa: PLR0913 - one parameter for each option
    session: Session,
    table: Table,
    *,
    on: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="The columns that tell rows apart; all unless given."),
    ] = None,
    keep: Annotated[
        Literal["first", "last", "latest"], typer.Option(help="Which of several rows stays.")
    ] = "first",
    order_by: Annotated[
        str | None, typer.Option(metavar="A,B", help="For --keep latest: the highest stays.")
    ] = None,
    per_partition: Annotated[
        bool, typer.Option("--per-partition", help="Only within each partition.")
    ] = False,
    where: Annotated[
        str | None, typer.Option(metavar="FILTER", help="Only rows that match; JSON, or @FILE.")
    ] = None,
    memory: Memory = None,
    engine: EngineName = "local",
    master: Master = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove rows that are there more than once.

    With --json: the fields of DeduplicateMetrics, such as rows_scanned, duplicates_removed,
    keys_with_duplicates, version (null if nothing was removed), dry_run and plan.
    """
    from dataclasses import replace

    from polylake.ops import DeduplicateOptions, deduplicate

    target = session.table(table, engine=engine, master=master).target
    options = DeduplicateOptions(
        keys=parse_names(on),
        keep=keep,
        order_by=parse_names(order_by),
        per_partition=per_partition,
        where=None if where is None else parse_document(where, "--where"),
        memory_bytes=parse_size(memory, "--memory"),
    )
    if dry_run or not yes:
        with session.output.progress() as progress:
            metrics = deduplicate(target, replace(options, dry_run=True, progress=progress))
        plan = f"{metrics.plan}\nremove {number_of(metrics.duplicates_removed, 'duplicate')}"
        if dry_run or not metrics.duplicates_removed:
            session.output.result(metrics_facts(metrics), lambda: session.output.text(plan))
            return
        session.agree(plan, yes=yes)
    with session.output.progress() as progress:
        metrics = deduplicate(target, replace(options, progress=progress))
    version = "nothing was committed" if metrics.version is None else f"version {metrics.version}"
    told = f"removed {number_of(metrics.duplicates_removed, 'duplicate')}; {version}"
    session.output.result(metrics_facts(metrics), lambda: session.output.done(told))


def _percent(share: float | None) -> str:
    return "an unknown share" if share is None else f"{share:.0%}"
