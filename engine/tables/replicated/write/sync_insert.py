"""An INSERT's work at the targets of synchronous links: it asks them first, and waits for them last.

Invariants:

- A block is committed only with the targets at which all parts of its INSERT are staged (``SyncTargets``); the commit
  checks the gate that names them. If the gate has moved, the parts that are left are staged at the targets that came.
- The client is answered when the rows are visible at every target that the log entry names, whatever was disabled
  since. A repeat that is a duplicate waits for the targets of the original. The target of a link that was dropped since
  is none any more.
- Whatever goes wrong behind the first commit is 319 (UNKNOWN_STATUS_OF_INSERT): the rows are stored.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordination.inserts.block_views import BlockNode
from coordination.keeper.interface import Keeper, KeeperConnectionLoss, KeeperError
from coordination.links.cluster_identity import CLUSTER_PATH, ClusterIdentity
from coordination.links.table_position import read_current_position
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import GateLink, LinkDirection
from coordination.nodes.sync_targets import SyncTargets
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.sync_peers import SyncPart
from parts.common.errors import PandoError, UnavailableError, UnknownOutcomeError
from parts.common.query_status import QueryStatus


class SyncInsert:
    """One INSERT or COMMIT at the targets of its table. Used by one thread at a time."""

    def __init__(
        self, state: ReplicaState, *, timeout_seconds: float, is_required: bool, status: QueryStatus, what: str
    ) -> None:
        """``what`` names the statement in errors."""
        self._state = state
        self._deadline = state.services.monotonic() + timeout_seconds
        self._timeout_seconds = timeout_seconds
        self._status = status
        self._what = what
        self._name = ""
        self._waits: dict[str, int] = {}
        """By UUID of a link: the zxid that its target must show."""
        self.targets = SyncTargets(is_required=is_required)
        """The targets at which everything is staged."""

    @property
    def has_waits(self) -> bool:
        """Whether anything was committed that targets must show."""
        return bool(self._waits)

    # -- before the decision ------------------------------------------------------------------------------------------

    def stage(self, parts: Sequence[SyncPart]) -> None:
        """Stages the parts at every enabled target where they are not yet.

        Raises 285 (TOO_FEW_LIVE_REPLICAS), naming the target and why it cannot take them.
        """
        gate = self._read_gate()
        links = gate.sync_targets if gate is not None else ()
        missing = [link for link in links if link.uuid not in self.targets.links]
        if missing and not self._name:
            self._name = str(self._state.services.new_uuid())
        if self._state.description.merge_mode.has_row_versions or (gate is not None and gate.own_origin):
            parts = ()  # rows get their version with the block's number, their place with the commit
        for link in missing:
            self._stage_at(link, parts)
        self.targets = SyncTargets(frozenset(link.uuid for link in links), self.targets.is_required)
        if missing:
            self._state.services.failpoint("insert.after_staging")

    def _read_gate(self) -> Gate | None:
        gate = self._state.gate
        return gate.gate or gate.load(self._state.require_writable())

    def _stage_at(self, link: GateLink, parts: Sequence[SyncPart]) -> None:
        try:
            self._state.services.sync_peers.stage(link, self._name, parts, self._left_seconds(), self._status)
        except PandoError as error:
            self._status.check()
            raise UnavailableError(
                "TOO_FEW_LIVE_REPLICAS",
                f"The rows of {self._what} cannot be staged at cluster {link.peer_name!r}, the target of synchronous "
                f"link {link.name}: {error.message}. Nothing is stored there or here. If the cluster stays away, ALTER "
                f"REPLICATION LINK '{link.name}' MODE async goes on without it",
            ) from error

    # -- behind the decision ------------------------------------------------------------------------------------------

    def note_commit(self, zxid: int, links: frozenset[str]) -> None:
        """Notes that something was committed with these links, at this zxid."""
        for uuid in links:
            self._waits[uuid] = max(zxid, self._waits.get(uuid, 0))

    def note_part(self, keeper: Keeper, part: str) -> None:
        """Notes a part that was committed with the targets of now."""
        if self.targets.links:
            stat = keeper.exists(self._state.replica.part(part))
            self.note_commit(stat.created_zxid if stat is not None else 0, self.targets.links)

    def note_duplicate(self, keeper: Keeper, block_id: str) -> None:
        """Notes a block that was committed before: its repeat waits as the original does."""
        answer = keeper.get_many([self._state.paths.block(block_id)])[0]
        if answer is not None:
            self.note_commit(answer[1].modified_zxid, frozenset(BlockNode.parse(answer[0]).sync_targets))

    def wait(self) -> None:
        """Waits until all targets show what was committed with them.

        Raises 319 (UNKNOWN_STATUS_OF_INSERT) if they do not in time; the rows are stored then.
        """
        if not self._waits:
            return
        try:
            keeper = self._state.require_writable()
            gate = self._state.gate.load(keeper)
            cluster = ClusterIdentity.parse(keeper.get(CLUSTER_PATH)[0])
            newest = read_current_position(keeper, self._state.paths, cluster.uuid)
        except (KeeperError, KeeperConnectionLoss, PandoError) as error:
            raise self._make_unseen_error([error.message]) from error
        origin, _, last = newest.rpartition(":")
        links = gate.links_of(LinkDirection.OUT) if gate is not None else ()
        for link in links:  # all of them bring it meanwhile
            if (zxid := self._waits.get(link.uuid)) is not None:
                # What was written behind the newest change, such as a block's id, no stream reaches.
                self._wait_for(link, f"{origin}:{min(zxid or int(last), int(last))}")

    def _wait_for(self, link: GateLink, position: str) -> None:
        peers, missing = self._state.services.sync_peers, ""
        try:
            missing = peers.wait_until_visible(link, position, self._left_seconds(), self._status)
        except PandoError as error:
            self._status.check()
            missing = error.message
        if missing:
            raise self._make_unseen_error([f"{link.name}: {missing}"])

    def _left_seconds(self) -> float:
        return max(0.0, self._deadline - self._state.services.monotonic())

    def _make_unseen_error(self, missing: Sequence[str]) -> UnknownOutcomeError:
        return UnknownOutcomeError(
            "UNKNOWN_STATUS_OF_INSERT",
            f"{self._what[:1].upper()}{self._what[1:]} is decided: its rows are stored in this cluster, and come to "
            "every target of a synchronous link sooner or later (or, if its quorum fails, to none). But after "
            f"{self._timeout_seconds:g} seconds (insert_timeout) not every target shows them: {'; '.join(missing)}. "
            "Repeating the same statement waits again, and stores nothing twice",
        )
