"""Reader leases: versions that vacuum and log cleanup leave readable for a while.

A lease is an object ``_polylake/leases/<id>.json`` in the table's root.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable  # noqa: TC003 - dataclasses look field types up
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import orjson

from polylake._ids import new_id
from polylake.errors import (
    FileNotFound,
    InvalidTableState,
    LeaseLost,
    ValidationError,
)
from polylake.log import load_snapshot
from polylake.log._settings import now_ms as system_clock
from polylake.ops._deleting import DELETING_FOLDER, wait_for_batches
from polylake.ops._file_facts import stored_files
from polylake.ops._referenced import own_files
from polylake.storage import Storage  # noqa: TC001 - as above

if TYPE_CHECKING:
    from polylake.log import Snapshot
    from polylake.ops._target import Target

LEASE_FOLDER = "_polylake/leases/"

_FORGOTTEN_MS = 60 * 60 * 1000
"""How long after its end a lease is swept: clocks of different hosts may not agree."""
_SHOWN_FILES = 3


@dataclass(slots=True, kw_only=True)
class Lease:
    """A version that stays readable until ``expires_ms``. Leaving its ``with`` block releases it.

    From the moment ``pin`` returns until the lease ends, no vacuum and no log cleanup of polylake
    deletes a file that the version needs, nor does one that was deleting at that moment. Other
    engines do not know leases: they keep to the table's own retention only. It ends by the clock
    of the host that deletes, so renew it well before.
    """

    id: str
    version: int
    created_ms: int
    expires_ms: int
    reason: str
    holder: str
    """The host and the process that pinned the version."""
    storage: Storage = field(repr=False, compare=False)
    clock_ms: Callable[[], int] = field(default=system_clock, repr=False, compare=False)

    @property
    def key(self) -> str:
        """Where the lease is kept."""
        return f"{LEASE_FOLDER}{self.id}.json"

    def renew(self, ttl_s: float = 3600) -> None:
        """Let the lease last ``ttl_s`` seconds from now.

        Raises:
            LeaseLost: it has ended, so that files of the version may be gone; pin it again.
            ValidationError: ``ttl_s`` is not above zero.
        """
        now = self.clock_ms()
        if now >= self.expires_ms or not self.storage.exists(self.key):
            raise LeaseLost(
                f"the lease on version {self.version} of {self.storage.url} has ended, so files "
                "of it may be gone. Pin the version again.",
                version=self.version,
                lease=self.id,
            )
        self.expires_ms = now + _ttl_ms(ttl_s)
        self.storage.put(self.key, self.to_json())

    def release(self) -> None:
        """End the lease; it may have ended before."""
        self.storage.delete([self.key])

    def to_json(self) -> bytes:
        """Return what is stored."""
        return orjson.dumps({name: getattr(self, name) for name in _FIELDS})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"version {self.version}, by {self.holder}{why}"


_FIELDS = {"version": int, "created_ms": int, "expires_ms": int, "reason": str, "holder": str}


def pin(
    target: Target,
    version: int | None = None,
    *,
    ttl_s: float = 3600,
    reason: str = "",
    holder: str | None = None,
) -> Lease:
    """Keep a version readable for ``ttl_s`` seconds, whatever is vacuumed or cleaned meanwhile.

    See ``Lease`` for what is promised. Pinning the latest version costs one small object. For an
    older one the files that the table has left behind are looked for, and if a vacuum is deleting
    at this moment, its current batch is waited for.

    Args:
        target: the table.
        version: the version; the latest if not given.
        ttl_s: how long, unless it is renewed or released.
        reason: told in the plans of vacuum and log cleanup.
        holder: who holds the lease; this host and process if not given.

    Raises:
        VersionNotFound: the log does not hold the version.
        FileNotFound: files of the version are gone already; the message names some.
        StorageUnavailable: a vacuum kept deleting; try again.
        ValidationError: ``ttl_s`` is not above zero.
    """
    ttl_ms = _ttl_ms(ttl_s)
    latest = target.fresh()
    held = latest if version is None else target.log.snapshot(version)
    now = target.log.settings.clock_ms()
    lease = Lease(
        id=new_id(),
        version=held.version,
        created_ms=now,
        expires_ms=now + ttl_ms,
        reason=reason,
        holder=holder or f"{platform.node()}:{os.getpid()}",
        storage=target.storage,
        clock_ms=target.log.settings.clock_ms,
    )
    try:
        target.storage.put(lease.key, lease.to_json())
        _check_there(target, held)
    except BaseException:
        lease.release()
        raise
    return lease


def read_leases(storage: Storage, now_ms: int) -> tuple[Lease, ...]:
    """Return the leases that have not ended.

    Raises:
        InvalidTableState: a lease cannot be read, so that what it protects is not known; the
            message names the object.
    """
    return tuple(lease for lease in _all_leases(storage) if lease.expires_ms > now_ms)


def forgotten_keys(storage: Storage, now_ms: int) -> list[str]:
    """Return the leases and announcements that ended long ago, to be swept.

    Raises:
        InvalidTableState: a lease cannot be read.
    """
    leases = _all_leases(storage)
    ended = [lease.key for lease in leases if lease.expires_ms + _FORGOTTEN_MS <= now_ms]
    old = now_ms - _FORGOTTEN_MS
    return [*ended, *(i.key for i in storage.list(DELETING_FOLDER) if i.modified_ms <= old)]


def _check_there(target: Target, held: Snapshot) -> None:
    """Make sure that a version with a lease on it can be read, log and files.

    Raises:
        VersionNotFound: a cleanup of the log was faster.
        FileNotFound: a vacuum was faster.
        StorageUnavailable: a vacuum kept deleting.
    """
    storage = target.storage
    latest = target.fresh()
    if latest.version == held.version:
        return
    wait_for_batches(target.storage, target.log.settings)
    held = load_snapshot(storage, version=held.version)
    columns = ["path", "deletionVector"]
    live = own_files(latest.files.table(columns))
    keys = sorted(own_files(held.files.table(columns)) - live)
    found = {info.key for info in stored_files(storage, keys)}
    missing = [key for key in keys if key not in found]
    if missing:
        shown = ", ".join(missing[:_SHOWN_FILES])
        raise FileNotFound(
            f"version {held.version} of {held.table} cannot be pinned: {len(missing)} of its files "
            f"are gone ({shown}{', …' if len(missing) > _SHOWN_FILES else ''})",
            path=missing[0],
            missing=tuple(missing),
        )


def _all_leases(storage: Storage) -> list[Lease]:
    found = []
    for info in storage.list(LEASE_FOLDER):
        try:
            body = storage.get(info.key)
        except FileNotFound:
            continue  # released meanwhile
        found.append(_parse(storage, info.key, body))
    return found


def _parse(storage: Storage, key: str, body: bytes) -> Lease:
    try:
        values = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _unreadable(storage, key, str(error)) from error
    if not isinstance(values, dict):
        raise _unreadable(storage, key, "not an object")
    wrong = [name for name, kind in _FIELDS.items() if type(values.get(name)) is not kind]
    if wrong:
        raise _unreadable(storage, key, f"{wrong[0]} is missing or of the wrong type")
    identity = key.removeprefix(LEASE_FOLDER).removesuffix(".json")
    known = {name: values[name] for name in _FIELDS}
    return Lease(id=identity, storage=storage, **known)


def _unreadable(storage: Storage, key: str, reason: str) -> InvalidTableState:
    return InvalidTableState(
        f"the lease {key} of {storage.url} cannot be read ({reason}), so the version it protects "
        "is not known and nothing may be deleted. Remove it if nobody holds it.",
        path=key,
        reason=reason,
    )


def _ttl_ms(ttl_s: float) -> int:
    if not ttl_s > 0:
        raise ValidationError(f"ttl_s is {ttl_s}, not above zero", field="ttl_s", value=ttl_s)
    return round(ttl_s * 1000)
