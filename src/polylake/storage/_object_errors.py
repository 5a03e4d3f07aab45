"""What an object store's refusal means.

The client reports a refusal as text: the request, the HTTP status, and the store's answer. The
facts are read out of it here, once, and the text itself goes no further: it can quote a signed URL.
Importing this module loads obstore.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from obstore import exceptions

from polylake.errors import (
    AlreadyExists,
    ConditionalPutUnsupported,
    FileNotFound,
    ObjectStoreError,
    OutcomeUnknown,
    PermissionDenied,
    PolylakeError,
    QuotaExceeded,
    StorageError,
    StorageUnavailable,
    ValidationError,
    VersionMismatch,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from polylake.storage._request import Condition, Request


def translate(
    error: BaseException, request: Request, redactor: Callable[[str], str]
) -> StorageError | ValidationError:
    """Return our error for one that the client raised."""
    answer = _read_answer(str(error))
    kind, advice = _classify(error, answer, request)
    reason = redactor(_reason(error, answer, kind))
    message = f"could not {request.verb} {request.key!r} in {request.url}: {advice}"
    message = f"{message} ({reason})" if reason else message
    if kind is ValidationError:
        return ValidationError(message, field="key")
    facts: dict[str, object] = {"path": request.key, "url": request.url}
    if answer.code:
        facts["store_code"] = redactor(answer.code)
    if answer.status:
        facts["status"] = answer.status
    if kind is VersionMismatch:
        facts["expected_version"] = request.version
    return kind(message, **facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What the text of a client's error says."""

    status: int | None
    code: str | None
    message: str | None
    transport: str
    was_sent: bool


_Verdict = tuple[type[StorageError | ValidationError], str]

_STATUS = re.compile(r"status(?: code)?: (\d{3})\b")
_CODE = re.compile(
    r"<Code>\s*([^<]{1,200}?)\s*</Code>|\"(?:reason|code)\"\s*:\s*\"([^\"]{1,200})\""
)
_MESSAGE = re.compile(
    r"<Message>\s*([^<]{1,500}?)\s*</Message>|\"message\"\s*:\s*\"([^\"]{1,500})\""
)
_TRANSPORT = re.compile(r"HttpError \{\s*kind: (\w+)")

_IN_FLIGHT = frozenset({"ConditionalRequestConflict", "OperationAborted"})
_NO_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound"})
_FULL = frozenset({"QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"})
_BAD_CREDENTIALS = frozenset(
    {"ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId"}
)
_WRONG_REGION = frozenset({"PermanentRedirect", "AuthorizationHeaderMalformed"})
_LATE = frozenset({"RequestTimeout", "SlowDown", "Throttling"})


def _read_answer(text: str) -> _Answer:
    status = _STATUS.search(text)
    transport = _TRANSPORT.search(text)
    return _Answer(
        status=int(status[1]) if status else None,
        code=_first_group(_CODE, text),
        message=_first_group(_MESSAGE, text),
        transport=_TRANSPORT_WORDS.get(transport[1], "connection lost") if transport else "",
        was_sent=not (transport and transport[1] == "Connect") and "builder error" not in text,
    )


_TRANSPORT_WORDS = {"Connect": "no connection", "Timeout": "time-out"}


def _classify(error: BaseException, answer: _Answer, request: Request) -> _Verdict:
    # A plain ValueError is how the client refuses a control character in a key.
    if isinstance(error, (exceptions.InvalidPathError, ValueError)):
        return ValidationError, "the store cannot hold a key like this"
    verdict = _classify_access(error, answer)
    if verdict is None and request.condition is not None:
        verdict = _classify_conditional(error, answer, request.condition)
    return _classify_rest(error, answer) if verdict is None else verdict


def _classify_access(error: BaseException, answer: _Answer) -> _Verdict | None:
    if answer.code in _NO_BUCKET:
        return ObjectStoreError, "the bucket does not exist; create it or correct the URL"
    if answer.code in _FULL or answer.status == 507:
        return QuotaExceeded, "the store is full; nothing was written"
    if answer.code in _WRONG_REGION:
        return ObjectStoreError, "the bucket is in another region; pass region="
    if answer.code in _BAD_CREDENTIALS:
        return PermissionDenied, "the credentials are not valid; renew them"
    denied = isinstance(error, (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError))
    if denied and answer.status is None:
        return PermissionDenied, "no credentials were found; check the credential provider"
    if denied or answer.status in (401, 403):
        return PermissionDenied, "the credentials do not allow it; check them and their rights"
    return None


def _classify_conditional(
    error: BaseException, answer: _Answer, condition: Condition
) -> _Verdict | None:
    refused = (exceptions.AlreadyExistsError, exceptions.PreconditionError)
    if isinstance(error, refused) and condition == "match":
        return VersionMismatch, "it has changed since; read it again"
    if isinstance(error, refused):
        # A 409 without BlobAlreadyExists speaks of a request in flight, not of an object.
        if answer.status == 409 and answer.code != "BlobAlreadyExists":
            if answer.code is None or answer.code in _IN_FLIGHT:
                return StorageUnavailable, "another request for it is in flight; try again"
            return ObjectStoreError, "the store refused"
        return AlreadyExists, "another writer created it first; nothing was written"
    if isinstance(error, (exceptions.NotSupportedError, NotImplementedError)) or (
        answer.status == 501 or answer.code == "NotImplemented"
    ):
        return ConditionalPutUnsupported, "the store does not know conditional puts"
    # Any 5xx: MinIO answers SlowDown also where some of its disks have the object already.
    lost = answer.status >= 500 if answer.status else bool(answer.transport) and answer.was_sent
    if lost:
        return OutcomeUnknown, "the reply was lost and the write may have landed; read it back"
    return None


def _classify_rest(error: BaseException, answer: _Answer) -> _Verdict:
    # By status as well: what goes wrong in a multipart upload arrives as a plain OSError.
    if isinstance(error, FileNotFoundError) or answer.status == 404:
        return FileNotFound, "nothing is stored there"
    if answer.status is None and answer.transport and answer.was_sent:
        return StorageUnavailable, "the store did not answer; try again"
    if answer.status is None and answer.transport:
        return StorageUnavailable, "the store cannot be reached; check the endpoint and the network"
    if answer.code in _LATE or answer.status in (408, 429, 500, 502, 503, 504):
        return StorageUnavailable, "the store is overloaded or down; try again later"
    return ObjectStoreError, "the store refused"


def _reason(error: BaseException, answer: _Answer, kind: type[PolylakeError]) -> str:
    said = " ".join(part for part in (answer.code, answer.message) if part)
    if said:
        return said
    if answer.status is not None:
        return f"HTTP {answer.status}"
    # The client's own words, without the request that follows them, where nothing else tells.
    return str(error).split("\n", 1)[0][:200] if kind is ObjectStoreError else answer.transport


def _first_group(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return next((group for group in found.groups() if group), None) if found else None
