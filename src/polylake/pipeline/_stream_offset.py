"""How far a stream has come in a table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from polylake.errors import ValidationError


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOffset:
    """What comes next: version ``version`` from its file number ``index`` on.

    A checkpoint keeps where each batch ends, and not where the first one began. So an offset
    also says where its stream began: if the first batch fails, it is made again from there,
    wherever the table is by then.
    """

    table: str
    """The table's id."""
    version: int
    index: int = 0
    in_snapshot: bool = False
    """Whether it is the files that the version has, and not those that it added."""
    first_version: int
    first_in_snapshot: bool

    @classmethod
    def begin(cls, table: str, version: int, *, in_snapshot: bool) -> StreamOffset:
        """Return the offset that a stream begins with."""
        return cls(
            table=table,
            version=version,
            in_snapshot=in_snapshot,
            first_version=version,
            first_in_snapshot=in_snapshot,
        )

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> StreamOffset:
        """Read an offset as a checkpoint keeps it.

        Raises:
            ValidationError: it is none of a stream of this library.
        """
        try:
            return cls(**given)
        except TypeError as error:
            raise ValidationError(
                f"the checkpoint's offset {given!r} is none of format polylake: start with "
                "another checkpoint",
                field="checkpointLocation",
            ) from error

    def to_json(self) -> dict[str, Any]:
        """Return the offset as a checkpoint keeps it."""
        return asdict(self)

    @property
    def first(self) -> StreamOffset:
        """Where the stream began."""
        return self.begin(self.table, self.first_version, in_snapshot=self.first_in_snapshot)
