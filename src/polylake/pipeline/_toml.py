"""Pipelines as TOML files."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polylake.errors import ValidationError
from polylake.pipeline._check import refusal, spec_problems
from polylake.pipeline._toml_reader import TomlReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polylake.pipeline._spec import PipelineSpec

_VARIABLE = re.compile(r"\$(?P<escape>\$)?\{(?P<name>[A-Za-z_]\w*)\}", re.ASCII)


def load_spec(
    path: str | os.PathLike[str], *, environ: Mapping[str, str] | None = None
) -> PipelineSpec:
    """Read a pipeline from a TOML file and check it; Spark is not needed.

    ``${NAME}`` in a text is the environment variable of that name, and ``$${NAME}`` the text
    itself. Relative paths start from the folder of the file.

    Raises:
        ValidationError: it cannot be used; the message names everything that is wrong.
        OSError: the file cannot be read.
    """
    file = Path(path)
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValidationError(f"{file} is no TOML: {error}", field="path") from error
    problems: list[str] = []
    filled = _filled(document, os.environ if environ is None else environ, "", problems)
    reader = TomlReader(file.parent.absolute())
    spec = reader.pipeline(filled)
    problems += reader.problems
    # What was found while reading is not said again of the value put in its place.
    known = tuple(problem.split(" ", 1)[0] for problem in problems)
    problems += [each for each in spec_problems(spec) if not each.startswith(known)]
    if problems:
        raise refusal(str(file), problems)
    return spec


def _filled(value: Any, environ: Mapping[str, str], where: str, problems: list[str]) -> Any:  # noqa: ANN401 - TOML
    """Return a value with the variables of the environment in its texts."""
    match value:
        case str():

            def read(found: re.Match[str]) -> str:
                if found["escape"]:
                    return found[0][1:]
                if found["name"] not in environ:
                    problems.append(f"{where} names {found[0]}, which is not set")
                return environ.get(found["name"], "")

            return _VARIABLE.sub(read, value)
        case list():
            return [
                _filled(part, environ, f"{where}[{place}]", problems)
                for place, part in enumerate(value)
            ]
        case dict():
            return {
                name: _filled(part, environ, f"{where}.{name}".lstrip("."), problems)
                for name, part in value.items()
            }
    return value
