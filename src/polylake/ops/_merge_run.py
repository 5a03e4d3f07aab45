"""Run a merge: find the rows that match by their keys, share them out, write what changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from polylake._html import ShownAsTable
from polylake.engine import FILE_COLUMN, ROW_COLUMN, FrameKind
from polylake.engine.local import to_polars_schema
from polylake.ops._change_files import ChangeType
from polylake.ops._edit import Edit
from polylake.ops._local_rows import LocalRows
from polylake.ops._merge_clauses import Action, JoinedRows, When
from polylake.ops._merge_scope import MergeCounts, check_upsert, plan_merge, several_change
from polylake.ops._merge_source import PREFIX, SOURCE_ROW, open_source
from polylake.ops._row_rules import RowRules

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polylake.log import Add
    from polylake.ops._merge_clauses import BoundClause, Clause
    from polylake.ops._merge_options import MergeOptions
    from polylake.ops._merge_source import MergeSource
    from polylake.ops._target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeMetrics(ShownAsTable):
    """What a merge did."""

    version: int | None = None
    """The version it made; ``None`` where nothing was committed, as nothing changed."""
    source_rows: int = 0
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    rows_copied: int = 0
    """Rows that stay as they are, written again because their file was."""
    files_added: int = 0
    files_removed: int = 0
    vectors_added: int = 0
    """Files that stay, with a new deletion vector; also counted as removed and added."""
    applied: bool = True
    """False where the ``txn`` had been recorded before, so that nothing was done again."""
    scan_ms: int = 0
    """How long it took to find the rows that match."""
    duration_ms: int = 0


def run_merge(  # noqa: PLR0913 - what a merge is made of
    target: Target,
    data: object,
    on: str | Sequence[str],
    clauses: Sequence[Clause],
    *,
    is_upsert: bool,
    options: MergeOptions,
) -> MergeMetrics:
    """Make the changes that clauses ask for; ``Merge.execute`` says what is raised."""
    edit = Edit(target, "MERGE", {"matchedOn": [on] if isinstance(on, str) else list(on)})
    if options.is_recorded(edit):
        return MergeMetrics(applied=False)
    options.prepare(edit)
    done = _by_cluster(edit, data, on, clauses, is_upsert=is_upsert) or _by_this_machine(
        edit, data, on, clauses, is_upsert=is_upsert
    )
    counts = edit.counts
    version = edit.commit(
        {
            "numSourceRows": done.source_rows,
            "numTargetRowsInserted": done.inserted,
            "numTargetRowsUpdated": done.updated,
            "numTargetRowsDeleted": done.deleted,
            "scanTimeMs": done.scan_ms,
        }
    )
    if version is None and options.txn is not None:
        return MergeMetrics(applied=False)
    return MergeMetrics(
        version=version,
        source_rows=done.source_rows,
        rows_inserted=done.inserted,
        rows_updated=done.updated,
        rows_deleted=done.deleted,
        rows_copied=counts.rows_copied,
        files_added=counts.files_added,
        files_removed=counts.files_removed,
        vectors_added=counts.vectors_added,
        scan_ms=done.scan_ms,
        duration_ms=edit.elapsed_ms,
    )


def _by_cluster(
    edit: Edit,
    data: object,
    on: str | Sequence[str],
    clauses: Sequence[Clause],
    *,
    is_upsert: bool,
) -> MergeCounts | None:
    """Let Spark make the changes, if the table is opened on it and it can."""
    if edit.target.engine.frames is not FrameKind.SPARK:
        return None
    from polylake.ops.spark import merge_rows  # noqa: PLC0415 - an extra

    return merge_rows(edit, data, on, clauses, is_upsert=is_upsert)


def _by_this_machine(
    edit: Edit,
    data: object,
    on: str | Sequence[str],
    clauses: Sequence[Clause],
    *,
    is_upsert: bool,
) -> MergeCounts:
    source = open_source(data, edit.snapshot.schema, on)
    if is_upsert:
        check_upsert(source.repeated_key, source.schema, edit.snapshot.schema)
    run = _Run(edit, source, clauses)
    matches = run.find_matches()
    scan_ms = edit.elapsed_ms
    run.rows.write(run.new_rows(matches), run.scope.files)
    return MergeCounts(
        source_rows=source.frame.height,
        inserted=run.inserted,
        updated=run.updated,
        deleted=run.deleted,
        scan_ms=scan_ms,
    )


class _Run:
    """One merge."""

    def __init__(self, edit: Edit, source: MergeSource, clauses: Sequence[Clause]) -> None:
        self.rows = LocalRows(edit)
        self._edit = edit
        snapshot = edit.snapshot
        self._schema = snapshot.schema
        self._source = source
        self._joined = JoinedRows(self._schema, source.schema)
        self._rules = RowRules(snapshot)
        # A source without rows says nothing of its columns, and no clause needs them then.
        used = [c for c in clauses if source.frame.height or c.when is When.BY_SOURCE]
        bound = [self._joined.bind(clause) for clause in used]
        self._changing = [c for c in bound if c.action is not Action.INSERT]
        self._inserting = [c for c in bound if c.action is Action.INSERT]
        self.scope = plan_merge(edit, source.key_filter(), used)
        self.inserted = self.updated = self.deleted = 0

    def find_matches(self) -> pl.DataFrame:
        """Return the position of every row with a key of the source, and the source's row."""
        keys = list(self._source.keys)
        frame = self.rows.read(
            self.scope.candidates, columns=keys, where=self.scope.key_filter, positions=True
        )
        joined = frame.join(
            self._source.with_keys().select(SOURCE_ROW, *self._source.key_columns).lazy(),
            left_on=keys,
            right_on=self._source.key_columns,
            how="inner",
        )
        return joined.select(FILE_COLUMN, ROW_COLUMN, SOURCE_ROW).collect()

    def new_rows(self, matches: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Yield updated and inserted rows, and mark rows that go."""
        for rows in self._joined_rows(matches) if self._changing else ():
            yield from self._change(rows)
        if self._inserting:
            yield from self._insert(matches[SOURCE_ROW])

    def _joined_rows(self, matches: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Yield joined rows, so that those of one row of the table come together."""
        needs = set().union(*(clause.needs for clause in self._changing))
        if self._edit.has_feed:
            needs = set(self._schema.names)
        rows = matches.lazy().join(self._source.frame.lazy(), on=SOURCE_ROW, how="left")
        if not self.scope.reads_all and needs <= set(self._source.keys):
            same = [pl.col(PREFIX + name).alias(name) for name in self._source.keys]
            yield rows.with_columns(same).collect()
            return
        files = self.scope.files
        if not self.scope.reads_all:
            touched = set(matches[FILE_COLUMN].unique())
            files = tuple(file for file in files if file.file_path in touched)
        if self._source.repeated_key is None:
            yield from self.rows.stream(files, lambda group: self._join(group, needs))
            return
        for file in files:
            yield self._join([file], needs).collect()

    def _join(self, files: Sequence[Add], needs: set[str]) -> pl.LazyFrame:
        keys = list(self._source.keys)
        frame = self.rows.read(
            files,
            columns=sorted(needs | set(keys)),
            where=None if self.scope.reads_all else self.scope.key_filter,
            positions=True,
        )
        return frame.join(
            self._source.with_keys().lazy(),
            left_on=keys,
            right_on=self._source.key_columns,
            how="left" if self.scope.reads_all else "inner",
            coalesce=False,
        )

    def _change(self, rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
        for clause, part in self._apart(rows):
            if part.is_empty():
                continue
            self._edit.removed.take(part)
            if clause.action is Action.DELETE:
                self.deleted += part.height
                self._record(part, ChangeType.DELETE)
                continue
            self.updated += part.height
            after = _with_values(part, clause).select(self._schema.names)
            after = self._rules.updated(after, clause.values.keys())
            self._record(part, ChangeType.BEFORE)
            self.rows.record(after, ChangeType.AFTER)
            yield after

    def _record(self, rows: pl.DataFrame, change: ChangeType) -> None:
        if self._edit.has_feed:
            self.rows.record(rows.select(self._schema.names), change)

    def _apart(self, rows: pl.DataFrame) -> Iterator[tuple[BoundClause, pl.DataFrame]]:
        """Share rows out so that a row of the table is given once.

        Raises:
            ValidationError: several rows of the source would change it, not only delete it.
        """
        if self._source.repeated_key is None:
            yield from self._joined.share_out(rows, self._changing)
            return
        place = [FILE_COLUMN, ROW_COLUMN]
        shares = list(self._joined.share_out(rows, self._changing))
        acting = pl.concat([part.select(*place, *self._source.keys) for _, part in shares])
        twice = acting.filter(acting.select(place).is_duplicated()).head(1)
        only_deletes = all(clause.action is Action.DELETE for clause in self._changing)
        if not twice.is_empty() and not only_deletes:
            raise several_change(twice.select(self._source.keys).row(0, named=True))
        seen: set[tuple[object, ...]] = set()
        for clause, part in shares:
            once = part.unique(place, keep="first", maintain_order=True)
            fresh = [row not in seen for row in once.select(place).iter_rows()]
            seen.update(once.select(place).iter_rows())
            yield clause, once.filter(fresh)

    def _insert(self, matched: pl.Series) -> Iterator[pl.DataFrame]:
        fresh = self._source.frame.filter(~pl.col(SOURCE_ROW).is_in(matched.unique().implode()))
        absent = set().union(*(clause.needs for clause in self._inserting))
        types = to_polars_schema(self._schema)
        fresh = fresh.with_columns(pl.lit(None, types[name]).alias(name) for name in absent)
        for clause, part in self._joined.share_out(fresh, self._inserting):
            if part.is_empty():
                continue
            self.inserted += part.height
            rows = self._rules.inserted(_with_values(part, clause).select(clause.values.keys()))
            if self.updated or self.deleted:
                # PROTOCOL.md, "Add CDC File": with one such file, all changes are read from those.
                self.rows.record(rows, ChangeType.INSERT)
            yield rows


def _with_values(rows: pl.DataFrame, clause: BoundClause) -> pl.DataFrame:
    return rows.with_columns(value.alias(name) for name, value in clause.values.items())
