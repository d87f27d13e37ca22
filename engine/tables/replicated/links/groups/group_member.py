"""One table of a transactional group at this replica: which cuts it has.

The gate says which group the table is in. It is noted in ``link_group.json`` of the table's directory, so that a server
that starts without ZooKeeper does not show the table alone.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from coordination.keeper.interface import Keeper
from coordination.links.groups.cut_mark import CutMark
from coordination.links.groups.link_group import LinkGroup, find_group
from coordination.links.groups.shown_cut import TableProgress
from coordination.log.log_entry import EntryType, LogEntry
from coordination.nodes.gate_link import LinkDirection
from coordination.nodes.replica_activation import Activation
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.shown_groups.shown_group import GroupRegistry, ShownGroup
from parts.format.durable_files import remove_durably, replace_file_durably
from parts.store.part_states import Snapshot

logger = logging.getLogger(__name__)

MARKER = "link_group.json"
_BRINGING = (EntryType.GET_PART, EntryType.ATTACH_PART)
_OF_MERGES = (EntryType.MERGE_PARTS, EntryType.MUTATE_PART)


class GroupMember:
    """The part of one replica's table in a group. Implements ``shown_group.Member``. Thread-safe."""

    def __init__(
        self,
        state: ReplicaState,
        registry: GroupRegistry,
        pull: Callable[[Keeper], None],
        wake: Callable[[], None],
    ) -> None:
        """``pull`` reads the log into the queue; ``wake`` lets the queue go on."""
        self._state = state
        self._registry = registry
        self._pull = pull
        self.wake = wake
        self._lock = threading.Lock()
        self._group: ShownGroup | None = None
        self._seen_in: Activation | None = None
        """The activation in which it was found out how far the table is."""
        self._known = self._touched = 0
        self._joined = 0
        """The cut with which it entered; 0 if it has not."""
        self._uuid = ""
        """The group of which the others tell."""
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
            elif self._marker().exists():
                remove_durably(self._marker())
        if name and self._group is not None:
            found = find_group(keeper, name)
            if found is not None:
                self._look(keeper, found[0], self._group)

    def _enter(self, name: str) -> None:
        self._group = self._registry.enter(name, self)

    def leave(self) -> None:
        """Leaves the group: the table is shown alone, or stops."""
        group, self._group = self._group, None
        if group is not None:
            self._registry.leave(group, self)
        self._seen_in, self._known, self._touched, self._joined = None, 0, 0, 0

    def _look(self, keeper: Keeper, known: LinkGroup, group: ShownGroup) -> None:
        """Finds out how far the table is: what the group's node tells was committed before the log is pulled."""
        activation = self._state.activation
        self._pull(keeper)
        marks = self._list_marks(known.uuid)
        member = next((each for each in known.members if each.path == self.root), None)
        with self._lock:
            if self._uuid != known.uuid:
                self._known = self._touched = self._joined = 0
                self._uuid = known.uuid
            if member is not None and member.joined:
                self._joined = member.joined
            elif self._joined <= known.place:  # it left, and came back
                self._joined = 0
            self._known = max([known.place, *(mark.place for mark in marks)])
            if self._seen_in is not activation:  # an earlier run may have carried out any of these
                self._touched = max([self._touched, *(mark.place for mark in marks)])
                self._seen_in = activation
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
        brings = any(_brings_parts(item.entry) for item in items)
        marks = sorted(mark for mark, _ in found)
        with self._lock:
            self._known = max([self._known, *(mark.place for mark in marks)])
            self._joined = max([self._joined, *(mark.place for mark in marks if mark.joins)])
            has_joined = self._joined > 0 and not (marks and marks[0].joins)
            covered = [mark.place for mark, entry in found if self._is_partly_here(entry)]
            touched = max([self._touched, *covered])
            activation = self._state.activation
            is_ready = activation is not None and self._seen_in is activation and not brings
            return TableProgress(is_ready, self._known, marks, touched, has_joined)

    def _is_partly_here(self, entry: LogEntry) -> bool:
        return any(self._state.store.covering_active(part) is not None for part in entry.created_parts)

    def admit(self, entries: Sequence[LogEntry]) -> bool:
        """Tells whether the entries may be carried out in one step now; they count as begun if so."""
        group, marks = self._group, sorted(filter(None, map(CutMark.of, entries)))
        if group is None or not marks:
            return True
        return group.admit(self, marks)

    def note_touched(self, place: int) -> None:
        """Takes note that something of a cut may be active from now on."""
        with self._lock:
            self._touched = max(self._touched, place)
            self._known = max(self._known, place)

    def note_done(self) -> None:
        """An entry of a cut has left the queue."""
        if self._group is not None:
            self._group.show_if_possible()

    def note_executed(self, entries: Sequence[LogEntry]) -> None:
        """Looks again when a table may have got its last part that no cut brings, as a clone does."""
        if any(entry.type not in _OF_MERGES and CutMark.of(entry) is None for entry in entries):
            self.note_done()


def _brings_parts(entry: LogEntry) -> bool:
    """Tells whether the entry brings rows that no cut has: of a clone, a lost part, or from before the group."""
    return entry.type in _BRINGING or (entry.type is EntryType.REPLACE_RANGE and CutMark.of(entry) is None)
