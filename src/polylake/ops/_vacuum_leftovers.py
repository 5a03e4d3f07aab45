"""What Spark jobs that were killed leave behind.

A job writes into a folder of its own, named by a UUID of version 7 and never used again. Until it
commits, its files are below ``_temporary`` there, under hidden names among others.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from polylake.storage import HasLocalPath

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polylake.storage import Storage

_JOB = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_JOB_FOLDER = re.compile(rf"(?:_change_data/)?{_JOB}(?=/)")
_LEFTOVER = re.compile(rf"(?:_change_data/)?{_JOB}/_temporary/")


def is_leftover(key: str) -> bool:
    """Say whether a file is one that a job has not committed."""
    return _LEFTOVER.match(key) is not None


def remove_empty_folders(storage: Storage, deleted: Iterable[str]) -> None:
    """Remove the folders of jobs whose files were deleted, as far as nothing is left in them.

    Only a disk of this machine has folders. One that cannot be removed does no harm.
    """
    if not isinstance(storage, HasLocalPath):
        return
    found = {match[0] for key in deleted if (match := _JOB_FOLDER.match(key))}
    for folder in found:
        tree = Path(storage.local_path(folder))
        for path, _, _ in os.walk(tree, topdown=False):
            try:
                Path(path).rmdir()
            except OSError:
                continue  # something is in it, or somebody else was faster
