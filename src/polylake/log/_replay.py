"""Action reconciliation: what a table is after a sequence of commits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from polylake.errors import ValidationError
from polylake.log._actions import DomainMetadata, Metadata, Protocol, Txn
from polylake.log._columns import check_add, check_remove
from polylake.log._commit_file import CommitInfo, corrupt_commit, read_rows
from polylake.log._live_files import Layer, LiveFiles, Overlay

if TYPE_CHECKING:
    from polylake.log._checkpoint_reader import CheckpointState
    from polylake.log._fields import JsonObject


@dataclass(slots=True)
class Replay:
    """A table's state that commits are applied to, oldest first."""

    layers: tuple[Layer, ...] = ()
    overlay: Overlay = field(default_factory=Overlay)
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    txns: dict[str, Txn] = field(default_factory=dict)
    domains: dict[str, DomainMetadata] = field(default_factory=dict)
    commit_info: CommitInfo | None = None
    """Of the last commit applied."""

    @classmethod
    def from_checkpoint(cls, state: CheckpointState) -> Replay:
        """Start from a checkpoint."""
        return cls(
            layers=tuple(Layer(source) for source in state.sources),
            protocol=state.protocol,
            metadata=state.metadata,
            txns=state.txns,
            domains=state.domains,
        )

    def apply(self, data: bytes, source: str) -> None:
        """Apply one commit file, or one log compaction file.

        Raises:
            CorruptCommit: it cannot be read; the state is then of no more use.
        """
        self.commit_info = None
        for line, kind, body in read_rows(data, source=source):
            try:
                self._apply_action(kind, body)
            except ValidationError as error:
                raise corrupt_commit(source, line, f"{kind}: {error}") from error

    def _apply_action(self, kind: str, body: JsonObject) -> None:
        match kind:
            case "add":
                self.overlay.add(check_add(body), body)
            case "remove":
                self.overlay.remove(check_remove(body), body)
            case "commitInfo":
                self.commit_info = CommitInfo(body)
            case "txn":
                txn = Txn.from_log(body)
                self.txns[txn.app_id] = txn
            case "domainMetadata":
                domain = DomainMetadata.from_log(body)
                if domain.removed:
                    self.domains.pop(domain.domain, None)
                else:
                    self.domains[domain.domain] = domain
            case "metaData":
                self.metadata = Metadata.from_log(body)
            case "protocol":
                self.protocol = Protocol.from_log(body)
            case _:
                # PROTOCOL.md, "Protocol Evolution": unrecognised actions are ignored.
                pass

    def files(self) -> LiveFiles:
        """Return the files as they are now; apply nothing afterwards."""
        return LiveFiles(self.layers, self.overlay).folded()
