"""``python -m polylake`` is the ``polylake`` command."""

from polylake.cli import main

main()
