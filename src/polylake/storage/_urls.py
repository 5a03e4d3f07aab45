"""Where a store is: paths and URLs, taken apart.

    lake, /data/lake, file:///data/lake            a folder
    memory://, memory://name                       a new store; one shared in the process by name
    s3://bucket/prefix, s3a://bucket/prefix        Amazon S3, or any S3 service by ``endpoint``
    s3://bucket.s3.us-west-2.amazonaws.com/prefix  the same, with the region in the host
    r2://account/bucket/prefix                     Cloudflare R2
    gs://bucket/prefix                             Google Cloud Storage
    az://container/prefix, azure://...             Azure Blob Storage; the account is an option
    abfss://container@account.dfs.core.windows.net/prefix

The ``https://`` addresses of AWS, R2, Google and Azure name the same places.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

from polylake.errors import ValidationError
from polylake.storage._keys import check_key


class Scheme(StrEnum):
    """The kinds of store; the value is how their URLs start."""

    FILE = "file"
    MEMORY = "memory"
    S3 = "s3"
    R2 = "r2"
    GCS = "gs"
    AZURE = "az"


OBJECT_SCHEMES = (Scheme.S3, Scheme.R2, Scheme.GCS, Scheme.AZURE)

_ALIASES = {"s3a": "s3", "azure": "az", "abfs": "az", "abfss": "az"}
_VALID = "a path, file://, memory://, s3://, s3a://, r2://, gs://, az://, azure://, abfss://"


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A parsed path or URL. What the address leaves open is empty."""

    scheme: Scheme
    bucket: str = ""
    """The bucket or container; the name of a memory store."""
    prefix: str = ""
    """The folder inside the bucket without slashes at its ends; the path of a folder."""
    account: str = ""
    region: str = ""
    jurisdiction: str = ""


def parse_location(text: str) -> Location:
    """Take a path or URL apart.

    Raises:
        ValidationError: the scheme is unknown, the URL holds credentials or a query, or its
            prefix is not a folder.
    """
    if text.startswith("file:/"):
        return Location(scheme=Scheme.FILE, prefix=_file_path(text))
    scheme, separator, rest = text.partition("://")
    if not separator:
        if not text:
            raise ValidationError("the location is empty", field="location")
        return Location(scheme=Scheme.FILE, prefix=text)
    scheme = _ALIASES.get(scheme.lower(), scheme.lower())
    authority, _, path = rest.partition("/")
    _refuse_secrets(scheme, authority, rest)
    match scheme:
        case "https":
            return _parse_https(authority, path)
        case "s3":
            return _parse_amazon(authority, path) or _in_bucket(Scheme.S3, authority, path)
        case "r2":
            bucket, _, prefix = path.partition("/")
            return _in_bucket(Scheme.R2, bucket, prefix, account=authority)
        case "gs":
            return _in_bucket(Scheme.GCS, authority, path)
        case "az":
            container, _, host = authority.partition("@")
            account = host.partition(".")[0]
            return _in_bucket(Scheme.AZURE, container, path, account=account)
        case "memory":
            return _in_bucket(Scheme.MEMORY, authority, path)
        case _:
            raise ValidationError(
                f"unknown scheme {scheme!r}: a location is {_VALID}", field="location"
            )


_AMAZON = re.compile(
    r"(?:(?P<bucket>.+)\.)?s3(?:[.-](?P<region>[a-z0-9-]+))?\.amazonaws\.com(?:\.cn)?"
)
_R2 = re.compile(r"(?P<account>[^.]+)(?:\.(?P<jurisdiction>[a-z]+))?\.r2\.cloudflarestorage\.com")
_AZURE = re.compile(r"(?P<account>[^.]+)\.(?:blob|dfs)\.core\.windows\.net")
_BUCKET = re.compile(r"[A-Za-z0-9$_][A-Za-z0-9._-]*")


def _parse_https(host: str, path: str) -> Location:
    amazon = _parse_amazon(host, path)
    if amazon is not None:
        return amazon
    bucket, _, prefix = path.partition("/")
    if found := _R2.fullmatch(host):
        jurisdiction = found["jurisdiction"] or ""
        return _in_bucket(
            Scheme.R2, bucket, prefix, account=found["account"], jurisdiction=jurisdiction
        )
    if found := _AZURE.fullmatch(host):
        return _in_bucket(Scheme.AZURE, bucket, prefix, account=found["account"])
    if host == "storage.googleapis.com":
        return _in_bucket(Scheme.GCS, bucket, prefix)
    raise ValidationError(
        f"{host!r} is not a host of AWS, R2, Google or Azure: for another S3 service "
        "open s3://bucket/prefix with endpoint=",
        field="location",
    )


def _parse_amazon(host: str, path: str) -> Location | None:
    found = _AMAZON.fullmatch(host)
    if found is None:
        return None
    bucket, prefix = found["bucket"], path
    if not bucket:
        bucket, _, prefix = path.partition("/")
    return _in_bucket(Scheme.S3, bucket, prefix, region=found["region"] or "")


def _in_bucket(scheme: Scheme, bucket: str, path: str, **named: str) -> Location:
    if bucket and not _BUCKET.fullmatch(bucket):
        raise ValidationError(f"{bucket!r} is not a bucket name", field="bucket")
    prefix = path.strip("/")
    if prefix:
        check_key(prefix)
    return Location(scheme=scheme, bucket=bucket, prefix=prefix, **named)


def _refuse_secrets(scheme: str, authority: str, rest: str) -> None:
    # The message must not quote what may be a secret.
    if "?" in rest:
        raise ValidationError(
            f"the {scheme} URL has a query: give a SAS token or a key as an option instead",
            field="location",
        )
    if "@" in authority and (scheme != "az" or ":" in authority):
        raise ValidationError(
            f"the {scheme} URL holds credentials: give them as options instead", field="location"
        )


def _file_path(url: str) -> str:
    rest = url.removeprefix("file:")
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host not in ("", "localhost") or not slash:
            raise ValidationError(
                f"{url!r} names the host {host!r}: a file URL is file:///absolute/path",
                field="location",
            )
        rest = f"/{path}"
    return unquote(rest)
