"""The cut of a group that a replica shows: the parts of all its tables, held together.

Invariants:

- A query reads all tables of a group in one view, and a view has the parts of one cut.
- While the lock is held no table begins to carry a cut out. So between the look at the tables and the snapshots of
  their parts none of them goes on; merges may, since they change no row.
- The view shown before stays until the next can be taken, and as long as a query reads it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from coordination.links.groups.cut_mark import CutMark
from coordination.links.groups.link_group import LinkGroup
from coordination.links.groups.shown_cut import TableProgress, find_showable, may_carry_out
from coordination.links.groups.told_cut import ToldCut
from parts.common.errors import UnavailableError
from parts.store.part_states import Snapshot

WaitFor = Callable[[threading.Condition, Callable[[], bool], float], bool]

logger = logging.getLogger(__name__)


class Member(Protocol):
    """A table of the group at this replica."""

    @property
    def root(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def wake(self) -> Callable[[], None]: ...

    def read_progress(self, group: str) -> TableProgress: ...

    def note_touched(self, group: str, place: int) -> None: ...

    def take_snapshot(self) -> Snapshot: ...


class ShownView:
    """The parts of all tables at one cut, counted by those who read them."""

    def __init__(self, cut: str, place: int, commit_ms: int, snapshots: Mapping[str, Snapshot]) -> None:
        self.cut = cut
        self.place = place
        self.commit_ms = commit_ms
        self.snapshots = snapshots
        """By the root of the table."""
        self._readers = 1
        self._lock = threading.Lock()

    def hold(self) -> None:
        """Counts one more reader."""
        with self._lock:
            self._readers += 1

    def give_up(self) -> None:
        """Counts one reader less; the last one lets the parts go."""
        with self._lock:
            self._readers -= 1
            is_over = not self._readers
        if is_over:
            for snapshot in self.snapshots.values():
                snapshot.release()


class ShownGroup:
    """One group at this server. Thread-safe."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.RLock()
        self._shown_changed = threading.Condition(self._lock)
        self._members: dict[str, Member] = {}
        self._definition: LinkGroup | None = None
        self._view: ShownView | None = None
        self._times: dict[int, int] = {}
        """The times of cuts that are carried out, by place."""

    @property
    def roots(self) -> set[str]:
        """The roots of its tables on this server."""
        with self._lock:
            return set(self._members)

    @property
    def shown_place(self) -> int:
        """The place of the cut that is shown; 0 for none."""
        return self._view.place if self._view is not None else 0

    @property
    def shown_ms(self) -> int:
        """The time at the source when the cut that is shown was asked for; 0 for none."""
        return self._view.commit_ms if self._view is not None else 0

    def shows(self, group: LinkGroup) -> bool:
        """Tells whether the group's last cut is shown, of all tables that have entered."""
        view = self._view
        place, tables = (view.place, view.snapshots.keys()) if view is not None else (0, set[str]())
        return place >= group.place and {m.path for m in group.members if m.joined} <= tables

    @property
    def definition(self) -> LinkGroup | None:
        """The group as ZooKeeper had it last; ``None`` before it was read."""
        return self._definition

    def set_definition(self, definition: LinkGroup) -> None:
        """Takes note of the group's definition."""
        with self._lock:
            if self._definition is not None and self._definition.uuid != definition.uuid:
                self._drop_view()
            self._definition = definition
            self._times[definition.place] = definition.commit_ms

    def is_told(self, root: str) -> bool:
        """Whether others are told which cut this server shows of a table."""
        definition = self._definition
        return definition is not None and definition.is_told(root)

    def find_told(self, root: str) -> ToldCut | None:
        """Returns what others are told of a table; ``None`` for nothing new."""
        with self._lock:
            definition, view = self._definition, self._view
            if definition is None or view is None or root not in view.snapshots or not definition.is_told(root):
                return None
            return ToldCut(definition.uuid, view.place)

    def hide(self) -> None:
        """Shows no cut until all tables are looked at again."""
        with self._lock:
            self._drop_view()

    def add(self, member: Member) -> None:
        """Adds a table of this server."""
        with self._lock:
            self._members[member.root] = member

    def remove(self, member: Member) -> bool:
        """Removes a table, and returns whether it was the last."""
        with self._lock:
            if self._members.get(member.root) is member:
                del self._members[member.root]
            if not self._members:
                self._drop_view()
            return not self._members

    def _drop_view(self) -> None:
        view, self._view = self._view, None
        if view is not None:
            view.give_up()

    # -- cuts ---------------------------------------------------------------------------------------------------------

    def admit(self, member: Member, marks: Sequence[CutMark]) -> bool:
        """Tells whether a table may carry out these cuts in one step; they count as begun if so."""
        with self._lock:
            definition = self._definition
            if definition is None:
                return False
            for mark in marks:
                if mark.group != definition.uuid:  # of a group that is no more, or is made anew and not known yet
                    member.note_touched(mark.group, mark.place)
            marks = [mark for mark in marks if mark.group == definition.uuid]
            if not marks:
                return True
            own = member.read_progress(definition.uuid)
            if not may_carry_out(marks[0], own, self._read(definition.uuid), self.shown_place):
                return False
            member.note_touched(definition.uuid, marks[-1].place)
            self._times.update((mark.place, mark.commit_ms) for mark in marks)
            return True

    def _read(self, uuid: str) -> list[TableProgress]:
        return [member.read_progress(uuid) for member in self._members.values()]

    def show_if_possible(self) -> None:
        """Shows the cut at which all tables are, if they are at one."""
        with self._lock:
            definition = self._definition
            if definition is None or self._lacks_member(definition):
                return
            progress = {root: member.read_progress(definition.uuid) for root, member in self._members.items()}
            place, joined = (
                find_showable(list(progress.values())),
                {r for r, each in progress.items() if each.has_joined},
            )
            former = self._view
            if place is not None and (former is None or place > former.place or joined != former.snapshots.keys()):
                snapshots = {root: self._members[root].take_snapshot() for root in sorted(joined)}
                self._view = ShownView(definition.format_cut(place), place, self._times.get(place, 0), snapshots)
                self._times = {cut: time for cut, time in self._times.items() if cut >= place}
                if former is not None:
                    former.give_up()
                self._shown_changed.notify_all()
            members = list(self._members.values())
        for member in members:
            member.wake()

    def _lacks_member(self, definition: LinkGroup) -> bool:
        return any(member.joined and member.path not in self._members for member in definition.members)

    # -- readers ------------------------------------------------------------------------------------------------------

    def take(self, table: str) -> ShownView:
        """Returns the view that is shown, held.

        Raises 369 (ALL_REPLICAS_ARE_STALE), naming the ``table``, if none is.
        """
        with self._lock:
            if self._view is None:
                raise make_hidden_error(table, self.name, self.explain())
            self._view.hold()
            return self._view

    def wait_until_shown(self, place: int, seconds: float, wait_for: WaitFor) -> bool:
        """Waits until a cut at or behind the place is shown; tells whether it is.

        ``wait_for`` is that of ``TableServices``.
        """
        with self._lock:
            return wait_for(self._shown_changed, lambda: self.shown_place >= place, seconds)

    def explain(self) -> str:
        """Says why no cut is shown, or how far the tables are."""
        with self._lock:
            definition = self._definition
            if definition is None:
                return "the group was not read from ZooKeeper since the server started"
            missing = [m.table for m in definition.members if m.joined and m.path not in self._members]
            if missing:
                return f"table {', '.join(missing)} of the group is not on this server"
            told = []
            for member in self._members.values():
                each = member.read_progress(definition.uuid)
                if not each.has_joined:
                    told.append(f"{member.name} has not entered with a cut")
                else:
                    told.append(f"{member.name} is at {each.at}" + ("" if each.is_ready else " and lacks parts"))
            return "; ".join(told) or "it has no tables here"


class GroupRegistry:
    """The groups of one server, by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[str, ShownGroup] = {}
        self.on_change: Callable[[str, str], None] = lambda root, group: None
        """Called with a table's root and its group when it enters one, and "" when it leaves."""

    def enter(self, name: str, member: Member) -> ShownGroup:
        """Adds a table to a group."""
        with self._lock:
            group = self._groups.setdefault(name, ShownGroup(name))
            group.add(member)
        self.on_change(member.root, name)
        return group

    def leave(self, group: ShownGroup, member: Member) -> None:
        """Takes a table out of a group."""
        with self._lock:
            if group.remove(member) and self._groups.get(group.name) is group:
                del self._groups[group.name]
        self.on_change(member.root, "")

    def find(self, name: str) -> ShownGroup | None:
        """Returns a group of which this server has a table."""
        return self._groups.get(name)


def make_hidden_error(table: str, group: str, why: str) -> UnavailableError:
    """Returns the error for a table that is not at its group's cut on this server."""
    return UnavailableError(
        "ALL_REPLICAS_ARE_STALE",
        f"Table {table} is in the transactional group {group} of links, and is not at a cut of all its tables on this "
        f"server: {why}. Ask another replica, or wait",
    )
