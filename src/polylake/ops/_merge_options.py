"""What the commit of a merge says and holds besides the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polylake.errors import ConcurrencyError
from polylake.log import with_schema
from polylake.ops._alter import check_properties
from polylake.ops._evolve import TYPE_WIDENING, merge_incoming

if TYPE_CHECKING:
    from polylake.ops._edit import Edit
    from polylake.schema import StructType


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOptions:
    """What a merge does besides."""

    txn: tuple[str, int] | None = None
    """An application's id and its version of this merge: the same one is made once only."""
    user_metadata: str | None = None
    """What the commit says besides, for the table's history."""
    new_columns: StructType | None = None
    """Columns of the source that the table gets in the same commit where it lacks them."""
    base_version: int | None = None
    """The version the source was made from: the merge is refused if it is no longer the latest."""

    def is_recorded(self, edit: Edit) -> bool:
        """Say whether the table has recorded this merge already."""
        if self.txn is None or self.txn[0] not in edit.snapshot.txns:
            return False
        return edit.snapshot.txns[self.txn[0]].version >= self.txn[1]

    def prepare(self, edit: Edit) -> None:
        """Put into the commit what it holds besides the rows.

        Raises:
            SchemaError: a column's types cannot be brought together.
            ValidationError: the table's protocol does not carry a new column.
            ConcurrencyError: the source was made from an older version.
        """
        if self.base_version is not None:
            if edit.snapshot.version != self.base_version:
                raise ConcurrencyError(
                    f"{edit.snapshot.table} is at version {edit.snapshot.version}, and the rows "
                    f"to merge were made from version {self.base_version}",
                    expected_version=self.base_version,
                    actual_version=edit.snapshot.version,
                )
            edit.depends_on_all()
        if self.new_columns is not None:
            _evolve(edit, self.new_columns)
        if self.txn is not None:
            edit.record_txn(*self.txn)
        if self.user_metadata is not None:
            edit.annotate(self.user_metadata)


def _evolve(edit: Edit, columns: StructType) -> None:
    snapshot = edit.snapshot
    widen = snapshot.is_set(TYPE_WIDENING)
    wanted = merge_incoming(snapshot.schema, columns, widen=widen, typed=widen)
    if wanted == snapshot.schema:
        return
    metadata = with_schema(snapshot.metadata, wanted)
    check_properties(snapshot, metadata)
    edit.evolve(metadata)
