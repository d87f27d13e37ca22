"""Tables of three clusters that take INSERTs, keep places of rows from some moment on, and commands of the first one.

Everything takes several steps: an INSERT and a command take a number and commit later, the vector of a command is read
before. Streams, batches, reaches and marks are the real functions. What a command touches at a table is known when all
is over: no part is merged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations

from coordination.links.commands import (
    NO_REACH,
    explain_unreached,
    find_marks,
    list_unready,
    make_reach,
    with_marks,
)
from coordination.links.positions import Position
from coordination.links.stream.carried_changes import is_batch, read_carried_changes
from coordination.links.stream.change import Change
from coordination.links.stream.change_stream import LogRecord, MutationRecord, Reading
from coordination.links.stream.frontier import Frontier, Lock, LockKind, Observation, find_frontier
from coordination.links.version_vector import VersionVector
from coordination.log.log_entry import EntryType, LogEntry
from coordination.merges_mutations.mutation_set import MutationEntry
from coordination.nodes.gate import Gate
from coordination.nodes.gate_commands import CommandSource
from parts.common.command_reach import CommandReach, add_reach, find_reach
from parts.common.part_name import PartName
from tests.links.source_model import make_origin
from tests.links.target_model import ModelTarget

TEXT = "format version: 1\ndatabase: d\ntimezone: UTC\ncommands: DELETE WHERE {}\n"
LINKS = tuple(permutations(range(3), 2))


@dataclass
class Open:
    """An INSERT or a command that has its number and is not committed."""

    name: str
    number: int
    reach: CommandReach | None = None


@dataclass(frozen=True)
class Rules:
    """The rules of the design, each of which may be left out."""

    reads_before: bool = True
    """The vector is read before the command takes its number, not when it commits."""
    counts_at_home: bool = True
    """The reach counts at the cluster that gave the command, too."""
    waits: bool = True
    """Commands wait for the marks of all clusters."""
    checks_marks: bool = True
    """A table refuses a command that does not reach its own rows without places."""


class CommandTable(ModelTarget):
    """One cluster's table."""

    def __init__(self, digit: int, rules: Rules) -> None:
        super().__init__(make_origin(digit))
        self.rules = rules
        self.open: list[Open] = []
        self.reach: CommandReach | None = None
        """The vector as the next command has read it."""
        self.gate = Gate(str(self.origin.epoch))
        self.keeps_from = 0
        """The zxid behind which commits have places; 0: none has."""

    @property
    def newest(self) -> int:
        return max([record.zxid for record in (*self.log, *self.mutations)], default=0)

    def begin(self, origin: object) -> int:  # links are from the beginning
        return 0

    # -- what clients do ----------------------------------------------------------------------------------------------

    def take_insert(self, name: str) -> None:
        self.open.append(Open(name, self._take_numbers("p", 1)))

    def commit(self, item: Open) -> None:
        self.open.remove(item)
        self.zxid += 1
        part = PartName("p", item.number, item.number, 0)
        entry = LogEntry(EntryType.GET_PART, part, 2.0, "t1", block_id=item.name, content_hash=item.name, rows=1)
        self.log.append(LogRecord(self.zxid, self.zxid, entry))

    def keep_places(self) -> None:
        """The gate moves, then the mark is written."""
        self.zxid += 1
        self.keeps_from = self.zxid
        commands = CommandSource("west", f"{self.origin.cluster}.{self.origin.table}")
        former = self.gate.commands
        commands = commands.with_began({str(self.origin): self.zxid, **(former.began if former else {})})
        self.gate = self.gate.with_commands(commands)
        self._mutate(add_reach(TEXT.format("0"), NO_REACH), {})

    def list_unready(self) -> list[str]:
        assert self.gate.commands is not None
        peers = [make_origin(digit).cluster for digit in (2, 3)]
        return list_unready(self.gate.commands, self.origin, VersionVector.parse(self.vector), peers, {})

    def read_vector(self) -> None:
        self.reach = make_reach(self.origin, self.newest, VersionVector.parse(self.vector))

    def take_command(self, name: str) -> None:
        self.open.append(Open(name, self._take_numbers("p", 1), self.reach))
        self.reach = None

    def commit_command(self, item: Open) -> None:
        """Lower numbers are given up first, as a mutation of a linked table does."""
        self.open.remove(item)
        for lower in [each for each in self.open if each.number < item.number]:
            lower.number = self._take_numbers("p", 1)
        if not self.rules.reads_before:
            self.read_vector()
            item.reach, self.reach = self.reach, None
        assert item.reach is not None
        self._mutate(add_reach(TEXT.format(item.name), item.reach), {"p": item.number})

    def _mutate(self, text: str, numbers: dict[str, int]) -> None:
        self.zxid += 1
        entry = MutationEntry(f"{len(self.mutations):010d}", 2.0, "t1", text, numbers)
        self.mutations.append(MutationRecord(self.zxid, self.zxid, entry))

    # -- what links do ------------------------------------------------------------------------------------------------

    def observe(self) -> Observation:
        reading = Reading(tuple(self.log), tuple(self.mutations))
        kinds = [(each, LockKind.BLOCK if each.reach is None else LockKind.COMMAND) for each in self.open]
        locks = tuple(Lock("p", each.number, kind) for each, kind in kinds)
        return Observation(reading, locks, frozenset(), frozenset(), reading)

    def last_own(self, zxid: int) -> int:
        own = [record.zxid for record in self.log if not is_batch(record.entry)]
        batches = {record.zxid for record in self.log if is_batch(record.entry)}
        own += [record.zxid for record in self.mutations if record.zxid not in batches]
        return max((each for each in own if each <= zxid), default=0)

    def refuses(self, changes: list[Change]) -> bool:
        reaches = [find_reach(m.text) for change in changes for m in change.mutations if m.numbers]
        if not reaches:
            return False
        if self.gate.commands is None or not self.gate.own_origin:
            return True
        if not self.rules.checks_marks:
            return False
        return any(explain_unreached(self.gate.commands, self.origin, reach) for reach in reaches if reach is not None)

    def bring(self, changes: list[Change], end: Position) -> None:
        if self.is_stopped(changes) or self.refuses(changes):
            return
        self.take(changes, end)
        if marks := find_marks(changes):
            self.gate = self.gate.with_commands(with_marks(self.gate, marks))

    # -- what is there ------------------------------------------------------------------------------------------------

    def list_places(self) -> dict[str, tuple[int, tuple[str, int] | None]]:
        """By row its number here, and its place, ``None`` for a row that is older than places here."""
        found: dict[str, tuple[int, tuple[str, int] | None]] = {}
        for record in self.log:
            keeps = 0 < self.keeps_from < record.zxid
            if not is_batch(record.entry):
                place = (str(self.origin), record.zxid) if keeps else None
                for part, name in record.entry.content_hashes.items():
                    found[name] = (part.max_block, place)
                continue
            for change in read_carried_changes(record.entry, record.zxid):
                for block in change.blocks:
                    position = (str(change.position.origin), change.position.zxid)
                    found[block.content_hash] = (block.part.max_block, position if keeps else None)
        return found

    def list_touched(self) -> dict[str, set[str]]:
        """By command the rows that it touches here."""
        rows, found = self.list_places(), {}
        for record in self.mutations:
            number, reach = record.mutation.numbers.get("p"), find_reach(record.mutation.text)
            if number is None or reach is None:
                continue
            at_home = self.origin == make_origin(1) and not self.rules.counts_at_home
            found[record.mutation.text] = {
                name
                for name, (own, place) in rows.items()
                if own < number and (place is None or at_home or reach.covers(*place))
            }
        return found


class CommandMesh:
    """The tables, with links between any two of them. The first one takes the commands."""

    def __init__(self, rules: Rules = Rules(), links: tuple[tuple[int, int], ...] = LINKS) -> None:
        self.rules, self.links = rules, links
        self.tables = [CommandTable(digit, rules) for digit in (1, 2, 3)]
        self.inserted = [0, 0, 0]
        self.commands = 0

    def actions(self) -> list[Callable[[], object]]:
        """What may happen next."""
        found: list[Callable[[], object]] = []
        for index, table in enumerate(self.tables):
            if self.inserted[index] < 3:
                found.append(lambda i=index: self._insert(i))
            if not table.keeps_from:
                found.append(table.keep_places)
            for item in table.open:
                is_insert = item.reach is None and not item.name.startswith("command")
                found.append(lambda t=table, i=item, c=is_insert: t.commit(i) if c else t.commit_command(i))
        home = self.tables[0]
        is_open = any(item.name.startswith("command") for item in home.open)
        if home.keeps_from and self.commands < 2 and not is_open:
            if home.reach is not None or not self.rules.reads_before:
                found.append(self._command)
            elif not self.rules.waits or not home.list_unready():
                found += [home.read_vector] * 2
        found += [lambda a=a, b=b: self.pull(a, b) for a, b in self.links]
        found += [lambda a=a, b=b: self.pull(a, b, at_most=1) for a, b in self.links]
        return found

    def _insert(self, index: int) -> None:
        self.tables[index].take_insert(f"row{index}-{self.inserted[index]}")
        self.inserted[index] += 1

    def _command(self) -> None:
        self.tables[0].take_command(f"command{self.commands}")
        self.commands += 1

    def _stream(self, giver: int, taker: int) -> Frontier:
        table = self.tables[giver]
        place = self.tables[taker].applied(table.origin)
        return find_frontier(table.observe(), table.origin, after=place, previous=table.last_own(place))

    def pull(self, giver: int, taker: int, at_most: int = 10) -> None:
        """Takes a batch up to one of the first cuts."""
        stream = self._stream(giver, taker)
        place = self.tables[taker].applied(self.tables[giver].origin)
        cuts = [cut for cut in stream.cuts if cut > place]
        if cuts:
            cut = cuts[:at_most][-1]
            changes = [change for change in stream.changes if change.place <= cut]
            self.tables[taker].bring(changes, Position(self.tables[giver].origin, cut))

    def settle(self) -> str | None:
        """Ends what is open, brings everything everywhere; returns what differs then."""
        for table in self.tables:
            if not table.keeps_from:
                table.keep_places()
            for item in list(table.open):
                if item.name.startswith("command"):
                    table.commit_command(item)
            for item in list(table.open):
                table.commit(item)
        for _ in range(40):
            for giver, taker in self.links:
                self.pull(giver, taker)
        return self.explain_difference()

    def explain_difference(self) -> str | None:
        """Compares what the commands touch at the tables that have them."""
        found = [table.list_touched() for table in self.tables]
        for text, at_home in found[0].items():
            for index, other in enumerate(found[1:], 1):
                if text in other and other[text] != at_home:
                    return f"{text.splitlines()[-1]} touches {sorted(at_home)} at 0, {sorted(other[text])} at {index}"
        return None
