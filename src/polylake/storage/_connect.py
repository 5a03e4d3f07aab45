"""Connected clients. Importing this module loads obstore, so it is imported only to connect."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import obstore
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from polylake._version import __version__
from polylake.errors import ValidationError
from polylake.storage._credentials import Redactor, client_provider
from polylake.storage._object_errors import translate
from polylake.storage._object_writer import PART_BYTES, PARTS_IN_FLIGHT, ObjectWriter
from polylake.storage._urls import Scheme

if TYPE_CHECKING:
    from collections.abc import Callable

    from obstore.store import ObjectStore, RetryConfig

    from polylake.storage._options import StorageOptions
    from polylake.storage._request import Request
    from polylake.storage._target import Target

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A bucket that can be talked to."""

    target: Target
    redactor: Redactor = field(repr=False)
    store: ObjectStore = field(repr=False)
    """Repeats requests that failed on the way."""
    once: ObjectStore = field(repr=False)
    """Sends every request once. A conditional put that is repeated after its reply was lost is
    answered by "exists already", which is then said of this writer's own object."""
    pool: ThreadPoolExecutor = field(repr=False)
    parallelism: int

    def call(self, request: Request, act: Callable[[], T]) -> T:
        """Return what ``act`` returns, or raise what its failure means.

        Raises:
            StorageError: the store refused, or could not be asked.
            ValidationError: the store cannot hold such a key.
        """
        try:
            return act()
        except (BaseError, OSError, ValueError, NotImplementedError) as error:
            failure = translate(error, request, self.redactor)
        # Raised here, not in the handler: the client's error can quote a signed URL, and must not
        # be chained to ours.
        raise failure

    def open_writer(self, path: str, request: Request) -> ObjectWriter:
        """Open an object for streaming."""
        file = self.call(
            request,
            lambda: obstore.open_writer(
                self.store, path, buffer_size=PART_BYTES, max_concurrency=PARTS_IN_FLIGHT
            ),
        )
        return ObjectWriter(file, request, self)


def connect(target: Target, options: StorageOptions) -> Connection:
    """Prepare the clients of a bucket; nothing is sent yet.

    Raises:
        ValidationError: the client cannot use an option, such as a file of keys that is not there.
    """
    redactor = Redactor(options.secrets())
    build = _builder(target, options, redactor)
    retries = 5 if options.max_retries is None else options.max_retries
    parallelism = options.max_connections or 16
    try:
        store = build({"max_retries": retries, "backoff": {"max_backoff": timedelta(seconds=5)}})
        once = build({"max_retries": 0})
    except (BaseError, OSError, ValueError) as error:
        reason = redactor(str(error).partition("\n")[0])
        # Not chained, for the same reason as in ``Connection.call``.
        raise ValidationError(f"{target.url} cannot be opened: {reason}", field="options") from None
    return Connection(
        target=target,
        redactor=redactor,
        store=store,
        once=once,
        pool=ThreadPoolExecutor(parallelism, thread_name_prefix="polylake-storage"),
        parallelism=parallelism,
    )


def _builder(
    target: Target, options: StorageOptions, redactor: Redactor
) -> Callable[[RetryConfig], ObjectStore]:
    provider = client_provider(target.scheme, options, redactor)
    common: dict[str, Any] = {
        "credential_provider": provider,
        "client_options": {
            "allow_http": bool(options.allow_http),
            "timeout": timedelta(seconds=options.request_timeout_s or 30),
            "connect_timeout": timedelta(seconds=options.connect_timeout_s or 5),
            "user_agent": f"polylake/{__version__}",
        },
        # The client reads the environment too: every setting that could lead it elsewhere than
        # the target is passed.
        "skip_signature": bool(options.anonymous),
    }
    match target.scheme:
        case Scheme.AZURE:
            common |= {"account_name": target.account, "endpoint": target.endpoint}
            common |= {"use_emulator": False, "use_fabric_endpoint": False}
            return lambda retry: AzureStore(target.bucket, retry_config=retry, **common)
        case Scheme.GCS:
            common |= {"base_url": target.endpoint}
            if options.service_account_path is not None:
                common["service_account"] = options.service_account_path
            if options.service_account_key is not None:
                common["service_account_key"] = options.service_account_key
            return lambda retry: GCSStore(target.bucket, retry_config=retry, **common)
        case _:
            common |= {"endpoint": target.endpoint, "aws_endpoint_url_s3": target.endpoint}
            common |= {"region": target.region, "conditional_put": "etag"}
            common |= {"virtual_hosted_style_request": False}
            return lambda retry: S3Store(target.bucket, retry_config=retry, **common)
