"""Who handles which records, and how often it is tried."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from polylake.cdc._record import SOURCE_FIELDS, CDCOperation
from polylake.errors import ValidationError

if TYPE_CHECKING:
    from polylake.cdc._record import CDCRecord, CDCSource
    from polylake.retry import RetryPolicy

Handler: TypeAlias = Callable[["CDCRecord"], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Which records are wanted; what is ``None`` does not matter.

    Attributes:
        operations: what happened, as ``CDCOperation`` or its letter.
        sources: for fields of the source the value they have, or a callable that decides.
        ids: which things changed, or a callable that decides.

    Raises:
        ValidationError: there is no such operation or field.
    """

    operations: Collection[CDCOperation | str] | None = None
    sources: Mapping[str, object] | Callable[[CDCSource], bool] | None = None
    ids: Collection[str] | Callable[[str], bool] | None = None

    def __post_init__(self) -> None:
        known = {operation.value for operation in CDCOperation}
        for operation in self.operations or ():
            if operation not in known:
                raise ValidationError(
                    f"{operation!r} is none of the operations c, u, d and r", field="operations"
                )
        if isinstance(self.sources, Mapping) and not self.sources.keys() <= SOURCE_FIELDS:
            name = min(self.sources.keys() - SOURCE_FIELDS)
            raise ValidationError(f"a source has no field {name!r}", field="sources")
        if isinstance(self.ids, str):
            raise ValidationError(f"ids is a list; write [{self.ids!r}]", field="ids")

    def wants(self, record: CDCRecord) -> bool:
        """Say whether a record is wanted."""
        if self.operations is not None and record.op not in self.operations:
            return False
        if self.ids is not None and not _holds(self.ids, record.id):
            return False
        if self.sources is None:
            return True
        if callable(self.sources):
            return self.sources(record.source)
        return all(getattr(record.source, name) == v for name, v in self.sources.items())


EVERY_RECORD = RecordFilter()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Subscription:
    """A handler and the records it is called with."""

    handler: Handler
    filter: RecordFilter
    name: str
    """What the handler is called in dead letters."""
    retry: RetryPolicy


def handler_name(handler: Handler) -> str:
    """Return how a handler is called in the code."""
    kind: Any = handler if hasattr(handler, "__qualname__") else type(handler)
    return f"{kind.__module__}.{kind.__qualname__}"


def _holds(ids: Collection[str] | Callable[[str], bool], identity: str) -> bool:
    return ids(identity) if callable(ids) else identity in ids
