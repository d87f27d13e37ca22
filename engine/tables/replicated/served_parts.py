"""The parts of a replica, as other servers fetch them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from engine.interserver.protocol import StagedCopy
from engine.link_store.outbox import OUTBOX_FOLDER
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.stopped_actions import StoppableAction
from parts.common.errors import CorruptionError, UnavailableError
from parts.common.part_name import PartName
from parts.common.safe_names import is_plain_file_name
from parts.store.part_states import Snapshot

OpenKept = Callable[[PartName], tuple[Snapshot, Path] | None]
"""Opens a block that is kept for links; ``None`` if it is not."""

StageCopies = Callable[[str, str, Sequence[StagedCopy]], None]
"""(source replica, staging, copies): fetches parts that another replica has staged, and stages them here."""


class ServedParts:
    """Implements ``engine.interserver.replication.PartProvider`` for one replica."""

    def __init__(
        self,
        state: ReplicaState,
        open_kept: OpenKept,
        stage_copies: StageCopies,
        report_corruption: Callable[[CorruptionError], None],
        begin_session: Callable[[], None],
        on_session_change: Callable[[], None],
    ) -> None:
        self._state = state
        self._open_kept = open_kept
        self.stage_copies = stage_copies
        self.report_corruption = report_corruption
        self.begin_session = begin_session
        self.on_session_change = on_session_change
        self._throttle = state.services.throttle(
            lambda: state.definition.settings.max_replicated_sends_network_bandwidth
        )

    def part_hashes(self, names: Sequence[PartName]) -> dict[PartName, str]:
        """Returns the content hashes of those of the parts that are active here."""
        found = {name: self._state.store.get_active(name) for name in names}
        return {name: part.content_hash for name, part in found.items() if part is not None}

    def pin_part(self, name: PartName) -> tuple[Snapshot, Path]:
        """Returns a snapshot that holds the part, and its directory.

        Outdated parts too: another replica may still need them. Raises ``UserError`` 232 (NO_SUCH_DATA_PART).
        """
        self._check_sends()
        snapshot = self._state.store.hold([name])
        return snapshot, snapshot.parts[0].path

    def open_staged_part(self, transaction: str, place: str, name: PartName) -> tuple[Snapshot, Path]:
        """Opens the part that a transaction staged, or the part ``name`` that was made of it. Raises 232."""
        self._check_sends()
        if transaction == OUTBOX_FOLDER and (kept := self._open_kept(name)) is not None:
            return kept
        store = self._state.store
        try:
            store.settle()
        except OSError as error:  # a part that is on its way back to staged/ is not lost
            raise UnavailableError("ABORTED", f"An exchange of parts is not settled: {error}") from error
        directory = store.staged.path(transaction, place) if is_plain_file_name(place) else None
        if directory is None or not is_plain_file_name(transaction) or not directory.exists():
            return self.pin_part(name)
        return Snapshot([], lambda _: None), directory

    def before_sending(self, size: int) -> None:
        """Waits for bandwidth before each piece. Raises 236 (ABORTED) if sending must end."""
        self._check_sends()
        for throttle in (self._throttle, self._state.services.send_throttle):
            throttle.spend(size, self._check_sends)

    def _check_sends(self) -> None:
        self._state.stopped.refuse(StoppableAction.SENDS, "Transferring part to replica was cancelled")
