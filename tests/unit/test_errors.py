"""The errors: one tree, one code each, and the same error on the other side of a process."""

from __future__ import annotations

import builtins
import copy
import multiprocessing
import re
from typing import TYPE_CHECKING

import pytest

from polylake import errors
from polylake.errors import PolylakeError, is_retryable
from polylake.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.pool import Pool

# Callers branch on these, so an entry is added but never changed.
CODES = {
    "PolylakeError": "polylake",
    "StorageError": "storage",
    "FileNotFound": "storage.not_found",
    "AlreadyExists": "storage.already_exists",
    "VersionMismatch": "storage.version_mismatch",
    "OutcomeUnknown": "storage.outcome_unknown",
    "PermissionDenied": "storage.permission_denied",
    "QuotaExceeded": "storage.quota_exceeded",
    "StorageUnavailable": "storage.unavailable",
    "ConditionalPutUnsupported": "storage.conditional_put_unsupported",
    "ObjectStoreError": "storage.object_store",
    "LogError": "log",
    "TableNotFound": "log.table_not_found",
    "TableExists": "log.table_exists",
    "VersionNotFound": "log.version_not_found",
    "TimestampNotFound": "log.timestamp_not_found",
    "LogGap": "log.gap",
    "CorruptCommit": "log.corrupt_commit",
    "CorruptCheckpoint": "log.corrupt_checkpoint",
    "CorruptDeletionVector": "log.corrupt_deletion_vector",
    "InvalidTableState": "log.invalid_state",
    "UnsupportedFeature": "log.unsupported_feature",
    "ConcurrencyError": "concurrency",
    "ConcurrentAppend": "concurrency.append",
    "ConcurrentDelete": "concurrency.delete",
    "MetadataChanged": "concurrency.metadata",
    "ProtocolChanged": "concurrency.protocol",
    "ConcurrentTransaction": "concurrency.transaction",
    "ConcurrentDomainChange": "concurrency.domain",
    "LeaseLost": "concurrency.lease",
    "IntegrityError": "integrity",
    "CDCError": "cdc",
    "PipelineError": "pipeline",
    "ValidationError": "validation",
    "SchemaError": "validation.schema",
}

RETRYABLE = {
    "VersionMismatch",
    "StorageUnavailable",
    "ConcurrencyError",
    "ConcurrentAppend",
    "ConcurrentDelete",
    "MetadataChanged",
    "ProtocolChanged",
    "ConcurrentTransaction",
    "ConcurrentDomainChange",
}

KINDS: list[type[PolylakeError]] = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, PolylakeError)
]
NAMES = [kind.__name__ for kind in KINDS]

TREE_LINE = re.compile(
    r"^ {4}(?P<rails>(?:[│ ] {3})*)(?P<fork>[├└]── )?(?P<name>\w+)(?: +(?P<gloss>.+))?$"
)


def drawn_tree() -> Iterator[tuple[str, str | None, str]]:
    """Yield each error drawn in the module docstring: its name, its parent's, its gloss."""
    branch: list[str] = []
    for line in filter(TREE_LINE.match, (errors.__doc__ or "").splitlines()):
        found = TREE_LINE.match(line)
        assert found is not None
        depth = 0 if found["fork"] is None else len(found["rails"]) // 4 + 1
        del branch[depth:]
        yield found["name"], branch[-1] if branch else None, found["gloss"] or ""
        branch.append(found["name"])


def test_every_error_has_its_pinned_code() -> None:
    assert {kind.__name__: kind.code for kind in KINDS} == CODES


def test_no_two_errors_share_a_code() -> None:
    assert len({kind.code for kind in KINDS}) == len(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_a_code_extends_the_code_of_its_parent(kind: type[PolylakeError]) -> None:
    parent = kind.__bases__[0]
    if issubclass(parent, PolylakeError) and parent is not PolylakeError:
        assert kind.code.startswith(f"{parent.code}.")


def test_the_drawn_tree_is_the_class_tree() -> None:
    real = {
        kind.__name__: None if kind is PolylakeError else kind.__bases__[0].__name__
        for kind in KINDS
    }
    assert {name: parent for name, parent, _ in drawn_tree()} == real


def test_the_drawn_tree_names_every_builtin_an_error_also_is() -> None:
    drawn = {name: set(re.findall(r"also a (\w+)", gloss)) for name, _, gloss in drawn_tree()}
    real = {
        kind.__name__: {
            base.__name__ for base in kind.__bases__ if hasattr(builtins, base.__name__)
        }
        for kind in KINDS
        if kind is not PolylakeError
    }
    assert drawn == {"PolylakeError": set(), **real}


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_an_error_shows_its_message_and_keeps_its_facts(kind: type[PolylakeError]) -> None:
    error = kind("it broke", path="a/b", expected_version=3)
    assert str(error) == "it broke"
    assert error.facts == {"path": "a/b", "expected_version": 3}


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        yield pool


def test_every_error_comes_back_whole_from_another_process(pool: Pool) -> None:
    sent = [kind(f"{kind.code} broke", path="a/b", versions=[1, 2]) for kind in KINDS]
    received = pool.map(copy.copy, sent)
    assert [(type(error), str(error), error.facts) for error in received] == [
        (type(error), str(error), error.facts) for error in sent
    ]


def test_an_error_raised_in_another_process_is_caught_by_its_type(pool: Pool) -> None:
    with pytest.raises(errors.ValidationError) as caught:
        pool.apply(RetryPolicy, kwds={"max_retries": -1})
    assert caught.value.facts == {"field": "max_retries", "value": -1}


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_the_pinned_errors_and_no_others_are_retryable(kind: type[PolylakeError]) -> None:
    assert is_retryable(kind("it broke")) == (kind.__name__ in RETRYABLE)


@pytest.mark.parametrize(
    "error", [OSError("disk"), TimeoutError(), ValueError(), KeyboardInterrupt()]
)
def test_an_error_that_is_not_ours_is_not_retryable(error: BaseException) -> None:
    assert not is_retryable(error)


@pytest.mark.parametrize(
    ("error", "name", "value"),
    [
        (errors.FileNotFound("x", path="a/b"), "path", "a/b"),
        (errors.FileNotFound("x"), "path", None),
        (errors.VersionMismatch("x", expected_version="e1"), "expected_version", "e1"),
        (errors.VersionMismatch("x", actual_version="e2"), "actual_version", "e2"),
        (errors.ObjectStoreError("x", store_code="NoSuchBucket"), "store_code", "NoSuchBucket"),
        (errors.ObjectStoreError("x"), "store_code", None),
        (errors.UnsupportedFeature("x", features=["f", "g"]), "features", ("f", "g")),
        (errors.UnsupportedFeature("x"), "features", ()),
        (errors.ConcurrentAppend("x", expected_version=4), "expected_version", 4),
        (errors.ConcurrentAppend("x", actual_version=6), "actual_version", 6),
        (errors.SchemaError("x", field="amount"), "field", "amount"),
        (errors.ValidationError("x"), "field", None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, PolylakeError) else repr(value),
)
def test_a_fact_that_callers_need_is_an_attribute(
    error: PolylakeError, name: str, value: object
) -> None:
    assert getattr(error, name) == value
