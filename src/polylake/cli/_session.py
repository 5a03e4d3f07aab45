"""What every command has at hand: where to print, how to open a table, whom to ask."""
# ruff: noqa: PLC0415 - commands load what they need when they run, so that --help is quick

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from polylake.cli._failures import Misuse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.cli._output import Output
    from polylake.engine import Engine
    from polylake.log import DeltaLog
    from polylake.storage import Storage
    from polylake.table import DeltaTable, TableReader


@dataclass(frozen=True, slots=True)
class Session:
    """One run of one command."""

    output: Output
    storage_options: Mapping[str, Any]
    opened: list[str] = field(default_factory=list)
    """The addresses of the stores that were opened."""

    def storage(self, location: str) -> Storage:
        """Open the store of a table; nothing is read yet.

        Raises:
            ValidationError: the location or an option is not acceptable.
        """
        from polylake.storage import open_storage

        storage = open_storage(location, **self.storage_options)
        self.opened.append(storage.url)
        return storage

    def log(self, location: str) -> DeltaLog:
        """Open a table's log, which is quicker than the table.

        Raises:
            ValidationError: the location or an option is not acceptable.
        """
        from polylake.log import DeltaLog

        return DeltaLog(self.storage(location))

    def table(
        self, location: str, *, engine: str = "local", master: str | None = None
    ) -> DeltaTable:
        """Open a table; with ``engine`` being ``spark``, for Spark to work on.

        Raises:
            ValidationError: the location or an option is not acceptable, or there is no Java.
            Misuse: ``master`` is given without Spark, or Spark is not installed.
        """
        from polylake.table import DeltaTable

        storage = self.storage(location)
        if engine == "spark":
            return DeltaTable(storage, engine=self._spark_engine(master))
        if master is not None:
            raise Misuse("--master goes with --engine spark")
        return DeltaTable(storage)

    def table_at(self, location: str, moment: str | None) -> TableReader:
        """Open a table at a version or time, or as it is.

        Raises:
            LogError: the table or the version is not there.
            Misuse: ``moment`` is neither a version nor a time.
        """
        table = self.table(location)
        return table if moment is None else table.at(**parse_moment(moment))

    def _spark_engine(self, master: str | None) -> Engine[Any]:
        try:
            from polylake.pipeline import SparkEngine, lake_session, spark_log
        except ModuleNotFoundError:
            raise Misuse("Spark is not installed: pip install 'polylake[spark]'") from None
        from polylake.storage import StorageOptions

        self.output.note("starting Spark")
        options = StorageOptions(**self.storage_options)
        with spark_log():
            spark = lake_session("polylake", master=master or "local[*]", storage=options)
        return SparkEngine(spark)

    def agree(self, plan: str, *, yes: bool) -> None:
        """Show what is about to happen and ask; with ``yes``, nobody is asked.

        Raises:
            Misuse: nobody can be asked.
            Abort: the answer was no.
        """
        if yes:
            return
        if not sys.stdin.isatty():
            raise Misuse(
                f"nobody can be asked, as stdin is no terminal; pass --yes to go on with:\n{plan}"
            )
        typer.echo(plan, err=True)
        if not typer.confirm("Go on?", err=True):
            raise typer.Abort


def parse_moment(text: str) -> dict[str, Any]:
    """Read a version or a time, as the keyword that the library takes."""
    return {"version": int(text)} if text.isdecimal() else {"timestamp": text}


def parse_pairs(given: list[str], option: str) -> dict[str, str]:
    """Read ``name=value`` pairs.

    Raises:
        Misuse: one is not a pair.
    """
    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise Misuse(f"{option} takes NAME=VALUE, not {text!r}")
        pairs[name] = value
    return pairs


def parse_names(text: str | None) -> tuple[str, ...]:
    """Read names with commas between them."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def parse_size(text: str | None, option: str) -> int | None:
    """Read a size such as ``128MiB``, ``64mb`` or a number of bytes.

    Raises:
        Misuse: it is none.
    """
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower(), re.ASCII)
    if found is None:
        raise Misuse(f"{option} takes a size such as 128MiB, not {text!r}")
    return int(float(found[1]) * 1024 ** " kmgt".index(found[2] or " "))


def parse_storage_options(given: list[str]) -> dict[str, object]:
    """Read the options of a store: flags and numbers become what they say.

    Raises:
        Misuse: one is not ``name=value``.
    """
    return {n: _typed(n, value) for n, value in parse_pairs(given, "--option").items()}


_FLAGS = {"anonymous", "allow_http"}
_NUMBERS = {"request_timeout_s", "connect_timeout_s", "max_retries", "max_connections"}
_NUMBERS |= {"cache_bytes"}


def _typed(name: str, value: str) -> object:
    if name in _FLAGS and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    if name in _NUMBERS:
        return int(value) if value.isdecimal() else _number(name, value)
    return value


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise Misuse(f"--option {name} takes a number, not {value!r}") from None
