"""Where Spark finds the files of a table, and what it calls them."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

from polylake.errors import ValidationError
from polylake.storage import HasLocalPath

if TYPE_CHECKING:
    from polylake.storage import Storage

# What java.net.URI leaves as it is in a path, beside letters and digits of every language.
_LEFT_ALONE = frozenset("_-!.~'()*,;:$&+=@/")
_PLAIN = re.compile(r"[A-Za-z0-9_\-!.~'()*,;:$&+=@/]*", re.ASCII)
_SCHEMES = {"s3": "s3a", "s3a": "s3a", "gs": "gs", "abfss": "abfss"}


class Locations:
    """Names the files of one table as Spark does.

    Raises:
        ValidationError: no Spark cluster can open files of this store.
    """

    def __init__(self, storage: Storage) -> None:
        self._local = storage if isinstance(storage, HasLocalPath) else None
        self._root = "" if self._local else _root(storage.url)

    @property
    def are_local(self) -> bool:
        """Whether the files are files of this machine."""
        return self._local is not None

    def find(self, path: str) -> str:
        """Return what Spark opens a file by, for its decoded path in the log.

        Raises:
            ValidationError: Spark would pass over the file, or cannot open it.
        """
        name = path.rpartition("/")[2]
        if name.startswith((".", "_")) or name.endswith("._COPYING_"):
            # Spark lists a file before it reads it, and takes such names for hidden files.
            raise ValidationError(
                f"Spark does not read files with names like {name!r}", field="path", path=path
            )
        return self.folder(path)

    def folder(self, path: str) -> str:
        """Return what Spark opens a folder, or whatever is there, by.

        Raises:
            ValidationError: no Spark cluster can open it.
        """
        if path.startswith("/"):
            return f"file:{path}"
        if ":/" in path:
            return _absolute(path)
        if self._local is not None:
            return f"file:{self._local.local_path(path)}"
        return f"{self._root}/{path}"


def as_reported(location: str) -> str:
    """Return what ``_metadata.file_path`` says of a file that was opened by ``location``."""
    scheme, _, rest = location.partition(":")
    if _PLAIN.fullmatch(rest):
        return location
    return f"{scheme}:{''.join(map(_escaped, rest))}"


def _escaped(character: str) -> str:
    if character in _LEFT_ALONE or (character.isascii() and character.isalnum()):
        return character
    # Java leaves letters of other scripts, and escapes their spaces and control characters.
    if not character.isascii() and unicodedata.category(character)[0] not in "ZC":
        return character
    return quote(character, safe="")


def _absolute(path: str) -> str:
    scheme, _, rest = path.partition(":")
    if scheme == "file":
        return f"file:/{rest.lstrip('/')}"
    if scheme not in _SCHEMES:
        raise _unreachable(path)
    return f"{_SCHEMES[scheme]}:{rest}"


def _root(url: str) -> str:
    parts = urlsplit(url)
    path = unquote(parts.path).rstrip("/")
    if parts.scheme == "file":
        return f"file:{path}"
    if parts.scheme == "r2":  # r2://account/bucket: S3's protocol, at the account's endpoint
        return f"s3a:/{path}"
    if parts.scheme not in _SCHEMES:
        raise _unreachable(url)
    return f"{_SCHEMES[parts.scheme]}://{parts.netloc}{path}"


def _unreachable(url: str) -> ValidationError:
    return ValidationError(
        f"Spark cannot open {url}: it reads local folders, s3, r2, gs and abfss. Use the local "
        "engine for tables in memory.",
        field="storage",
        url=url,
    )
