"""One table of a transactional group at this replica: which cuts it has.

The gate says which group the table is in. It is noted in ``link_group.json`` of the table's directory, so that a server
that starts without ZooKeeper does not show the table alone.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from coordination.keeper.interface import Keeper
from coordination.links.groups.cut_mark import CutMark
from coordination.links.groups.cut_mutations import CutMutations, compare_with_parts, list_new_marks
from coordination.links.groups.link_group import LinkGroup, find_group
from coordination.links.groups.shown_cut import TableProgress
from coordination.links.stream.carried_changes import has_carried_mutations
from coordination.log.log_entry import EntryType, LogEntry
from coordination.nodes.gate_link import LinkDirection
from coordination.nodes.replica_activation import Activation
from engine.tables.replicated.links.groups.shown_teller import ShownTeller
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.shown_groups.shown_group import GroupRegistry, ShownGroup
from parts.common.part_name import PartName
from parts.format.durable_files import remove_durably, replace_file_durably
from parts.store.part_states import Snapshot

logger = logging.getLogger(__name__)

MARKER = "link_group.json"
_BRINGING = (EntryType.GET_PART, EntryType.ATTACH_PART)
_OF_MERGES = (EntryType.MERGE_PARTS, EntryType.MUTATE_PART)
_MOST_GROUPS = 4


@dataclass
class _Cuts:
    """What is known of the table's cuts in one group; a group that is made anew has places of another source."""

    known: int = 0
    touched: int = 0
    joined: int = 0
    """The cut with which the table entered; 0 if it has not."""
    seen_in: Activation | None = None
    """The activation in which it was found out how far the table is."""


class GroupMember:
    """The part of one replica's table in a group. Implements ``shown_group.Member``. Thread-safe."""

    def __init__(
        self,
        state: ReplicaState,
        registry: GroupRegistry,
        pull: Callable[[Keeper], None],
        wake_execution: Callable[[], None],
        wake_telling: Callable[[], None] = lambda: None,
    ) -> None:
        """``pull`` reads the log into the queue, and ``wake_execution`` lets it go on.

        ``wake_telling`` has ``teller`` step soon.
        """
        self._state = state
        self._registry = registry
        self._pull = pull
        self._wake_execution = wake_execution
        self._wake_telling = wake_telling
        self.teller = ShownTeller(state, lambda: self._group)
        self._lock = threading.Lock()
        self._group: ShownGroup | None = None
        self._cuts: dict[str, _Cuts] = {}
        """By the UUID of the group."""
        self._load_marker()

    @property
    def root(self) -> str:
        """The table's root in ZooKeeper."""
        return self._state.paths.root

    @property
    def name(self) -> str:
        """The table's name, for people."""
        return self._state.definition.full_name

    @property
    def group(self) -> ShownGroup | None:
        """The group that the table is in; ``None`` for a table that is shown alone."""
        return self._group

    def take_snapshot(self) -> Snapshot:
        """Returns the parts that are active now."""
        return self._state.store.snapshot()

    def wake(self) -> None:
        """The group shows another cut, perhaps: the queue goes on, and others are told."""
        self._wake_execution()
        group = self._group
        if group is not None and group.is_told(self.root):
            self._wake_telling()

    def begin_activation(self) -> None:
        """Others will wait for what this replica shows, and did not for what was committed before.

        It shows the cuts that it knows when it has looked for the first time, or later ones.
        """
        group = self._group
        if group is not None and group.is_told(self.root):
            group.hide()

    # -- membership ---------------------------------------------------------------------------------------------------

    def _marker(self) -> Path:
        return self._state.store.path / MARKER

    def _load_marker(self) -> None:
        try:
            name = str(json.loads(self._marker().read_bytes())["group"])
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError):
            logger.warning("%s cannot be read: the table waits for its gate", self._marker())
            name = "of an unreadable name"
        self._enter(name)

    def follow_gate(self, keeper: Keeper) -> None:
        """Takes note of the group that the gate names, and of how far the table is.

        Called when the gate was read.
        """
        gate = self._state.gate.gate
        links = gate.links_of(LinkDirection.IN) if gate is not None else ()
        name = next((link.group for link in links if link.group), "")
        if name != (self._group.name if self._group is not None else ""):
            self.leave()
            if name:
                replace_file_durably(self._marker(), json.dumps({"version": 1, "group": name}).encode())
                self._enter(name)
        if not name and self._marker().exists():
            self.teller.tell_alone(keeper)
            remove_durably(self._marker())
        if name and self._group is not None:
            found = find_group(keeper, name)
            if found is not None:
                self._look(keeper, found[0], self._group)

    def _enter(self, name: str) -> None:
        self._group = self._registry.enter(name, self)
        self._state.queue.shows_cuts = True

    def leave(self) -> None:
        """Leaves the group: the table is shown alone, or stops."""
        group, self._group = self._group, None
        self._state.queue.shows_cuts = False
        if group is not None:
            self._registry.leave(group, self)
        with self._lock:
            self._cuts.clear()

    def _of(self, group: str) -> _Cuts:
        """Returns what is known of a group; the lock is held."""
        if group not in self._cuts:
            for former in list(self._cuts)[: 1 - _MOST_GROUPS]:
                del self._cuts[former]
        return self._cuts.setdefault(group, _Cuts())

    def _look(self, keeper: Keeper, known: LinkGroup, group: ShownGroup) -> None:
        """Finds out how far the table is: what the group's node tells was committed before the log is pulled."""
        activation = self._state.activation
        self._pull(keeper)
        self._state.mutations.load(keeper)
        marks = self._list_marks(known.uuid)
        member = next((each for each in known.members if each.path == self.root), None)
        with self._lock:
            cuts = self._of(known.uuid)
            if member is not None and member.joined:
                cuts.joined = member.joined
            elif cuts.joined <= known.place:  # it left, and came back
                cuts.joined = 0
            cuts.known = max([cuts.known, known.place, *(mark.place for mark in marks)])
            if cuts.seen_in is not activation:  # an earlier run may have carried out any of these
                cuts.touched = max([cuts.touched, *(mark.place for mark in marks)])
                cuts.seen_in = activation
        group.set_definition(known)
        group.show_if_possible()

    # -- cuts ---------------------------------------------------------------------------------------------------------

    def _list_marks(self, group: str) -> list[CutMark]:
        marks = [CutMark.of(item.entry) for item in self._state.queue.list_entries()]
        return sorted(mark for mark in marks if mark is not None and mark.group == group)

    def read_progress(self, group: str) -> TableProgress:
        """Returns how far the table is. ``group``: the group's UUID."""
        items = self._state.queue.list_entries()
        found = [(mark, item.entry) for item in items if (mark := CutMark.of(item.entry)) is not None]
        found = [(mark, entry) for mark, entry in found if mark.group == group]
        mutations = self._compare_mutations(group)
        brings = mutations.has_others or any(_brings_parts(item.entry) for item in items)
        marks = sorted(mark for mark, _ in found)
        with self._lock:
            cuts = self._of(group)
            cuts.known = max([cuts.known, *(mark.place for mark in marks)])
            pulled = [mark for mark in mutations.undone if mark.place <= cuts.known]
            begun = [mark.place for mark in pulled if mark not in marks]  # the entry was carried out, in an earlier run
            marks = sorted({*marks, *pulled})  # nothing is known of cuts before one that is not pulled
            cuts.joined = max([cuts.joined, *(mark.place for mark in marks if mark.joins)])
            is_seen = cuts.seen_in is not None  # otherwise the others wait for it
            has_joined = not is_seen or (cuts.joined > 0 and not (marks and marks[0].joins))
            covered = [mark.place for mark, entry in found if self._is_partly_here(entry)]
            touched = cuts.touched = max([cuts.touched, mutations.touched, *covered])
            dropping = (
                m.place for m, e in found if any(d.covers(p) for d in e.removed_ranges for p in mutations.unchanged)
            )
            touched = max([touched, *dropping, *begun])
            activation = self._state.activation
            is_ready = activation is not None and cuts.seen_in is activation and not brings
            return TableProgress(is_ready, cuts.known, marks, touched, has_joined, lacks_parts=brings)

    def _compare_mutations(self, group: str) -> CutMutations:
        """Compares the mutations with the parts: both are read behind the queue.

        The mutations of a cut are known before its entry leaves the queue.
        """
        known = self._state.mutations.current
        if not known.mutations:
            return CutMutations()
        return compare_with_parts(known, [part.name for part in self._state.store.list_active()], group)

    def _is_partly_here(self, entry: LogEntry) -> bool:
        return any(self._state.store.covering_active(part) is not None for part in entry.created_parts)

    def admit(self, keeper: Keeper, entries: Sequence[LogEntry]) -> bool:
        """Tells whether the entries may be carried out in one step now; they count as begun if so."""
        group, marks = self._group, sorted(filter(None, map(CutMark.of, entries)))
        if group is None or not marks:
            return True
        if any(has_carried_mutations(entry) for entry in entries):
            self._state.mutations.load(keeper)
        return group.admit(self, marks)

    def admit_part(self, part: PartName) -> bool:
        """Tells whether a part may become active now: the mutations that it brings count as begun if so."""
        group, state = self._group, self._state
        if group is None or not part.mutation:
            return True
        covered = [each.name for each in state.store.list_active() if part.covers(each.name)]
        marks = list_new_marks(state.mutations.current, part, covered)
        return not marks or group.admit(self, marks)

    def note_touched(self, group: str, place: int) -> None:
        """Takes note that something of a cut may be active from now on. ``group``: its UUID."""
        with self._lock:
            cuts = self._of(group)
            cuts.touched = max(cuts.touched, place)
            cuts.known = max(cuts.known, place)

    def note_done(self) -> None:
        """An entry of a cut has left the queue."""
        if self._group is not None:
            self._group.show_if_possible()

    def note_executed(self, entries: Sequence[LogEntry]) -> None:
        """Looks again when a table may have got its last part that no cut brings, as a clone does.

        Or when a mutation may have changed its last part.
        """
        if any(_may_be_last(entry) for entry in entries):
            self.note_done()


def _may_be_last(entry: LogEntry) -> bool:
    if entry.type in _OF_MERGES:
        return entry.new_part is not None and entry.new_part.mutation > 0
    return CutMark.of(entry) is None


def _brings_parts(entry: LogEntry) -> bool:
    """Tells whether the entry brings rows that no cut has: of a clone, a lost part, or from before the group."""
    return entry.type in _BRINGING or (entry.type is EntryType.REPLACE_RANGE and CutMark.of(entry) is None)
