"""Where a path or URL leads."""

import pytest

from polylake.errors import ValidationError
from polylake.storage._urls import Location, Scheme, parse_location

S3, R2, GCS, AZURE = Scheme.S3, Scheme.R2, Scheme.GCS, Scheme.AZURE


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("lake", "lake"),
        ("./a b", "./a b"),
        ("/data/lake", "/data/lake"),
        ("/data/50%25", "/data/50%25"),
        ("file:///data/lake", "/data/lake"),
        ("file:/data/lake", "/data/lake"),
        ("file://localhost/data/lake", "/data/lake"),
        ("file:///data/a%20b", "/data/a b"),
    ],
)
def test_a_path_or_file_url_is_a_folder(text: str, path: str) -> None:
    assert parse_location(text) == Location(scheme=Scheme.FILE, prefix=path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("memory://", Location(scheme=Scheme.MEMORY)),
        ("memory://name/a", Location(scheme=Scheme.MEMORY, bucket="name", prefix="a")),
        ("s3://b", Location(scheme=S3, bucket="b")),
        ("s3://b/", Location(scheme=S3, bucket="b")),
        ("S3://b/x/y/", Location(scheme=S3, bucket="b", prefix="x/y")),
        ("s3a://b/x", Location(scheme=S3, bucket="b", prefix="x")),
        ("s3://b/100%25", Location(scheme=S3, bucket="b", prefix="100%25")),
        (
            "s3://b.c.s3.us-west-2.amazonaws.com/x",
            Location(scheme=S3, bucket="b.c", prefix="x", region="us-west-2"),
        ),
        (
            "https://b.s3.us-west-2.amazonaws.com/x",
            Location(scheme=S3, bucket="b", prefix="x", region="us-west-2"),
        ),
        ("https://b.s3.amazonaws.com/x", Location(scheme=S3, bucket="b", prefix="x")),
        (
            "https://s3.eu-west-1.amazonaws.com/b/x",
            Location(scheme=S3, bucket="b", prefix="x", region="eu-west-1"),
        ),
        (
            "https://b.s3.cn-north-1.amazonaws.com.cn/x",
            Location(scheme=S3, bucket="b", prefix="x", region="cn-north-1"),
        ),
        ("r2://acc/b/x", Location(scheme=R2, account="acc", bucket="b", prefix="x")),
        (
            "https://acc.eu.r2.cloudflarestorage.com/b/x",
            Location(scheme=R2, account="acc", bucket="b", prefix="x", jurisdiction="eu"),
        ),
        ("gs://b/x", Location(scheme=GCS, bucket="b", prefix="x")),
        (
            "https://storage.googleapis.com/b/x",
            Location(scheme=GCS, bucket="b", prefix="x"),
        ),
        ("az://c/x", Location(scheme=AZURE, bucket="c", prefix="x")),
        ("azure://c/x", Location(scheme=AZURE, bucket="c", prefix="x")),
        (
            "abfss://c@acc.dfs.core.windows.net/x",
            Location(scheme=AZURE, account="acc", bucket="c", prefix="x"),
        ),
        (
            "https://acc.blob.core.windows.net/c/x",
            Location(scheme=AZURE, account="acc", bucket="c", prefix="x"),
        ),
    ],
)
def test_a_url_names_a_bucket_and_a_prefix(text: str, expected: Location) -> None:
    assert parse_location(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("ftp://host/x", "unknown scheme 'ftp'"),
        ("https://example.com/b/x", "endpoint="),
        ("file://host/x", "names the host 'host'"),
        ("s3://b/../x", "could leave the root"),
        ("s3://b/a//x", "empty segment"),
        ("s3://bad bucket/x", "not a bucket name"),
    ],
)
def test_what_is_no_location_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        parse_location(text)


def test_an_unknown_scheme_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValidationError, match=r"s3://.*gs://.*abfss://"):
        parse_location("hdfs://host/x")


@pytest.mark.parametrize(
    "text",
    [
        "az://c/x?sv=1&sig=hunter2",
        "https://acc.blob.core.windows.net/c/x?sig=hunter2",
        "https://b.s3.amazonaws.com/x?X-Amz-Signature=hunter2",
        "s3://key:hunter2@b/x",
        "r2://hunter2@acc/b",
        "abfss://c:hunter2@acc.dfs.core.windows.net/x",
    ],
)
def test_a_url_with_a_secret_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValidationError) as caught:
        parse_location(text)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(caught.value.facts)
