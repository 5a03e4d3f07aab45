"""Who asks: credentials as the client takes them, and how they are kept out of sight."""

from __future__ import annotations

import html
import re
from collections import deque
from typing import TYPE_CHECKING, assert_never
from urllib.parse import quote

from polylake.errors import ValidationError
from polylake.storage._options import AccessKey, BearerToken, SasToken
from polylake.storage._urls import Scheme

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from polylake.storage._options import CredentialProvider, Credentials, StorageOptions


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return ``text`` with secrets, signatures and credentials in it replaced by ``***``."""
    # Longest first, so that a secret which is a part of another does not leave the rest standing.
    for secret in sorted({s for s in secrets if s}, key=len, reverse=True):
        for form in (secret, quote(secret, safe=""), html.escape(secret)):
            text = text.replace(form, "***")
    return _SIGNED.sub(r"\g<name>***", text)


class Redactor:
    """Remove the secrets of one connection from texts, those of refreshed credentials included."""

    def __init__(self, secrets: tuple[str, ...] = ()) -> None:
        self._given = secrets
        # The client may still be using the credentials before the newest.
        self._fetched: deque[str] = deque(maxlen=12)

    def __call__(self, text: str) -> str:
        """Return ``text`` without secrets."""
        return redact(text, (*self._given, *self._fetched))

    def learn(self, credentials: Credentials) -> None:
        """Take notice of credentials that a provider returned."""
        self._fetched.extend(_secrets_of(credentials))


def client_provider(
    scheme: Scheme, options: StorageOptions, redactor: Redactor
) -> Callable[[], dict[str, object]] | None:
    """Return what the client calls for credentials, or None to let it search the environment.

    Given credentials are handed over like this too: beside keys in its settings, the client would
    still use a session token that it finds in the environment.
    """
    if options.account_key is not None:
        account_key = options.account_key
        return lambda: {"access_key": account_key, "expires_at": None}
    fetch = options.credential_provider or _fixed(options)
    if fetch is None:
        return None

    def provide() -> dict[str, object]:
        credentials = fetch()
        answer = _for_client(scheme, credentials)
        redactor.learn(credentials)
        return answer

    return provide


_SIGNED = re.compile(
    r"""(?P<name>
        [?&](?:sig|signature|x-amz-signature|x-amz-credential|x-amz-security-token|awsaccesskeyid
            |x-goog-signature|x-goog-credential|access_token|token)=
        | \b(?:authorization|x-amz-security-token)["']?\s*[:=]\s*["']?
            (?:(?:bearer|sharedkey|aws4-hmac-sha256)\s+)?
        | \b(?:credential|signature)=
        | <(?:awsaccesskeyid|signatureprovided|stringtosign|canonicalrequest)>
    )[^&\s<>"',]+""",
    re.IGNORECASE | re.VERBOSE,
)


def _fixed(options: StorageOptions) -> CredentialProvider | None:
    credentials: Credentials
    if options.access_key_id is not None and options.secret_access_key is not None:
        credentials = AccessKey(
            access_key_id=options.access_key_id,
            secret_access_key=options.secret_access_key,
            session_token=options.session_token,
        )
    elif options.bearer_token is not None:
        credentials = BearerToken(token=options.bearer_token)
    elif options.sas_token is not None:
        credentials = SasToken(sas_token=options.sas_token)
    else:
        return None
    return lambda: credentials


def _for_client(scheme: Scheme, credentials: Credentials) -> dict[str, object]:
    match scheme, credentials:
        case ((Scheme.S3 | Scheme.R2), AccessKey(access_key_id=key, secret_access_key=secret)):
            answer: dict[str, object] = {"access_key_id": key, "secret_access_key": secret}
            answer["token"] = credentials.session_token
        case ((Scheme.GCS | Scheme.AZURE), BearerToken(token=token)):
            answer = {"token": token}
        case Scheme.AZURE, SasToken(sas_token=sas_token):
            answer = {"sas_token": sas_token.removeprefix("?")}
        case _:
            kind = type(credentials).__name__
            raise ValidationError(
                f"the credential provider returned {kind}, which a {scheme} store does not take",
                field="credential_provider",
            )
    return {**answer, "expires_at": credentials.expires_at}


def _secrets_of(credentials: Credentials) -> tuple[str, ...]:
    match credentials:
        case AccessKey(access_key_id=key, secret_access_key=secret, session_token=token):
            return (key, secret, token) if token else (key, secret)
        case BearerToken(token=token):
            return (token,)
        case SasToken(sas_token=sas_token):
            return (sas_token,)
        case _:
            assert_never(credentials)
