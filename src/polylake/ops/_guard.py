"""Who may go on with maintenance, asked before each act that cannot be taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from polylake.log import Transaction

    ProgressCallback = Callable[[str, int, int], None]
    """Told the phase an operation is in, how much of it is done, and of how much."""


class Guard(Protocol):
    """Stands for the right to maintain a table, which may be lost to another process."""

    def check(self) -> None:
        """Return if the work may go on.

        Raises:
            LeaseLost: it may not.
        """
        ...

    def seal(self, transaction: Transaction) -> None:
        """Make a commit fail if another maintainer has committed under a later right.

        Raises:
            LeaseLost: one has already.
        """
        ...
