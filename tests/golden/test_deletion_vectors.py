"""Deletion vectors that other writers wrote."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from polylake.log._deletion_vector import DeletionVectorDescriptor, read_deletion_vector

if TYPE_CHECKING:
    from collections.abc import Iterator

GOLDEN = Path(os.environ.get("POLYLAKE_GOLDEN", Path(__file__).parents[3] / "shared" / "golden"))


def descriptors() -> Iterator[Any]:
    """Yield every table root and descriptor that a commit under the golden folder names."""
    for commit in sorted(GOLDEN.rglob("_delta_log/*.json")):
        root = commit.parents[1]
        for number, line in enumerate(commit.read_bytes().splitlines()):
            if b'"deletionVector"' not in line:
                continue
            for action in orjson.loads(line).values():
                fields = action.get("deletionVector")
                if fields is not None:
                    name = f"{root.relative_to(GOLDEN)}-{commit.stem.lstrip('0') or '0'}-{number}"
                    yield pytest.param(root, fields, id=name)


def fetch(root: Path, path: str, start: int, end: int) -> bytes:
    # Delta's own tests put this before the names, to see that nobody takes them for encoded.
    renamed = root / f"test%dv%prefix-{path}"
    file = renamed if renamed.exists() else root / path
    return file.read_bytes()[start:end]


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="set POLYLAKE_GOLDEN to the golden tables")
@pytest.mark.parametrize(("root", "fields"), list(descriptors()))
def test_a_deletion_vector_reads_with_the_rows_the_log_counts(
    root: Path, fields: dict[str, Any]
) -> None:
    descriptor = DeletionVectorDescriptor.from_log(fields)
    if "{{" in descriptor.path_or_inline:
        pytest.skip("a template: the absolute path is filled in by whoever unpacks the table")
    if not any(root.glob("*deletion_vector_*.bin")):
        pytest.skip("a table whose data is not among the golden files")
    rows = read_deletion_vector(descriptor, lambda path, start, end: fetch(root, path, start, end))
    assert len(rows) == descriptor.cardinality
