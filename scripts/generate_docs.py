#!/usr/bin/env python3
"""Write into README.md and docs/ what the code says itself: tables of options, features, errors.

A generated part stands between ``<!-- generated: name -->`` and ``<!-- end -->``. With ``--check``
nothing is written: pages that are out of date are named, and the exit status is 1.
"""

import ast
import inspect
import json
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from polylake import errors, retry
from polylake.log import FEATURES
from polylake.maintenance import (
    HealthThresholds,
    MaintenanceMetrics,
    policy_reference,
    to_prometheus,
)
from polylake.ops import WriteOptions
from polylake.query import OPERATORS, Use
from polylake.query.aggregate import CATALOG, Kind
from polylake.storage import StorageOptions

ROOT = Path(__file__).parents[1]
_PART = re.compile(r"(?<=<!-- generated: )(?P<name>[a-z-]+) -->\n.*?(?=<!-- end -->)", re.DOTALL)
_KINDS = {"s3": "S3", "r2": "R2", "gs": "GCS", "az": "Azure"}


def main(*, check: bool) -> int:
    """Rewrite the pages that are out of date, or only look for them, and name them."""
    stale = 0
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = page.read_text()
        fresh = regenerate(text)
        if fresh != text:
            stale += 1
            if not check:
                page.write_text(fresh)
            told = ": out of date, run scripts/generate_docs.py" if check else ""
            sys.stdout.write(f"{page.relative_to(ROOT)}{told}\n")
    return 1 if check and stale else 0


def regenerate(text: str) -> str:
    """Return a page with its generated parts as they should be."""

    def fill(found: re.Match[str]) -> str:
        name = found["name"]
        # Markdown wants a table to stand alone.
        return f"{name} -->\n\n{PARTS[name]()}\n\n"

    return _PART.sub(fill, text)


def storage_options() -> str:
    """Return the table of what ``open_storage`` takes."""
    meanings = _PLAIN | _field_docs(StorageOptions)
    rows = []
    for option in fields(StorageOptions):
        schemes = [_KINDS[scheme] for scheme in option.metadata["schemes"]]
        kinds = "all" if len(schemes) == len(_KINDS) else ", ".join(schemes)
        secret = " (secret)" if option.metadata["secret"] else ""
        rows.append((f"`{option.name}`", kinds, _markdown(meanings[option.name]) + secret))
    return _table(("option", "for", "meaning"), rows)


def retry_policy() -> str:
    """Return the table of the fields of ``RetryPolicy`` and their defaults."""
    rows = []
    for field in fields(retry.RetryPolicy):
        default = field.default
        shown = default.__name__ if callable(default) else f"{default:g}"
        rows.append((f"`{field.name}`", f"`{shown}`", _RETRY_MEANINGS[field.name]))
    return _table(("field", "default", "meaning"), rows)


def write_options() -> str:
    """Return the table of what ``DeltaTable.write`` takes."""
    meanings = _WRITE_MEANINGS | _field_docs(WriteOptions)
    rows = [
        (f"`{option.name}`", _markdown(meanings[option.name])) for option in fields(WriteOptions)
    ]
    return _table(("option", "meaning"), rows)


def operators(*uses: Use) -> str:
    """Return the table of the operators that stand in some places."""
    rows = [
        (f"`{operator.name}`", _markdown(operator.meaning), f"`{operator.example}`")
        for operator in OPERATORS.values()
        if operator.use in uses
    ]
    return _table(("operator", "meaning", "example"), rows)


def pipeline(kind: Kind) -> str:
    """Return the table of the stages, accumulators or expressions of pipelines."""
    rows = [
        (f"`{entry.name}`", _markdown(entry.meaning), f"`{entry.example}`")
        for entry in CATALOG
        if entry.kind is kind
    ]
    return _table((_KIND_TITLES[kind], "meaning", "example"), rows)


def features() -> str:
    """Return the support matrix."""
    rows = []
    for feature in FEATURES.values():
        kind = "reader and writer" if feature.for_readers else "writer"
        versions = f"{feature.reader_version}, {feature.writer_version}"
        named = feature.writer_version == 7
        rows.append(
            (
                f"`{feature.name}`",
                kind,
                "by name only" if named else versions,
                "yes" if feature.readable else "**no**",
                "yes" if feature.writable else "**no**",
                ", ".join(f"`{name}`" for name in feature.needs),
            )
        )
    header = ("feature", "kind", "carried by reader, writer version", "read", "write", "needs")
    return _table(header, rows)


def error_tree() -> str:
    """Return the tree that the docstring of ``polylake.errors`` draws."""
    _, _, tree = inspect.cleandoc(errors.__doc__ or "").partition("    PolylakeError")
    return "```\n" + inspect.cleandoc(f"    PolylakeError{tree}") + "\n```"


def error_codes() -> str:
    """Return the table of codes."""
    rows = []
    for kind in _errors_under(errors.PolylakeError):
        bases = {base.__name__ for base in kind.__bases__ if base.__module__ == "builtins"}
        also = "".join(f"; also a `{name}`" for name in sorted(bases - {"Exception"}))
        retryable = "yes" if kind.retryable else "no"
        meaning = _markdown(kind.__doc__ or "") + also
        rows.append((f"`{kind.code}`", f"`{kind.__name__}`", retryable, meaning))
    return _table(("code", "error", "retryable", "meaning"), rows)


def metrics() -> str:
    """Return the table of what ``/metrics`` serves."""
    page = to_prometheus(MaintenanceMetrics())
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE))
    found = re.findall(r"^# HELP (\S+) (.*)$", page, re.MULTILINE)
    rows = [(f"`{name}`", kinds[name], _markdown(meaning)) for name, meaning in found]
    return _table(("metric", "kind", "meaning"), rows)


def health_thresholds() -> str:
    """Return the table of the fields of ``HealthThresholds``."""
    meanings = _THRESHOLD_MEANINGS | _field_docs(HealthThresholds)
    rows = []
    for field in fields(HealthThresholds):
        shown = f"{field.default:,}" if isinstance(field.default, int) else f"{field.default:g}"
        rows.append((f"`{field.name}`", shown, _markdown(meanings[field.name])))
    return _table(("threshold", "default", "meaning"), rows)


def benchmarks() -> str:
    """Return what the last run of ``make bench`` measured."""
    report = json.loads((ROOT / "benchmarks" / "results.json").read_text())
    facts = ", ".join(f"{name} {value}" for name, value in report["facts"].items())
    parts = [f"On {facts}."]
    for title, section in report["sections"].items():
        table = _table(
            ("work", "polylake", "beside it", "ratio", "wanted"), map(_benchmark, section["rows"])
        )
        parts += [f"## {title}", f"Measured {section['when']}.", table]
    return "\n\n".join(parts)


def _benchmark(row: dict[str, Any]) -> tuple[str, ...]:
    note = f" ({row['note']})" if row["note"] else ""
    wanted = "" if row["target"] is None else f"≤ {row['target']:g}, {row['verdict']}"
    return (
        row["work"] + note,
        _amount(row["ours"], row["unit"]),
        f"{row['peer']}: {_amount(row['theirs'], row['unit'])}",
        f"{row['ratio']:.2f}",
        wanted,
    )


def _amount(value: float, unit: str) -> str:
    if unit != "s":
        return f"{value:,.0f} {unit}"
    return f"{value:.3f} s" if value >= 0.1 else f"{value * 1000:.2f} ms"


PARTS: dict[str, Callable[[], str]] = {
    "benchmarks": benchmarks,
    "health-thresholds": health_thresholds,
    "metrics": metrics,
    "maintenance-options": lambda: policy_reference().strip(),
    "accumulators": lambda: pipeline(Kind.ACCUMULATOR),
    "error-codes": error_codes,
    "error-tree": error_tree,
    "expressions": lambda: pipeline(Kind.EXPRESSION),
    "features": features,
    "filter-operators": lambda: operators(Use.FIELD, Use.LOGICAL),
    "push-modifiers": lambda: operators(Use.PUSH),
    "retry-policy": retry_policy,
    "stages": lambda: pipeline(Kind.STAGE),
    "storage-options": storage_options,
    "update-operators": lambda: operators(Use.UPDATE),
    "write-options": write_options,
}

_PLAIN = {
    "access_key_id": "The access key, with `secret_access_key`",
    "secret_access_key": "Its secret",
    "session_token": "The token of temporary keys",
    "account_key": "The storage account's key",
    "sas_token": "A shared access signature",
    "bearer_token": "An OAuth token",
}
_WRITE_MEANINGS = {
    "target_bytes": "About how large a file gets before the next one begins",
    "codec": "The compression of the files, such as `snappy` or `zstd`",
    "row_group_rows": "How many rows a row group has at most",
    "bloom_columns": "Columns that get bloom filters",
    "sort_by": "Columns by which the rows of a write are sorted in its files",
}
_THRESHOLD_MEANINGS = {
    "small_share": "The share of all files that they have to be for a warning",
    "critical_small_files": "So many of them are critical",
    "critical_commits": "So many of them are critical",
    "critical_deleted_share": "From this share on it is critical",
    "critical_expired_share": "From this share on it is critical",
}
_KIND_TITLES = {
    Kind.STAGE: "stage",
    Kind.ACCUMULATOR: "accumulator",
    Kind.EXPRESSION: "operator",
}
_RETRY_MEANINGS = {
    "max_retries": "attempts after the first",
    "base_delay_s": "the first wait",
    "max_delay_s": "no wait is longer",
    "multiplier": "how much longer each next wait is",
    "jitter": "each wait is moved by up to this fraction of itself; 0 keeps it exact",
    "is_retryable": "which errors are tried again",
}


def _errors_under(kind: type[errors.PolylakeError]) -> list[type[errors.PolylakeError]]:
    """Return an error and all below it, in the order in which the module has them."""
    below = [kind]
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            below += _errors_under(child)
    return below


def _field_docs(kind: type) -> dict[str, str]:
    """Return the texts that stand below the fields of a class."""
    body = ast.parse(inspect.getsource(kind)).body[0]
    found: dict[str, str] = {}
    name = ""
    for statement in body.body if isinstance(body, ast.ClassDef) else []:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)):
                pass
            case ast.Expr(value=ast.Constant(value=str(text))) if name:
                found[name] = " ".join(text.split())
                name = ""
            case _:
                name = ""
    return found


def _markdown(text: str) -> str:
    return " ".join(text.split()).replace("``", "`").removesuffix(".")


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |".replace("  |", " |") for cells in lines)


if __name__ == "__main__":
    sys.exit(main(check=sys.argv[1:] == ["--check"]))
