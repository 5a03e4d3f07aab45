"""Which bucket, at which service: what a location and options say together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from polylake.errors import ValidationError
from polylake.storage._urls import Scheme

if TYPE_CHECKING:
    from polylake.storage._options import StorageOptions
    from polylake.storage._urls import Location

DEFAULT_REGION = "us-east-1"

_VENDOR_HOSTS = (
    ".amazonaws.com",
    ".amazonaws.com.cn",
    ".r2.cloudflarestorage.com",
    ".storage.googleapis.com",
    ".core.windows.net",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A bucket with nothing left open."""

    scheme: Scheme
    bucket: str
    endpoint: str
    region: str = ""
    account: str = ""

    @property
    def url(self) -> str:
        """The bucket's address, free of secrets."""
        match self.scheme:
            case Scheme.R2:
                return f"r2://{self.account}/{self.bucket}"
            case Scheme.AZURE:
                return f"abfss://{self.bucket}@{self.account}.dfs.core.windows.net"
            case _:
                return f"{self.scheme}://{self.bucket}"

    @property
    def is_vendors_own(self) -> bool:
        """Whether the endpoint belongs to a vendor that is known to honour conditional puts."""
        host = urlsplit(self.endpoint).hostname or ""
        return f".{host}".endswith(_VENDOR_HOSTS)


def resolve(location: Location, options: StorageOptions) -> Target:
    """Put a location and options together.

    Raises:
        ValidationError: something needed is missing, or the URL and an option disagree.
    """
    bucket = _agreed("bucket", location.bucket, options.bucket)
    match location.scheme:
        case Scheme.R2:
            account = _agreed("account", location.account, options.account)
            jurisdiction = _agreed(
                "jurisdiction", location.jurisdiction, options.jurisdiction, otherwise="default"
            )
            host = account if jurisdiction == "default" else f"{account}.{jurisdiction}"
            endpoint = f"https://{host}.r2.cloudflarestorage.com"
            return Target(
                scheme=Scheme.R2, bucket=bucket, endpoint=endpoint, region="auto", account=account
            )
        case Scheme.AZURE:
            account = _agreed("account", location.account, options.account)
            endpoint = options.endpoint or f"https://{account}.blob.core.windows.net"
            return Target(scheme=Scheme.AZURE, bucket=bucket, endpoint=endpoint, account=account)
        case Scheme.GCS:
            endpoint = options.endpoint or "https://storage.googleapis.com"
            return Target(scheme=Scheme.GCS, bucket=bucket, endpoint=endpoint)
        case _:
            region = _agreed("region", location.region, options.region, otherwise=DEFAULT_REGION)
            suffix = ".cn" if region.startswith("cn-") else ""
            endpoint = options.endpoint or f"https://s3.{region}.amazonaws.com{suffix}"
            return Target(scheme=Scheme.S3, bucket=bucket, endpoint=endpoint, region=region)


def _agreed(name: str, in_url: str, option: str | None, *, otherwise: str = "") -> str:
    if in_url and option and in_url != option:
        raise ValidationError(
            f"the URL says {name} {in_url!r}, the option says {option!r}", field=name
        )
    agreed = in_url or option or otherwise
    if not agreed:
        raise ValidationError(f"{name} is missing: name it in the URL or pass {name}=", field=name)
    return agreed
