"""Runs a link that may be in a transactional group.

The link with the least name leads its group: the server that runs it asks the source for the next cut of all tables,
and commits it for all. The other links of the group bring nothing; they tell their source how far they are, and report.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from coordination.keeper.interface import SetData
from coordination.links.batches.batch_plan import BatchLimits
from coordination.links.batches.batch_selection import Selection, select_batch
from coordination.links.groups.cut_mark import CutMark
from coordination.links.groups.link_group import LinkGroup, find_group, group_path
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_failures import LinkPaused, LinkStopped
from coordination.links.link_lag import LinkLag
from coordination.links.link_settings import LinkSettings
from coordination.links.positions import Position
from coordination.links.stream.gap_check import Gap
from coordination.links.switching.switching_gate import ASKED, read_fact
from coordination.nodes.gate_link import LinkMode
from engine.links.groups.cut_messages import CutAnswer, CutRequest, decode_cut_answer, encode_cut_request
from engine.links.link_messages import advise_copy
from engine.links.link_runner import LinkRunner
from engine.links.link_upstream import SILENT_HEARTBEATS, LinkUpstream, SourceForked
from engine.tables.capabilities.table_links import ChangesAnswer, GroupCut, IncomingBatch, SourceTable, TargetState
from parts.common.errors import UnavailableError, UserError

_TELL_SECONDS = 1.0
_TELLS_A_SECOND = 8
"""The most of a whole group: a cut tells the source, too, how far its tables are."""
_IDLE_SECONDS = 0.1
_NO_LIMITS = BatchLimits(0, 0)


@dataclass(frozen=True, slots=True)
class _MemberLink:
    """One link of the group, as this server applies it."""

    runner: GroupedRunner
    upstream: LinkUpstream
    state: TargetState


class GroupedRunner(LinkRunner):
    """One link on one server, in a group or not."""

    _told_at = -math.inf
    _cut_mark = (-1, "")
    """The version of the group's node at which there was no cut, and the mark of that answer."""

    def _follow(self, upstream: LinkUpstream, state: TargetState, source: SourceTable) -> float:
        name = upstream.definition.group
        if not name:
            return super()._follow(upstream, state, source)
        found = find_group(self._replica.require_keeper(), name)
        if found is None or found[0].find_member(upstream.definition.name) is None:
            return _TELL_SECONDS  # the link is about to be told that it left the group
        group, version = found
        now, pause = self._services.monotonic(), _find_tell_pause(group, upstream.settings)
        answer = None
        if now - self._told_at >= pause:
            state = self._state = self._target.read_target()  # another link moves the vector
            answer = self._tell_source(upstream, state, source)
            self._told_at = now
        if group.leader != upstream.definition.name:
            self._require_leader(group)
            self._failure = None
            if answer is not None and state.vector.applied(answer.source.origin) >= answer.frontier:
                return max(pause, self._rest(answer, upstream.settings))
            return pause
        return self._make_cut(group, version)

    def _require_leader(self, group: LinkGroup) -> None:
        """Raises ``LinkPaused`` if nobody leads the group because that link is disabled."""
        for runner in self._list_grouped():
            if runner.definition.name == group.leader:
                _require_enabled(group, runner.definition)

    def _list_grouped(self) -> list[GroupedRunner]:
        return [each for each in self._world.list_runners() if isinstance(each, GroupedRunner)]

    def _tell_source(self, upstream: LinkUpstream, state: TargetState, source: SourceTable) -> ChangesAnswer:
        """Tells the source how far the table is, and notes how far it is behind."""
        self._find_trim(source, state, upstream.settings)
        answer = upstream.read_changes(state.vector, self._trim, 0.0)
        self._source = answer.source
        self._note_answer(upstream.definition, answer, state, Selection(vector=state.vector))
        return answer

    # -- cuts, on the server that leads the group ---------------------------------------------------------------------

    def _make_cut(self, group: LinkGroup, version: int) -> float:
        members = self._find_members(group)
        settings = members[0].upstream.settings
        wait = min(settings.replication_timeout, self._world.max_wait_seconds())
        asked_at = self._services.monotonic()
        mark = self._cut_mark[1] if self._cut_mark[0] == version else ""
        answer = self._ask(group, members, wait, mark)
        self._cut_mark = version, answer.mark
        if not answer.answers or answer.place <= group.place:
            self._failure = None
            if answer.answers or not wait:
                return _IDLE_SECONDS
            return max(0.0, min(_IDLE_SECONDS, wait - (self._services.monotonic() - asked_at)))
        batches = [self._make_batch(member, each) for member, each in zip(members, answer.answers, strict=True)]
        clock_ms = answer.answers[0].clock_ms
        joining = frozenset(member.link for member in group.members if not member.joined)
        moved = SetData(group_path(group.name), group.advance(answer.place, clock_ms).to_bytes(), version)
        cut = GroupCut(CutMark(answer.place, group.place, group.uuid, commit_ms=clock_ms), (moved,), joining)
        targets = [member.runner._target for member in members]
        applied = targets[0].apply_cut(batches[0], list(zip(targets[1:], batches[1:], strict=True)), cut, self._status)
        if applied.is_applied:
            self._failure = None
            self._report.count_batch(applied.rows, applied.size_bytes, applied.blocks, applied.lost_rows)
            own = next(each for each in batches if each.link.name == self.definition.name)
            self._report.change(applied_position=str(own.end))
            if answer.place >= answer.frontier:  # nothing is missing until the next answer says so
                self._report.note_answer(LinkLag(self._services.monotonic()))
                self._report.change(rows_behind=0, bytes_behind=0)
        return settings.link_batch_delay_ms / 1000

    def _find_members(self, group: LinkGroup) -> list[_MemberLink]:
        """Returns the links of the group. Raises ``LinkPaused`` if one cannot take a cut here."""
        here = {each.definition.name: each for each in self._list_grouped()}
        found = list[tuple[GroupedRunner, LinkDefinition]]()
        for member in sorted(group.members, key=lambda each: each.link):
            runner = here.get(member.link)
            if runner is None or runner.definition.uuid != member.link_uuid:
                raise LinkPaused(
                    f"Group {group.name} waits: table {member.database}.{member.table} of link {member.link} is not on "
                    "the server that leads the group. The tables of a group must be on the same servers"
                )
            definition = runner.definition
            if not definition.is_begun or definition.wants_copy:
                raise UnavailableError("ABORTED", f"Group {group.name} waits until link {member.link} has begun")
            _require_enabled(group, definition)
            if definition.source_cluster != group.source_cluster:
                raise UnavailableError(
                    "ABORTED",
                    f"Group {group.name} waits until all its links follow cluster {definition.source_cluster}",
                )
            found.append((runner, definition))
        first, *others = [runner._target for runner, _ in found]
        states = first.read_targets(others)
        return [
            _MemberLink(runner, runner._make_upstream(definition), state)
            for (runner, definition), state in zip(found, states, strict=True)
        ]

    def _ask(self, group: LinkGroup, members: list[_MemberLink], wait: float, mark: str) -> CutAnswer:
        settings = members[0].upstream.settings
        request = CutRequest(
            [member.upstream.make_cut_request(member.state.vector) for member in members],
            settings.link_max_batch_rows,
            settings.link_max_batch_bytes,
            wait,
            any(not member.joined for member in group.members) or self._is_switched(),
            any(member.upstream.settings.mode == "sync" for member in members),
            mark,
        )
        silence = max(SILENT_HEARTBEATS * settings.replication_timeout, wait + 1.0)
        try:
            document = self._client.ask("cut", encode_cut_request(request), read_seconds=silence)
            answer = decode_cut_answer(document)
        except UserError as error:
            if error.name != "BAD_ARGUMENTS":
                raise
            raise LinkPaused(f"The source gives group {group.name} no cut: {error.message}") from error
        if len(answer.answers) not in (0, len(members)):
            raise UnavailableError("NETWORK_ERROR", "The source answers for other tables than the group's")
        return answer

    def _is_switched(self) -> bool:
        """Tells whether a SWITCH waits until the tables have the last places of their sources."""
        gate = self._switching.read_known_gate()
        return gate is not None and read_fact(gate, ASKED) is not None

    def _make_batch(self, member: _MemberLink, answer: ChangesAnswer) -> IncomingBatch:
        """Returns the batch of one table. Raises ``LinkStopped`` for a gap or a fork."""
        source, state, definition = answer.source, member.state, member.runner.definition
        (place,) = answer.cuts
        try:
            member.upstream.check(source, answer.frontier, state.vector)
        except SourceForked as error:
            if member.runner is self:
                raise
            raise UnavailableError(
                "ABORTED", f"Group {definition.group} waits until link {definition.name} follows its source: {error}"
            ) from error
        end = Position(source.origin, place)
        found = select_batch(answer.changes, [place], state.vector, source.origin, state.own, state.forks, _NO_LIMITS)
        if found.stop is not None:
            raise LinkStopped(f"{found.stop}. {advise_copy(definition.name)}", is_late=isinstance(found.stop, Gap))
        vector = found.vector if found.end is not None else state.vector
        upstream = member.upstream
        fetches = upstream.fetch, upstream.fetch_small
        return IncomingBatch(definition, state, source, found.changes, vector, end, *fetches)


def _find_tell_pause(group: LinkGroup, settings: LinkSettings) -> float:
    """Returns the seconds after which a link of the group tells its source again how far it is."""
    if settings.mode == LinkMode.SYNC.value:
        return _TELL_SECONDS
    return max(_TELL_SECONDS, len(group.members) / _TELLS_A_SECOND)


def _require_enabled(group: LinkGroup, definition: LinkDefinition) -> None:
    if not definition.is_enabled:
        name = definition.name
        raise LinkPaused(
            f"Group {group.name} waits: link {name} is disabled. ALTER REPLICATION LINK {name} ENABLE goes on"
        )
