"""Where the ``polylake`` command begins."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; exits with one of the codes that ``polylake --help`` lists."""
    try:
        # Deferred: an extra, whose absence deserves better than a traceback.
        from polylake.cli._app import app  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name not in {"typer", "rich"}:
            raise
        sys.exit("error: the polylake command needs an extra; run: pip install 'polylake[cli]'")
    try:
        app(prog_name="polylake")
    except KeyboardInterrupt:  # before or after a command, which deals with it by itself
        sys.exit(130)
