"""What can be said about a store beside its address, and which kinds of store it is for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import urlsplit

from polylake.errors import ValidationError
from polylake.storage._urls import OBJECT_SCHEMES, Location, Scheme

if TYPE_CHECKING:
    from datetime import datetime

_S3, _R2, _GCS, _AZURE = OBJECT_SCHEMES


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessKey:
    """Credentials of S3 and R2. Asked for again shortly before ``expires_at``."""

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerToken:
    """Credentials of Google Cloud Storage and Azure: an OAuth token."""

    token: str = field(repr=False)
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SasToken:
    """Credentials of Azure: a shared access signature."""

    sas_token: str = field(repr=False)
    expires_at: datetime | None = None


Credentials: TypeAlias = AccessKey | BearerToken | SasToken
CredentialProvider: TypeAlias = Callable[[], Credentials]


def _valid_for(*schemes: Scheme, secret: bool = False) -> dict[str, object]:
    return {"schemes": schemes, "secret": secret}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StorageOptions:
    """Everything ``open_storage`` takes by keyword. What is not given is ``None``.

    Raises:
        ValidationError: a value has the wrong type or makes no sense.
    """

    bucket: str | None = field(default=None, metadata=_valid_for(*OBJECT_SCHEMES))
    """The bucket or container, where the URL does not name it."""
    account: str | None = field(default=None, metadata=_valid_for(_R2, _AZURE))
    """The account, where the URL does not name it."""
    region: str | None = field(default=None, metadata=_valid_for(_S3))
    """The AWS region; ``us-east-1`` unless the URL or the environment says otherwise."""
    jurisdiction: str | None = field(default=None, metadata=_valid_for(_R2))
    """``default``, ``eu`` or ``fedramp``."""
    endpoint: str | None = field(default=None, metadata=_valid_for(_S3, _GCS, _AZURE))
    """The address of a service other than the vendor's own, such as MinIO."""
    access_key_id: str | None = field(default=None, metadata=_valid_for(_S3, _R2, secret=True))
    secret_access_key: str | None = field(default=None, metadata=_valid_for(_S3, _R2, secret=True))
    session_token: str | None = field(default=None, metadata=_valid_for(_S3, _R2, secret=True))
    account_key: str | None = field(default=None, metadata=_valid_for(_AZURE, secret=True))
    sas_token: str | None = field(default=None, metadata=_valid_for(_AZURE, secret=True))
    bearer_token: str | None = field(default=None, metadata=_valid_for(_GCS, _AZURE, secret=True))
    service_account_path: str | None = field(default=None, metadata=_valid_for(_GCS))
    """The path of a Google service account's JSON file."""
    service_account_key: str | None = field(default=None, metadata=_valid_for(_GCS, secret=True))
    """The JSON of a Google service account itself."""
    credential_provider: CredentialProvider | None = field(
        default=None, metadata=_valid_for(*OBJECT_SCHEMES)
    )
    """Called for credentials, and again when the last ones are about to expire."""
    anonymous: bool | None = field(default=None, metadata=_valid_for(_S3, _GCS, _AZURE))
    """Send unsigned requests, for public buckets."""
    allow_http: bool | None = field(default=None, metadata=_valid_for(_S3, _GCS, _AZURE))
    """Accept an ``http://`` endpoint. What is read and written crosses the network in the clear."""
    request_timeout_s: float | None = field(default=None, metadata=_valid_for(*OBJECT_SCHEMES))
    """The time one request may take, 30 seconds unless given."""
    connect_timeout_s: float | None = field(default=None, metadata=_valid_for(*OBJECT_SCHEMES))
    """The time a connection may take, 5 seconds unless given."""
    max_retries: int | None = field(default=None, metadata=_valid_for(*OBJECT_SCHEMES))
    """How often a request that can be repeated safely is repeated, 5 times unless given."""
    max_connections: int | None = field(default=None, metadata=_valid_for(*OBJECT_SCHEMES))
    """How many requests are made at once, 16 unless given."""
    cache_dir: str | os.PathLike[str] | None = field(
        default=None, metadata=_valid_for(*OBJECT_SCHEMES)
    )
    """A folder to keep copies of immutable objects in."""
    cache_bytes: int | None = field(default=None, metadata=_valid_for(*OBJECT_SCHEMES))
    """How much that folder may hold, 10 GiB unless given."""

    def __post_init__(self) -> None:
        for name, value in self.given().items():
            _check_type(name, value)
        for name in ("request_timeout_s", "connect_timeout_s", "max_connections", "cache_bytes"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValidationError(f"{name} is {value}: it must be above 0", field=name)
        if self.max_retries is not None and self.max_retries < 0:
            raise ValidationError("max_retries is negative", field="max_retries")
        if self.jurisdiction not in (None, "default", "eu", "fedramp"):
            raise ValidationError(
                f"jurisdiction is {self.jurisdiction!r}: it is one of default, eu, fedramp",
                field="jurisdiction",
            )
        if self.cache_bytes is not None and self.cache_dir is None:
            raise ValidationError("cache_bytes needs cache_dir", field="cache_bytes")
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ValidationError(
                "access_key_id and secret_access_key go together", field="access_key_id"
            )
        if self.session_token is not None and self.access_key_id is None:
            raise ValidationError("session_token needs access_key_id", field="session_token")
        self._check_endpoint()
        self._check_one_identity()

    def __repr__(self) -> str:
        shown = (
            f"{name}={'***' if name in SECRET_OPTIONS else repr(value)}"
            for name, value in self.given().items()
        )
        return f"StorageOptions({', '.join(shown)})"

    def given(self) -> dict[str, object]:
        """Return the options that were given, by name."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def secrets(self) -> tuple[str, ...]:
        """Return every secret that was given: what must not be shown anywhere."""
        given = self.given()
        return tuple(str(given[name]) for name in SECRET_OPTIONS if name in given)

    def _check_endpoint(self) -> None:
        if self.endpoint is None:
            return
        parts = urlsplit(self.endpoint)
        # The messages do not quote the endpoint: someone may have put a key into it.
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValidationError("endpoint is not an http(s):// address", field="endpoint")
        if parts.username is not None or parts.query:
            raise ValidationError(
                "endpoint holds credentials or a query: give them as options", field="endpoint"
            )
        if parts.scheme == "http" and not self.allow_http:
            raise ValidationError(
                "endpoint is plain http: use https, or pass allow_http=True", field="endpoint"
            )

    def _check_one_identity(self) -> None:
        identities = [name for name in _IDENTITIES if getattr(self, name)]
        if len(identities) > 1:
            raise ValidationError(
                f"{' and '.join(identities)} exclude each other: give one", field=identities[1]
            )


SECRET_OPTIONS = tuple(each.name for each in fields(StorageOptions) if each.metadata["secret"])
_IDENTITIES = (
    "access_key_id",
    "account_key",
    "sas_token",
    "bearer_token",
    "service_account_path",
    "service_account_key",
    "credential_provider",
    "anonymous",
)


def parse_options(given: Mapping[str, object]) -> StorageOptions:
    """Make options of keywords.

    Raises:
        ValidationError: an option is unknown or its value does not fit.
    """
    known = [each.name for each in fields(StorageOptions)]
    for name in given:
        if name not in known:
            raise ValidationError(
                f"unknown option {name!r}: the options are {', '.join(known)}", field=name
            )
    # The constructor checks every type, so nothing unchecked passes here.
    return StorageOptions(**cast("dict[str, Any]", dict(given)))


def check_scheme(options: StorageOptions, scheme: Scheme) -> None:
    """Refuse options that mean nothing for a kind of store.

    Raises:
        ValidationError: an option is not for ``scheme``; the message lists those that are.
    """
    valid = [each.name for each in fields(options) if scheme in each.metadata["schemes"]]
    for name in options.given():
        if name not in valid:
            raise ValidationError(
                f"option {name!r} means nothing for a {scheme} store: "
                f"it takes {', '.join(valid) or 'no options'}",
                field=name,
            )


def with_environment(
    options: StorageOptions, place: Location, environ: Mapping[str, str]
) -> StorageOptions:
    """Fill what is not given from the variables AWS and Azure tools read.

    S3: ``AWS_ACCESS_KEY_ID`` with ``AWS_SECRET_ACCESS_KEY`` and ``AWS_SESSION_TOKEN``,
    ``AWS_REGION``, ``AWS_DEFAULT_REGION``, ``AWS_ENDPOINT_URL_S3``, ``AWS_ENDPOINT_URL``.
    Azure: ``AZURE_STORAGE_ACCOUNT_NAME``. Other credentials that the environment offers (instance
    roles, service accounts) are found by the store's client itself. What the URL says wins.

    Raises:
        ValidationError: a value does not fit, or ``AWS_PROFILE`` is all there is.
    """
    found: dict[str, str | None] = {}
    if place.scheme is Scheme.AZURE and not place.account:
        found["account"] = environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if place.scheme is Scheme.S3 and not place.region:
        found["region"] = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")
        found["endpoint"] = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL")
    if place.scheme is Scheme.S3 and not any(getattr(options, name) for name in _IDENTITIES):
        found |= _aws_keys(environ)
    missing = {
        name: value for name, value in found.items() if value and getattr(options, name) is None
    }
    return replace(options, **cast("dict[str, Any]", missing))


def _aws_keys(environ: Mapping[str, str]) -> dict[str, str | None]:
    keys = {
        "access_key_id": environ.get("AWS_ACCESS_KEY_ID"),
        "secret_access_key": environ.get("AWS_SECRET_ACCESS_KEY"),
        "session_token": environ.get("AWS_SESSION_TOKEN"),
    }
    if not any(keys.values()) and environ.get("AWS_PROFILE"):
        raise ValidationError(
            "AWS_PROFILE is set, but profiles are not read: set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or pass credential_provider",
            field="AWS_PROFILE",
        )
    return keys


_FLAGS = frozenset({"anonymous", "allow_http"})
_SECONDS = frozenset({"request_timeout_s", "connect_timeout_s"})
_COUNTS = frozenset({"max_retries", "max_connections", "cache_bytes"})


def _check_type(name: str, value: object) -> None:
    if name in _FLAGS:
        fits, wanted = isinstance(value, bool), "True or False"
    elif name in _SECONDS:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
        wanted = "a number of seconds"
    elif name in _COUNTS:
        fits, wanted = isinstance(value, int) and not isinstance(value, bool), "a whole number"
    elif name == "cache_dir":
        fits, wanted = isinstance(value, (str, os.PathLike)) and str(value) != "", "a path"
    elif name == "credential_provider":
        fits, wanted = callable(value), "a function that returns credentials"
    else:
        fits, wanted = isinstance(value, str) and value != "", "a string that is not empty"
    if not fits:
        raise ValidationError(f"option {name!r} must be {wanted}", field=name)
