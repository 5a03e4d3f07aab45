"""A change to one thing, as every system that exchanges changes can say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from polylake.cdc._json import dump, load
from polylake.errors import CDCError

if TYPE_CHECKING:
    from typing import NoReturn

State: TypeAlias = Mapping[str, Any]
"""What a document or row was or is; it is not to be changed once a record holds it."""

_MAX_LONG = 2**63 - 1


class CDCOperation(StrEnum):
    """What happened: created, updated, deleted, or read for a snapshot."""

    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    READ = "r"


_OPERATIONS = {operation.value: operation for operation in CDCOperation}


@dataclass(frozen=True, slots=True, kw_only=True)
class CDCSource:
    """Where a change comes from.

    Attributes:
        system: the kind of system, such as ``postgresql``, ``mongodb``, ``delta``.
        database: the database.
        collection: the collection or table.
        topic: the topic the change was read from.
        partition: the partition of the topic.
        transaction: the transaction the change was part of.
        server: the server or connector, by the name it gives itself.
        origin: the system in which the change was made first; a change is never sent back there.
        extra: what else the source says, as JSON has it: a mapping keeps here what it needs for
            an exact way back.

    Raises:
        CDCError: a field is not of its type, or ``extra`` has a name that is a field's.
    """

    system: str
    database: str | None = None
    collection: str | None = None
    topic: str | None = None
    partition: int | None = None
    transaction: str | None = None
    server: str | None = None
    origin: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name in _TEXT_FIELDS:
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                _refuse(f"_source.{name}", f"{value!r} is not a string")
        if not self.system:
            _refuse("_source.system", "it is empty")
        if self.partition is not None:
            _check_long("_source.partition", self.partition)
        if not _is_mapping(self.extra):
            _refuse("_source.extra", f"{self.extra!r} is not a dict")
        if self.extra and not self.extra.keys().isdisjoint(SOURCE_FIELDS):
            taken = sorted(self.extra.keys() & SOURCE_FIELDS)
            _refuse("_source.extra", f"{taken} are fields of their own")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are set and, beside them, what is in ``extra``."""
        named = ((name, getattr(self, name)) for name in _NAMED_FIELDS)
        return {name: value for name, value in named if value is not None} | dict(self.extra)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> CDCSource:
        """Return the source that ``to_dict`` made ``document`` of; other names are ``extra``.

        Raises:
            CDCError: it is not a source.
        """
        if not _is_mapping(document):
            _refuse("_source", f"{document!r} is not a dict")
        if document.get("system") is None:
            _refuse("_source.system", "it is missing")
        if document.keys() <= SOURCE_FIELDS:
            return cls(**document)
        known = {name: value for name, value in document.items() if name in SOURCE_FIELDS}
        extra = {name: value for name, value in document.items() if name not in SOURCE_FIELDS}
        return cls(**known, extra=extra)


_NAMED_FIELDS = tuple(part.name for part in fields(CDCSource) if part.name != "extra")
_TEXT_FIELDS = tuple(name for name in _NAMED_FIELDS if name != "partition")
SOURCE_FIELDS = frozenset(_NAMED_FIELDS)
"""The fields of a source that have a place of their own."""


@dataclass(frozen=True, slots=True)
class CDCStart:
    """The first of the changes that one net change stands for."""

    op: CDCOperation
    seq: int
    ts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CDCRecord:
    """A change to one document or row; serialised, each name has an underscore before it.

    A create and a read have no ``before``; a delete has no ``after``, and all others have one.

    Attributes:
        id: which document or row.
        seq: the place of the change in the order of its source.
        op: what happened.
        before: the state before, if it is known.
        after: the state after.
        ts: when, in nanoseconds since 1970.
        source: where the change comes from.
        start: of a net change, the first change it stands for, where that is another one.

    Raises:
        CDCError: the record contradicts itself; ``field`` and ``id`` say where.
    """

    id: str
    seq: int
    op: CDCOperation
    before: State | None = field(default=None, hash=False)
    after: State | None = field(default=None, hash=False)
    ts: int
    source: CDCSource
    start: CDCStart | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.id, str):
            _refuse("_id", "it is not a string", self.id)
        _check_long("_seq", self.seq, self.id)
        _check_long("_ts", self.ts, self.id)
        if type(self.op) is not CDCOperation:
            object.__setattr__(self, "op", _operation("_op", self.op, self.id))
        if not isinstance(self.source, CDCSource):
            _refuse("_source", f"{self.source!r} is not a CDCSource", self.id)
        self._check_states()

    def _check_states(self) -> None:
        op, before, after = self.op, self.before, self.after
        if before is not None:
            if not _is_mapping(before):
                _refuse("_before", f"a {type(before).__name__} is not a dict", self.id)
            if op is CDCOperation.CREATE or op is CDCOperation.READ:
                _refuse("_before", f"a {op.name.lower()} has nothing before it", self.id)
        if after is None:
            if op is not CDCOperation.DELETE:
                _refuse("_after", f"it is missing, and a {op.name.lower()} has one", self.id)
        elif op is CDCOperation.DELETE:
            _refuse("_after", "a delete leaves nothing", self.id)
        elif not _is_mapping(after):
            _refuse("_after", f"a {type(after).__name__} is not a dict", self.id)

    @property
    def first(self) -> CDCStart:
        """The first change that this record stands for: itself, unless it is a net change."""
        return self.start or CDCStart(self.op, self.seq, self.ts)

    def to_dict(self) -> dict[str, Any]:
        """Return the record under its serialised names; ``_start`` is there if it is set."""
        document: dict[str, Any] = {
            "_id": self.id,
            "_seq": self.seq,
            "_op": self.op.value,
            "_before": self.before,
            "_after": self.after,
            "_ts": self.ts,
            "_source": self.source.to_dict(),
        }
        if self.start is not None:
            start = self.start
            document["_start"] = {"op": start.op.value, "seq": start.seq, "ts": start.ts}
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> CDCRecord:
        """Return the record that ``to_dict`` made ``document`` of.

        A state that is missing is none. Numbers may be texts, as other languages write what
        their numbers cannot hold.

        Raises:
            CDCError: it is not a record; ``field`` and ``id`` say where.
        """
        if not _is_mapping(document):
            _refuse("record", f"a {type(document).__name__} is not a dict")
        identity = document.get("_id")
        if not document.keys() >= _NEEDED:
            _refuse(min(_NEEDED - document.keys()), "it is missing", identity)
        if not document.keys() <= _KNOWN:
            _refuse(str(next(iter(document.keys() - _KNOWN))), "no record has this field", identity)
        start = document.get("_start")
        return cls(
            id=document["_id"],
            seq=_number(document["_seq"]),
            op=_operation("_op", document["_op"], identity),
            before=document.get("_before"),
            after=document.get("_after"),
            ts=_number(document["_ts"]),
            source=CDCSource.from_dict(document["_source"]),
            start=None if start is None else parse_start(start, identity),
        )

    def to_json(self) -> bytes:
        """Return the record as JSON; values that JSON lacks are written as extended JSON.

        Raises:
            CDCError: a value has no JSON form.
        """
        return dump(self.to_dict())

    @classmethod
    def from_json(cls, text: bytes | str) -> CDCRecord:
        """Return the record that ``to_json`` wrote.

        Raises:
            CDCError: the text is not JSON, or not a record.
        """
        return cls.from_dict(load(text))


_NEEDED = frozenset({"_id", "_seq", "_op", "_ts", "_source"})
_KNOWN = _NEEDED | {"_before", "_after", "_start"}


def parse_start(document: object, identity: object) -> CDCStart:
    """Return the start of a net change.

    Raises:
        CDCError: it is none.
    """
    if not isinstance(document, Mapping) or document.keys() != {"op", "seq", "ts"}:
        _refuse("_start", f"{document!r} does not have op, seq and ts", identity)
    seq, ts = _number(document["seq"]), _number(document["ts"])
    _check_long("_start.seq", seq, identity)
    _check_long("_start.ts", ts, identity)
    return CDCStart(_operation("_start.op", document["op"], identity), seq, ts)


def _operation(name: str, value: object, identity: object) -> CDCOperation:
    operation = _OPERATIONS.get(value) if isinstance(value, str) else None
    if operation is None:
        _refuse(name, f"{value!r} is none of c, u, d and r", identity)
    return operation


def _number(value: Any) -> int:  # noqa: ANN401 - whether it is one is checked by the record
    if isinstance(value, str) and value.removeprefix("-").isdecimal():
        return int(value)
    return value  # type: ignore[no-any-return] # see above


def _is_mapping(value: object) -> bool:
    return type(value) is dict or isinstance(value, Mapping)  # the former is far cheaper to ask


def _check_long(name: str, value: object, identity: object = None) -> None:
    if type(value) is not int or not -_MAX_LONG - 1 <= value <= _MAX_LONG:
        _refuse(name, f"{value!r} is not an integer of 64 bits", identity)


def _refuse(name: str, problem: str, identity: object = None) -> NoReturn:
    whose = "" if identity is None else f" of the change to {identity!r}"
    raise CDCError(f"{name}{whose}: {problem}", field=name, id=identity)
