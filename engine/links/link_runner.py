"""Runs one link on one server of its target.

The elected server brings the source's changes, batch after batch.

A step does one thing and returns the seconds until the next: it takes the lead, begins the link, or asks the source
what comes next and applies it. A request to the source waits there for something new, so a step that found nothing
follows the former at once.

Invariants:

- What is applied was admitted against the vector whose version the commit expects. After an error, or when another
  writer was first, the target's state is read anew.
- A link that has no place in the source's stream yet takes nothing.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping
from functools import partial

from coordination.keeper.interface import Keeper
from coordination.links.batches.batch_plan import BatchLimits
from coordination.links.batches.batch_selection import Selection, select_batch
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_failures import (
    FailureKind,
    LinkFailure,
    LinkPaused,
    LinkStopped,
    assess_failure,
    is_late,
)
from coordination.links.link_lag import LinkLag, measure_lag
from coordination.links.link_nodes import rename_source, request_copy
from coordination.links.link_settings import LinkSettings
from coordination.links.positions import Position
from coordination.links.stream.gap_check import Gap
from coordination.nodes.gate_link import SyncState
from engine.interserver.transfer import Throttle
from engine.links.exchange.cluster_client import ClusterClient
from engine.links.link_beginning import CopyWaits, begin_link
from engine.links.link_leader import LinkLeader
from engine.links.link_messages import advise_copy, explain_failure, explain_waits
from engine.links.link_report import LinkReport
from engine.links.link_upstream import LinkUpstream, SourceForked, require_same_epoch
from engine.links.resting_links import RestingLink
from engine.links.runner_world import RunnerWorld
from engine.links.switching.siblings import name_siblings
from engine.links.sync.target_mode import TargetMode
from engine.tables.capabilities.link_status import LinkProgress, UpstreamStatus
from engine.tables.capabilities.table_links import (
    ChangesAnswer,
    IncomingBatch,
    LinkTarget,
    SourceTable,
    TargetState,
)
from engine.tables.owned_table import OwnedTable
from parts.common.errors import CancelledError, PandoError, convert_resource_error
from parts.common.query_status import QueryStatus

logger = logging.getLogger(__name__)

_DISABLED_SECONDS = 60.0
_SMALL_MOVE_SECONDS = 1.0
"""A batch without changes only moves the vector: at most one in this time."""
_TRIM_SECONDS = 0.5
_CANCELLED_SECONDS = 0.5
_TURN_SECONDS = 1.0
_FAILURES_OF_A_LEADER = 6
"""After so many failures in a row another server may try: it may reach the source, or have a table that works."""
_RESIGNED_SECONDS = 3.0
_HELD_BACK_SECONDS = 0.1
_ACTIVE_SECONDS = 1.0
"""A link that brought something asks by itself for so long."""


class LinkRunner:
    """One link on one server.

    :meth:`step` is called by one thread at a time, everything else by any thread.
    """

    def __init__(
        self,
        definition: LinkDefinition,
        table: OwnedTable,
        client: ClusterClient,
        world: RunnerWorld,
        wake: Callable[[], None],
    ) -> None:
        assert table.replication is not None, "only replicated tables have links"
        assert table.links is not None, "only linkable tables have links"
        self.definition = definition
        self.table = table
        self._replica = table.replication
        self._target: LinkTarget = table.links.target
        self._bootstrap, self._switching = table.links.bootstrap, table.links.switching
        self._client = client
        self._world = world
        self._wake = wake
        self._services = world.services
        self._leader = LinkLeader(self._replica.paths, definition.name, world.server, wake)
        self._report = LinkReport(
            self._replica.paths.linked.status(definition.name), world.server, self._services.monotonic
        )
        self._limit = (0, 1000)
        self._throttle = Throttle(self._get_rate, self._services.monotonic, self._services.wait)
        self._upstream: LinkUpstream | None = None
        self._source: SourceTable | None = None
        self._state: TargetState | None = None
        self._failure: LinkFailure | None = None
        self._status = QueryStatus()
        self._is_stopping = threading.Event()
        self._moved_at = self._trimmed_at = self._applied_at = -math.inf
        self._trim = 0
        self._mode = TargetMode(client, world.own_cluster)
        self._has_rested = False

    # -- from any thread ----------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        """Whether this server runs the link."""
        return self._leader.is_leader

    @property
    def progress(self) -> LinkProgress | None:
        """How far the link is; ``None`` if another server runs it."""
        return self._report.progress if self._leader.is_leader else None

    def redefine(self, definition: LinkDefinition) -> None:
        """Takes a changed definition: the next step begins with it.

        A link that is disabled ends its step: a copy may take hours.
        """
        self.definition = definition
        if not definition.is_enabled:
            self._status.stop(CancelledError("The link was disabled"))

    def stop(self) -> None:
        """Ends the step under way at its next cancellation point."""
        self._is_stopping.set()
        self._status.stop(CancelledError("The link does not run here any more"))

    # -- by one thread ------------------------------------------------------------------------------------------------

    def step(self) -> float:
        """Carries out the next piece of work; returns the seconds until the next."""
        if self._is_stopping.is_set():
            return _DISABLED_SECONDS
        try:
            keeper = self._replica.require_keeper()
            delay = self._run(keeper)
        except CancelledError:
            self._state = None
            if not self._is_stopping.is_set():
                self._status = QueryStatus()
            return _CANCELLED_SECONDS
        except CopyWaits as wait:
            self._state, delay = None, _TURN_SECONDS
            self._report.change(message=str(wait))
        except Exception as problem:
            error = convert_resource_error(problem) if isinstance(problem, OSError | MemoryError) else problem
            if not isinstance(error, PandoError | LinkStopped | LinkPaused):
                logger.exception("link %s failed", self.definition.name)
            delay = self._note_failure(error)
        pending = self._write_report()
        if self._failure is not None and self._failure.count % _FAILURES_OF_A_LEADER == 0:
            self.resign()
            return max(delay, _RESIGNED_SECONDS)
        return min(delay, pending)

    def resign(self) -> None:
        """Gives the lead up. Not called while another thread is in a step."""
        self._disconnect()
        try:
            self._leader.resign(self._replica.require_keeper())
        except PandoError as error:
            logger.debug("the lead of link %s goes with the session: %s", self.definition.name, error)

    def _run(self, keeper: Keeper) -> float:
        definition = self.definition
        delay = self._leader.try_lead(keeper, self._world.count_running())
        if delay:
            self._disconnect()
            self._offer_blocks(definition)
            return delay
        self._report.take_over(keeper, self._services.clock())
        if not definition.is_begun or definition.wants_copy:  # a server that died may have left the table closed
            self._bootstrap.taker.clean_up(definition.uuid)
        if not definition.is_enabled:
            return self._pause_disabled(keeper, definition)
        try:
            require_same_epoch(self._switching.read_known_gate(), definition)
            return self._bring(definition)
        except SourceForked as error:
            if self._world.follow_fork is None:
                raise
            self._world.follow_fork(definition, error.fork)
            self._disconnect()
            return 0.0

    def _bring(self, definition: LinkDefinition) -> float:
        upstream = self._connect(definition)
        state = self._state = self._state or self._target.read_target()
        if self._source is None:
            self._source = upstream.describe()
            self._note_name(definition, self._source)
        if not definition.is_begun:
            self._report.change(upstream_status=UpstreamStatus.BOOTSTRAP, message="")
            self.definition = begin_link(
                self.table, definition, upstream, self._world.bootstrap(), self._status, self._tell
            )
            self._disconnect()
            return 0.0
        return self._follow(upstream, state, self._source)

    def _note_name(self, definition: LinkDefinition, source: SourceTable) -> None:
        """Notes a new name of the source. The link gets its new definition as it gets others."""
        if (source.database, source.table) != (definition.source_database, definition.source_table):
            rename_source(self._replica.require_keeper(), definition, source.database, source.table)

    def _offer_blocks(self, definition: LinkDefinition) -> None:
        """Lets this replica ask the source for a part that all replicas have lost, though another server leads."""
        if definition.is_begun and definition.is_enabled:
            self._target.set_refetch(definition.name, self._make_upstream(definition).refetch)

    def _make_upstream(self, definition: LinkDefinition) -> LinkUpstream:
        settings = LinkSettings.parse(definition.settings)
        self._limit = settings.replication_throttler_limit, settings.replication_throttler_period
        own, is_cancelled = self._world.own_cluster, self._is_stopping.is_set
        return LinkUpstream(definition, self._client, own, (self._throttle,), is_cancelled)

    def _connect(self, definition: LinkDefinition) -> LinkUpstream:
        if self._upstream is None or self._upstream.definition is not definition:
            self._upstream = self._make_upstream(definition)
            self._source = None
            self._report.change(message="")
            self._target.set_refetch(definition.name, self._upstream.refetch)
        return self._upstream

    def _disconnect(self) -> None:
        self._target.set_refetch(self.definition.name, None)
        self._upstream = self._state = self._source = None

    def _get_rate(self) -> int:
        limit, period = self._limit
        return limit * 1000 // period

    # -- following ----------------------------------------------------------------------------------------------------

    def _follow(self, upstream: LinkUpstream, state: TargetState, source: SourceTable) -> float:
        settings = upstream.settings
        self._find_trim(source, state, settings)
        wait = min(settings.replication_timeout, self._world.max_wait_seconds())
        asked_at = self._services.monotonic()
        answer = upstream.read_changes(state.vector, self._trim, wait)
        self._source = answer.source
        self._note_name(self.definition, answer.source)
        limits = BatchLimits(settings.link_max_batch_rows, settings.link_max_batch_bytes)
        origin = answer.source.origin
        selection = select_batch(answer.changes, answer.cuts, state.vector, origin, state.own, state.forks, limits)
        self._note_answer(upstream.definition, answer, state, selection)
        if selection.end is None:
            if selection.stop is not None:
                raise LinkStopped(
                    f"{selection.stop}. {advise_copy(self.definition.name)}", is_late=isinstance(selection.stop, Gap)
                )
            self._failure = None
            if state.vector.applied(origin) >= answer.frontier:
                self._target.take_marks(answer.stable)
            if not wait:
                return self._rest(answer, settings)
            return max(0.0, min(_HELD_BACK_SECONDS, wait - (self._services.monotonic() - asked_at)))
        if not selection.changes and self._services.monotonic() - self._moved_at < _SMALL_MOVE_SECONDS:
            return min(_SMALL_MOVE_SECONDS, settings.replication_timeout)
        changes, vector, end = selection.changes, selection.vector, Position(origin, selection.end)
        views = partial(self._world.run_views, self.table) if settings.run_views and self._world.run_views else None
        fetches = upstream.fetch, upstream.fetch_small
        batch = IncomingBatch(self.definition, state, answer.source, changes, vector, end, *fetches, views)
        if not self.definition.is_enabled:  # since the source was asked
            return 0.0
        applied = self._target.apply_batch(batch, self._status)
        self._state = None
        if applied.is_applied:
            self._failure = None
            if selection.changes:
                self._applied_at, self._has_rested = self._services.monotonic(), False
            else:
                self._moved_at = self._services.monotonic()
            self._report.count_batch(applied.rows, applied.size_bytes, applied.blocks, applied.lost_rows)
            self._report.change(applied_position=str(batch.end))
            if selection.end >= answer.frontier:  # nothing is missing until the next answer says so
                self._target.take_marks(answer.stable)
                self._report.note_answer(LinkLag(self._services.monotonic()))
                self._report.change(rows_behind=0, bytes_behind=0)
        return settings.link_batch_delay_ms / 1000 if selection.changes else 0.0

    def _rest(self, answer: ChangesAnswer, settings: LinkSettings) -> float:
        """Leaves the wait for news to one that waits for many links; returns the seconds until the next look."""
        is_active = self._services.monotonic() - self._applied_at < _ACTIVE_SECONDS
        if is_active or answer.waits or settings.mode == "sync":
            return _HELD_BACK_SECONDS
        table = self.definition.source_database, self.definition.source_table
        wait, is_again, self._has_rested = settings.replication_timeout, self._has_rested, True
        resting = RestingLink(table, answer.mark, wait, is_again, self._note_heartbeat, self._wake)
        self._world.rest(self.definition.name, resting)
        return resting.rest_seconds

    def _note_heartbeat(self) -> None:
        self._report.note_answer(LinkLag(self._services.monotonic()))

    def _find_trim(self, source: SourceTable, state: TargetState, settings: LinkSettings) -> None:
        """Asks now and then how far the replicas are, until they have everything that is applied."""
        now = self._services.monotonic()
        if self._trim < state.vector.applied(source.origin) and now - self._trimmed_at >= _TRIM_SECONDS:
            self._trimmed_at = now
            self._trim = max(self._trim, self._target.find_trim_position(source.origin, settings.link_quorum))

    # -- telling ------------------------------------------------------------------------------------------------------

    def _note_answer(
        self, asked: LinkDefinition, answer: ChangesAnswer, state: TargetState, selection: Selection
    ) -> None:
        others = (each for each in answer.changes if each.position.origin != state.own)
        missing = [each for each in others if not state.vector.covers(each.position)]
        self._report.note_answer(measure_lag(missing, answer.clock_ms, self._services.monotonic()))
        origin = answer.source.origin
        self._mode.take_answer(self._replica.require_keeper(), asked, answer.sync)
        self._report.change(
            upstream_status=UpstreamStatus.SYNC if answer.sync.state is SyncState.ENABLED else UpstreamStatus.FOLLOW,
            sync_state=answer.sync.state.value,
            message=explain_waits(answer) if selection.stop is None else str(selection.stop),
            applied_position=str(Position(origin, state.vector.applied(origin))),
            confirmed_position=str(Position(origin, self._trim)) if self._trim else "",
            source_position=str(Position(origin, answer.frontier)),
            rows_behind=answer.rows_behind,
            bytes_behind=answer.bytes_behind,
            siblings=name_siblings(answer.source.siblings, self.definition.uuid),
        )

    def _pause_disabled(self, keeper: Keeper, definition: LinkDefinition) -> float:
        self._report.change(
            upstream_status=UpstreamStatus.PAUSED,
            message=f"The link is disabled; ALTER REPLICATION LINK {definition.name} ENABLE goes on",
        )
        self._disconnect()
        self._mode.tell_disabled(keeper, definition)
        return _DISABLED_SECONDS

    def _copies_by_itself(self) -> bool:
        settings = LinkSettings.parse(self.definition.settings)
        return settings.auto_bootstrap and self._world.bootstrap() is not None

    def _note_failure(self, error: Exception) -> float:
        state, source = self._state, self._source
        place = state.vector.applied(source.origin) if state is not None and source is not None else 0
        former, self._state = self._failure, None
        self._failure = failure = assess_failure(former, error, place)
        if is_late(error) and self._copies_by_itself():
            self.definition = request_copy(self._replica.require_keeper(), self.definition.name)
        text = error.message if isinstance(error, PandoError | LinkStopped | LinkPaused) else repr(error)
        if former is None or former.name != failure.name:
            logger.warning("link %s: %s", self.definition.name, text)
        self._report.count_error(text)
        if failure.kind is not FailureKind.RETRY or failure.count > 1:  # one server's restart is no message
            status = _STATUSES[failure.kind]
            self._report.change(
                upstream_status=status, message=explain_failure(self.definition.name, error, failure, text)
            )
            self._source = None  # it is looked at anew, perhaps at another server
        return failure.pause_seconds

    def _tell(self, text: str) -> None:
        self._report.change(message=text)
        self._write_report()

    def _write_report(self) -> float:
        """Tells the other servers how far the link is. Returns the seconds after which there is more to tell."""
        if not self._leader.is_leader:
            self._report.forget_written()
            return math.inf
        try:
            return self._report.write(self._replica.require_keeper())
        except PandoError as error:
            logger.debug("the state of link %s is written later: %s", self.definition.name, error)
            return math.inf


_STATUSES: Mapping[FailureKind, UpstreamStatus] = {
    FailureKind.RETRY: UpstreamStatus.DISCONNECTED,
    FailureKind.PAUSE: UpstreamStatus.PAUSED,
    FailureKind.STOP: UpstreamStatus.STOPPED,
}
