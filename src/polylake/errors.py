"""Every error polylake raises on purpose.

Branch on the type or on ``code``; never on the text. ``retryable`` says whether the same call
may succeed later, and ``facts`` holds the values the message was made from.

    PolylakeError
    ├── StorageError                 the bytes could not be read or written
    │   ├── FileNotFound             also a FileNotFoundError
    │   ├── AlreadyExists            also a FileExistsError
    │   ├── VersionMismatch          a conditional write met another version
    │   ├── OutcomeUnknown           the write may have landed
    │   ├── PermissionDenied         also a PermissionError
    │   ├── QuotaExceeded            the store is full
    │   ├── StorageUnavailable       time-out, throttling, 5xx, connection lost
    │   ├── ConditionalPutUnsupported  the store does not honour put-if-absent
    │   └── ObjectStoreError         anything else an object store answered
    ├── LogError                     the table's log cannot be used as asked
    │   ├── TableNotFound            also a FileNotFoundError
    │   ├── TableExists              also a FileExistsError
    │   ├── VersionNotFound          that version is not, or no longer, in the log
    │   ├── TimestampNotFound        no version of the table is that old
    │   ├── LogGap                   a commit file is missing
    │   ├── CorruptCommit            a commit file that cannot be read
    │   ├── CorruptCheckpoint        no checkpoint of a version can be read
    │   ├── CorruptDeletionVector    a deletion vector that cannot be read
    │   ├── InvalidTableState        the log reads, but breaks the protocol
    │   └── UnsupportedFeature       the table needs what polylake does not have
    ├── ConcurrencyError             another writer got in between
    │   ├── ConcurrentAppend         it added files this transaction should have read
    │   ├── ConcurrentDelete         it removed a file this transaction read or removed
    │   ├── MetadataChanged          it changed schema, partitioning or properties
    │   ├── ProtocolChanged          it changed the protocol
    │   ├── ConcurrentTransaction    it recorded the same application id
    │   ├── ConcurrentDomainChange   it changed the same metadata domain
    │   └── LeaseLost                another maintainer has taken over
    ├── IntegrityError               rows written are not the rows read; nothing was committed
    ├── CDCError                     a change record or feed cannot be used
    ├── PipelineError                a step of a pipeline failed, on Spark or in its function
    └── ValidationError              bad input, also a ValueError; nothing was written
        └── SchemaError              a schema or a value that does not fit it
"""

from __future__ import annotations

from typing import ClassVar


class PolylakeError(Exception):
    """Root of every error this library raises on purpose."""

    code: ClassVar[str] = "polylake"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **facts: object) -> None:
        super().__init__(message)
        self.facts = facts

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), str(self), self.facts))


def _rebuild(kind: type[PolylakeError], message: str, facts: dict[str, object]) -> PolylakeError:
    return kind(message, **facts)


def is_retryable(error: BaseException) -> bool:
    """Say whether the call that raised ``error`` may succeed if it is made again."""
    return isinstance(error, PolylakeError) and error.retryable


class StorageError(PolylakeError):
    """The bytes could not be read or written."""

    code = "storage"

    @property
    def path(self) -> str | None:
        """The key the call was about."""
        path = self.facts.get("path")
        return None if path is None else str(path)


class FileNotFound(StorageError, FileNotFoundError):
    """Nothing is stored under that key."""

    code = "storage.not_found"


class AlreadyExists(StorageError, FileExistsError):
    """Another writer created the key first; nothing was written."""

    code = "storage.already_exists"


class VersionMismatch(StorageError):
    """A conditional write met another version than the one it expected; nothing was written."""

    code = "storage.version_mismatch"
    retryable = True

    @property
    def expected_version(self) -> object:
        """The version the caller expected."""
        return self.facts.get("expected_version")

    @property
    def actual_version(self) -> object:
        """The version found, where the store says it."""
        return self.facts.get("actual_version")


class OutcomeUnknown(StorageError):
    """The write may have landed; read the key back before deciding anything."""

    code = "storage.outcome_unknown"


class PermissionDenied(StorageError, PermissionError):
    """The credentials do not allow the call."""

    code = "storage.permission_denied"


class QuotaExceeded(StorageError):
    """The store has no room; nothing was written."""

    code = "storage.quota_exceeded"


class StorageUnavailable(StorageError):
    """The store did not answer in time, or asked to slow down."""

    code = "storage.unavailable"
    retryable = True


class ConditionalPutUnsupported(StorageError):
    """The store overwrites an existing object where it was asked not to."""

    code = "storage.conditional_put_unsupported"


class ObjectStoreError(StorageError):
    """An object store refused a call; ``store_code`` is its own word for why."""

    code = "storage.object_store"

    @property
    def store_code(self) -> str | None:
        """The store's error code, such as ``NoSuchBucket``."""
        store_code = self.facts.get("store_code")
        return None if store_code is None else str(store_code)


class LogError(PolylakeError):
    """The table's log cannot be used as asked."""

    code = "log"


class TableNotFound(LogError, FileNotFoundError):
    """There is no Delta table at that place."""

    code = "log.table_not_found"


class TableExists(LogError, FileExistsError):
    """There is a Delta table at that place already."""

    code = "log.table_exists"


class VersionNotFound(LogError):
    """That version is not, or no longer, in the log."""

    code = "log.version_not_found"


class TimestampNotFound(LogError):
    """No version of the table that can still be read is that old."""

    code = "log.timestamp_not_found"


class LogGap(LogError):
    """A commit file between the checkpoint and the target version is missing."""

    code = "log.gap"


class CorruptCommit(LogError):
    """A commit file cannot be read; ``facts`` names the file and the line."""

    code = "log.corrupt_commit"


class CorruptCheckpoint(LogError):
    """A checkpoint cannot be read and the log does not reach back without it."""

    code = "log.corrupt_checkpoint"


class CorruptDeletionVector(LogError):
    """A deletion vector cannot be read, so its file's rows cannot be told apart."""

    code = "log.corrupt_deletion_vector"


class InvalidTableState(LogError):
    """The log reads, but what it says is not a table."""

    code = "log.invalid_state"


class UnsupportedFeature(LogError):
    """The table needs a protocol version or feature that polylake does not have."""

    code = "log.unsupported_feature"

    @property
    def features(self) -> tuple[str, ...]:
        """The features that are not supported."""
        features = self.facts.get("features", ())
        return tuple(features) if isinstance(features, (list, tuple)) else ()


class ConcurrencyError(PolylakeError):
    """Another writer committed what this transaction cannot be placed after."""

    code = "concurrency"
    retryable = True

    @property
    def expected_version(self) -> object:
        """The table version this writer wanted to follow."""
        return self.facts.get("expected_version")

    @property
    def actual_version(self) -> object:
        """The table version the other writer left."""
        return self.facts.get("actual_version")


class ConcurrentAppend(ConcurrencyError):
    """Another writer added files that this transaction should have read."""

    code = "concurrency.append"


class ConcurrentDelete(ConcurrencyError):
    """Another writer removed a file that this transaction read or removed."""

    code = "concurrency.delete"


class MetadataChanged(ConcurrencyError):
    """Another writer changed the table's schema, partitioning or properties."""

    code = "concurrency.metadata"


class ProtocolChanged(ConcurrencyError):
    """Another writer changed the table's protocol."""

    code = "concurrency.protocol"


class ConcurrentTransaction(ConcurrencyError):
    """Another writer recorded a transaction of the same application id."""

    code = "concurrency.transaction"


class ConcurrentDomainChange(ConcurrencyError):
    """Another writer changed the same metadata domain."""

    code = "concurrency.domain"


class LeaseLost(ConcurrencyError):
    """Another maintainer has taken over the table; what this one was about to do is theirs."""

    code = "concurrency.lease"
    retryable = False


class IntegrityError(PolylakeError):
    """The rows that were written are not the rows that were read; nothing was committed."""

    code = "integrity"


class CDCError(PolylakeError):
    """A change record or a change feed cannot be used as asked."""

    code = "cdc"


class PipelineError(PolylakeError):
    """A step of a pipeline failed, on Spark or in a function; what was before it is committed."""

    code = "pipeline"


class ValidationError(PolylakeError, ValueError):
    """The input is not acceptable; nothing was written."""

    code = "validation"

    @property
    def field(self) -> str | None:
        """The input that is wrong."""
        field = self.facts.get("field")
        return None if field is None else str(field)


class SchemaError(ValidationError):
    """A schema cannot be read, or a value or schema does not fit it."""

    code = "validation.schema"
