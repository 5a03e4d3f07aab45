"""The ``polylake`` command."""

from polylake.cli._main import main

__all__ = ["main"]
