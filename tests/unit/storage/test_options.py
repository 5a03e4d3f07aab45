"""What can be said about a store, and what is made of it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from polylake.errors import ValidationError
from polylake.storage import AccessKey, BearerToken, SasToken, StorageOptions
from polylake.storage._credentials import Redactor, client_provider, redact
from polylake.storage._options import (
    SECRET_OPTIONS,
    check_scheme,
    parse_options,
    with_environment,
)
from polylake.storage._target import resolve
from polylake.storage._urls import Scheme, parse_location

KEYS = {"access_key_id": "id", "secret_access_key": "key"}
AWS = {
    "AWS_ACCESS_KEY_ID": "env-id",
    "AWS_SECRET_ACCESS_KEY": "env-key",
    "AWS_SESSION_TOKEN": "env-token",
}


def with_secret(name: str, value: str) -> StorageOptions:
    """Return options that hold a secret and what has to go with it."""
    partners = KEYS if name in {"access_key_id", "secret_access_key", "session_token"} else {}
    return parse_options({**partners, name: value})


def test_every_option_that_sounds_secret_is_secret() -> None:
    assert set(SECRET_OPTIONS) == {
        "access_key_id",
        "secret_access_key",
        "session_token",
        "account_key",
        "sas_token",
        "bearer_token",
        "service_account_key",
    }


@pytest.mark.parametrize("name", SECRET_OPTIONS)
def test_a_secret_is_not_in_the_repr(name: str) -> None:
    options = with_secret(name, "hunter2/+=")
    assert f"{name}=***" in repr(options)
    assert "hunter2" not in f"{options!r} {options}"
    assert "hunter2/+=" in options.secrets()


@pytest.mark.parametrize(
    "credentials",
    [
        AccessKey(access_key_id="hunter2", secret_access_key="hunter2", session_token="hunter2"),
        BearerToken(token="hunter2"),
        SasToken(sas_token="hunter2"),
    ],
)
def test_credentials_do_not_show_themselves(credentials: object) -> None:
    assert "hunter2" not in f"{credentials!r} {credentials}"


@pytest.mark.parametrize(
    "text",
    [
        "PUT https://h/c/x?sv=1&sig=hunter2&se=2",
        "GET https://h/b?X-Amz-Credential=hunter2%2F2026&x-amz-signature=hunter2",
        "https://h/b?X-Amz-Security-Token=hunter2",
        "Authorization: Bearer hunter2",
        "authorization: AWS4-HMAC-SHA256 Credential=hunter2/2026, Signature=hunter2",
        "<AWSAccessKeyId>hunter2</AWSAccessKeyId><SignatureProvided>hunter2</SignatureProvided>",
        "'x-amz-security-token': 'hunter2'",
    ],
)
def test_signatures_are_redacted_wherever_they_come_from(text: str) -> None:
    assert "hunter2" not in redact(text)


@pytest.mark.parametrize("form", ["a+b/c&d==", "a%2Bb%2Fc%26d%3D%3D", "a+b/c&amp;d=="])
def test_a_known_secret_is_redacted_in_every_form(form: str) -> None:
    assert redact(f"x {form} y", ["a+b/c&d=="]) == "x *** y"


def test_of_secrets_that_contain_each_other_nothing_is_left() -> None:
    assert redact("hunter2hunter3", ["hunter2", "hunter2hunter3"]) == "***"


def test_refreshed_credentials_are_redacted_too() -> None:
    redactor = Redactor(("given",))
    provider = client_provider(
        Scheme.GCS,
        StorageOptions(credential_provider=lambda: BearerToken(token="fetched")),
        redactor,
    )
    assert provider is not None
    provider()
    assert redactor("given fetched") == "*** ***"


def test_an_unknown_option_is_named_beside_the_known_ones() -> None:
    with pytest.raises(ValidationError, match=r"'bukket'.*bucket, account, region") as caught:
        parse_options({"bukket": "x"})
    assert caught.value.field == "bukket"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"region": 1}, "region"),
        ({"region": ""}, "region"),
        ({"allow_http": "yes"}, "allow_http"),
        ({"request_timeout_s": "1"}, "request_timeout_s"),
        ({"request_timeout_s": True}, "request_timeout_s"),
        ({"request_timeout_s": 0}, "request_timeout_s"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": 1.5}, "max_retries"),
        ({"max_connections": 0}, "max_connections"),
        ({"cache_bytes": 1}, "cache_bytes"),
        ({"cache_dir": 1}, "cache_dir"),
        ({"jurisdiction": "mars"}, "jurisdiction"),
        ({"credential_provider": "x"}, "credential_provider"),
        ({"access_key_id": "x"}, "access_key_id"),
        ({"secret_access_key": "x"}, "access_key_id"),
        ({"session_token": "x"}, "session_token"),
        ({**KEYS, "anonymous": True}, "anonymous"),
        ({"account_key": "x", "sas_token": "y"}, "sas_token"),
        ({"endpoint": "localhost:9000"}, "endpoint"),
        ({"endpoint": "http://localhost:9000"}, "endpoint"),
        ({"endpoint": "https://user:hunter2@host"}, "endpoint"),
        ({"endpoint": "https://host?sig=hunter2"}, "endpoint"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(given: dict[str, object], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        parse_options(given)
    assert caught.value.field == field
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("scheme", "given"),
    [
        (Scheme.FILE, {"region": "eu-west-1"}),
        (Scheme.FILE, {"cache_dir": Path("x")}),
        (Scheme.MEMORY, {"bucket": "b"}),
        (Scheme.S3, {"account": "a"}),
        (Scheme.S3, {"sas_token": "s"}),
        (Scheme.R2, {"region": "eu-west-1"}),
        (Scheme.GCS, {"access_key_id": "x", "secret_access_key": "y"}),
        (Scheme.AZURE, {"service_account_key": "{}"}),
    ],
)
def test_an_option_of_another_kind_of_store_is_refused(
    scheme: Scheme, given: dict[str, object]
) -> None:
    with pytest.raises(ValidationError, match=f"means nothing for a {scheme} store: it takes"):
        check_scheme(parse_options(given), scheme)


@pytest.mark.parametrize(
    ("url", "given", "endpoint"),
    [
        ("s3://b", {}, "https://s3.us-east-1.amazonaws.com"),
        ("s3://b", {"region": "cn-north-1"}, "https://s3.cn-north-1.amazonaws.com.cn"),
        ("https://b.s3.eu-west-1.amazonaws.com/x", {}, "https://s3.eu-west-1.amazonaws.com"),
        ("s3://b", {"endpoint": "https://minio.example"}, "https://minio.example"),
        ("r2://acc/b", {}, "https://acc.r2.cloudflarestorage.com"),
        ("r2://acc/b", {"jurisdiction": "default"}, "https://acc.r2.cloudflarestorage.com"),
        ("r2://acc/b", {"jurisdiction": "eu"}, "https://acc.eu.r2.cloudflarestorage.com"),
        ("r2://acc/b", {"jurisdiction": "fedramp"}, "https://acc.fedramp.r2.cloudflarestorage.com"),
        ("r2://", {"account": "acc", "bucket": "b"}, "https://acc.r2.cloudflarestorage.com"),
        ("gs://b", {}, "https://storage.googleapis.com"),
        ("az://c", {"account": "acc"}, "https://acc.blob.core.windows.net"),
    ],
)
def test_location_and_options_lead_to_an_endpoint(
    url: str, given: dict[str, object], endpoint: str
) -> None:
    assert resolve(parse_location(url), parse_options(given)).endpoint == endpoint


@pytest.mark.parametrize(
    ("endpoint", "is_known"),
    [
        (None, True),
        ("https://bucket.vpce-1.s3.us-east-1.vpce.amazonaws.com", True),
        ("https://minio.example", False),
        ("https://evil-amazonaws.com", False),
        ("https://s3.amazonaws.com.evil.example", False),
    ],
)
def test_only_a_vendors_own_endpoint_is_trusted(endpoint: str | None, is_known: bool) -> None:
    target = resolve(parse_location("s3://b"), StorageOptions(endpoint=endpoint))
    assert target.is_vendors_own is is_known


@pytest.mark.parametrize("url", ["r2://acc/b", "gs://b", "abfss://c@acc.dfs.core.windows.net"])
def test_the_url_of_a_target_leads_to_it_again(url: str) -> None:
    target = resolve(parse_location(url), StorageOptions())
    assert target.is_vendors_own
    assert resolve(parse_location(target.url), StorageOptions()) == target


@pytest.mark.parametrize(
    ("url", "given", "field"),
    [
        ("s3://", {}, "bucket"),
        ("r2://acc", {}, "bucket"),
        ("r2:///b", {}, "account"),
        ("az://c", {}, "account"),
        ("s3://b", {"bucket": "other"}, "bucket"),
        ("https://b.s3.eu-west-1.amazonaws.com", {"region": "us-east-1"}, "region"),
        ("abfss://c@acc.dfs.core.windows.net", {"account": "other"}, "account"),
    ],
)
def test_what_is_missing_or_contradicts_the_url_is_named(
    url: str, given: dict[str, object], field: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        resolve(parse_location(url), parse_options(given))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (AWS, {**KEYS, "access_key_id": "env-id", "secret_access_key": "env-key"}),
        ({"AWS_REGION": "a", "AWS_DEFAULT_REGION": "b"}, {"region": "a"}),
        ({"AWS_DEFAULT_REGION": "b"}, {"region": "b"}),
        (
            {"AWS_ENDPOINT_URL": "https://a", "AWS_ENDPOINT_URL_S3": "https://b"},
            {"endpoint": "https://b"},
        ),
        ({"AWS_ENDPOINT_URL": "https://a"}, {"endpoint": "https://a"}),
    ],
)
def test_the_environment_fills_what_is_not_given(
    environ: Mapping[str, str], expected: dict[str, str]
) -> None:
    found = with_environment(StorageOptions(), parse_location("s3://b"), environ)
    assert expected.items() <= found.given().items()


def test_given_options_win_over_the_environment() -> None:
    options = parse_options({**KEYS, "region": "given"})
    found = with_environment(options, parse_location("s3://b"), {**AWS, "AWS_REGION": "env"})
    assert found == options  # above all, the environment's session token is not mixed in


@pytest.mark.parametrize("identity", [{"anonymous": True}, {"credential_provider": BearerToken}])
def test_keys_of_the_environment_do_not_join_another_identity(identity: dict[str, object]) -> None:
    found = with_environment(parse_options(identity), parse_location("s3://b"), AWS)
    assert found.access_key_id is None


def test_the_region_of_the_url_wins_over_the_environment() -> None:
    place = parse_location("https://b.s3.eu-west-1.amazonaws.com")
    found = with_environment(StorageOptions(), place, {"AWS_REGION": "us-east-1"})
    assert resolve(place, found).region == "eu-west-1"


def test_a_profile_that_cannot_be_used_is_not_passed_over() -> None:
    with pytest.raises(ValidationError, match="credential_provider"):
        with_environment(StorageOptions(), parse_location("s3://b"), {"AWS_PROFILE": "work"})


def test_an_azure_account_can_come_from_the_environment() -> None:
    environ = {"AZURE_STORAGE_ACCOUNT_NAME": "acc"}
    found = with_environment(StorageOptions(), parse_location("az://c"), environ)
    assert found.account == "acc"


LATER = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("scheme", "credentials", "expected"),
    [
        (
            Scheme.S3,
            AccessKey(access_key_id="i", secret_access_key="s", expires_at=LATER),
            {"access_key_id": "i", "secret_access_key": "s", "token": None, "expires_at": LATER},
        ),
        (Scheme.GCS, BearerToken(token="t"), {"token": "t", "expires_at": None}),
        (Scheme.AZURE, BearerToken(token="t"), {"token": "t", "expires_at": None}),
        (Scheme.AZURE, SasToken(sas_token="?sv=1"), {"sas_token": "sv=1", "expires_at": None}),
    ],
)
def test_credentials_are_handed_to_the_client_with_their_expiry(
    scheme: Scheme, credentials: AccessKey, expected: dict[str, object]
) -> None:
    options = StorageOptions(credential_provider=lambda: credentials)
    provider = client_provider(scheme, options, Redactor())
    assert provider is not None
    assert provider() == expected


def test_credentials_of_another_vendor_are_refused() -> None:
    options = StorageOptions(credential_provider=lambda: BearerToken(token="hunter2"))
    provider = client_provider(Scheme.S3, options, Redactor())
    assert provider is not None
    with pytest.raises(ValidationError, match="BearerToken") as caught:
        provider()
    assert "hunter2" not in str(caught.value)
