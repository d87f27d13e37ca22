"""Keeps the changes of a linked table in this replica's journal.

A replica keeps from the moment at which it sees that the gate names links, in either direction, until no link is left.

Invariants:

- While it keeps, ``log_pointer`` moves behind an entry only when the journal has it, durably. A mutation is known here
  only when the journal has it.
- The journal has everything after its first position. A replica begins anew when it cannot be sure of that: in another
  period of links, after a clone, or if its log pointer has passed entries that the journal lacks.
- Locks are taken in the order: a pull, the mutations that are known, this object.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from coordination.keeper.interface import Keeper, Stat
from coordination.links.stream.kept_changes import KeptChanges
from coordination.log.log_entry import LogEntry
from coordination.nodes.deletion import delete_if_present
from coordination.nodes.paths import parse_sequence_number
from coordination.replicas.log_pull import KeepEntries, PulledEntry, read_log_pointer
from engine.link_store.journal import JOURNAL_FOLDER, Journal
from engine.link_store.journal_retention import JournalRetention
from engine.link_store.journal_segment import JournalRecord, RecordKind
from engine.link_store.outbox_retention import RetentionLimits
from engine.tables.replicated.links.source.block_keeping import BlockKeeping
from engine.tables.replicated.links.source.journal_records import get_named_part, make_log_record, make_record
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import CorruptionError, UnavailableError
from parts.common.part_name import PartName

logger = logging.getLogger(__name__)

SCAN_BYTES = 256 * 1024
"""The most bytes of records that a scan of the journal reads at once."""


class KeptLog(Protocol):
    """The pull of the log, which hands over what it reads."""

    keep: KeepEntries | None

    def resting(self) -> AbstractContextManager[None]:
        """Keeps pulls from running while the block is."""


class ChangeKeeping:
    """The journal of one replica, and what fills it."""

    def __init__(self, state: ReplicaState, log: KeptLog, blocks: BlockKeeping) -> None:
        self._state = state
        self._log = log
        self._blocks = blocks
        blocks.has_long_journal, blocks.trim_journal = self._has_long_journal, self._trim
        self.journal = Journal(state.definition.data_path / JOURNAL_FOLDER)
        self._lock = threading.Lock()
        self._is_loaded = False
        self._has_hole = False
        """Whether the journal may lack changes that were read here: the next attempt begins it anew."""
        self._kept: KeptChanges | None = None
        """What this replica's node says, while it keeps."""
        self._retention = JournalRetention()
        self._last_index = -1
        """The largest index of a log entry in the journal."""
        self._last_entry = 0
        """The zxid of that entry."""
        self._known: set[str] = set()
        """Names of nodes that have no pointer and are in the journal."""
        self.failed_parts: set[PartName] = set()
        """The parts whose failed quorum is in the journal."""
        self.appended = 0
        """How often the journal has grown."""
        self._waiting: set[threading.Event] = set()
        """Set when it has, and forgotten."""

    @property
    def is_keeping(self) -> bool:
        """Whether the replica keeps changes now."""
        return self._kept is not None

    @property
    def missing_blocks(self) -> int:
        """How many kept blocks are not in this replica's outbox yet."""
        return self._blocks.missing_blocks

    @property
    def period(self) -> int:
        """The period of links whose changes it keeps; 0 for none."""
        kept = self._kept
        return kept.period if kept is not None else 0

    @property
    def since(self) -> int:
        """The zxid after which it keeps changes; 0 if it does not."""
        kept = self._kept
        return kept.since if kept is not None else 0

    # -- beginning and ending -------------------------------------------------------------------------------------

    def begin_session(self, keeper: Keeper) -> None:
        """Goes on as the gate says, at the start of a session and before its first pull."""
        with self._log.resting(), self._lock:
            self._log.keep = self._state.mutations.keep = self._kept = None
        self._follow_gate(keeper, is_pulling=False)

    def follow_gate(self, keeper: Keeper) -> None:
        """Begins or ends keeping, as the gate says that was read last.

        The replica must be active.
        """
        self._follow_gate(keeper, is_pulling=True)

    def _follow_gate(self, keeper: Keeper, *, is_pulling: bool) -> None:
        """``is_pulling``: after an error changes are read that nobody keeps."""
        gate = self._state.gate.gate
        if gate is None or not gate.periods or (gate.links and self.period == gate.periods):
            return
        with self._log.resting(), self._lock:
            gate = self._state.gate.gate or gate  # another thread may have followed a later one meanwhile
            if gate.links and self.period == gate.periods:
                return
            if not gate.links:
                self._end(keeper)
                return
            self._load()
            try:
                self._continue_or_begin(keeper, gate.periods)
            except BaseException:
                self._log.keep = self._state.mutations.keep = self._kept = None
                self._has_hole |= is_pulling
                raise
        self.read_late_nodes(keeper)

    def forget(self) -> None:
        """Removes the journal: what the replica becomes a clone of has gone past it."""
        with self._log.resting(), self._lock:
            self._stop()
            self.journal.remove()

    def close(self) -> None:
        """Closes the journal's file, when the table stops."""
        self.journal.close()

    def _load(self) -> None:
        if self._is_loaded:
            return
        try:
            self._blocks.load()  # first: they stay if the journal is damaged
            if torn := self.journal.load():
                logger.info("the journal of %s ended with %s bytes of a crash", self._state.definition.full_name, torn)
            self._scan()
        except CorruptionError as error:
            logger.exception("the journal of %s begins anew: %s", self._state.definition.full_name, error)
            self.journal.remove()
        self._is_loaded = True

    def _scan(self) -> None:
        """Finds what the journal has: its last log entry, and the blocks that the outbox may lack."""
        self._forget_known()
        if not self.journal.is_begun:
            return
        after, is_last = self.journal.first_position, False
        while not is_last:
            page = self.journal.read(after, SCAN_BYTES)
            self._note(page.records)
            is_last = page.is_last
            after = page.records[-1].zxid if page.records else after

    def _forget_known(self) -> None:
        self._last_index, self._last_entry, self._known, self.failed_parts = -1, 0, set(), set()
        self._retention = JournalRetention()

    def _note(self, records: Sequence[JournalRecord], entries: Sequence[LogEntry] | None = None) -> None:
        logged = [record for record in records if record.kind is RecordKind.LOG_ENTRY]
        parsed = entries if entries is not None else [LogEntry.parse(record.content) for record in logged]
        for record in records:
            if record.kind is RecordKind.LOG_ENTRY:
                place = parse_sequence_number(record.name), record.zxid
                self._last_index, self._last_entry = max((self._last_index, self._last_entry), place)
            elif record.kind is not RecordKind.MUTATION:
                self._known.add(record.name)
                if record.kind is RecordKind.FAILED_QUORUM:
                    self.failed_parts.add(get_named_part(record))
        self._blocks.want(zip(logged, parsed, strict=True))

    def _continue_or_begin(self, keeper: Keeper, period: int) -> None:
        state, path = self._state, self._state.replica.link_keeping
        answer, session = keeper.get_many([path, state.replica.is_active])
        if session is not None:
            self._blocks.ages.note_time(session[1].modified_ms)
        kept = KeptChanges.parse(answer[0]) if answer is not None else None
        pointer, _ = read_log_pointer(keeper, state.replica)
        is_whole = (
            kept is not None
            and kept.period == period
            and kept.since > 0
            and self.journal.is_begun
            and not self._has_hole
            and max(self._last_index + 1, kept.pointer) >= pointer
        )
        self._log.keep, state.mutations.keep = self.keep_entries, self.keep_mutations
        if is_whole:
            self._kept, self._known = kept, set()  # a crash may have come before the others were told
            return
        beginning = KeptChanges(period)
        if answer is None:
            keeper.create(path, beginning.to_bytes())
        since = keeper.set(path, beginning.to_bytes()).modified_zxid
        self.journal.begin_anew(since)
        self._blocks.begin_anew(keeps_outbox=kept is not None and kept.period == period)
        self._has_hole = False
        self._forget_known()
        state.services.failpoint("links.after_beginning")
        begun = KeptChanges(period, since, pointer)
        keeper.set(path, begun.to_bytes())
        self._kept = begun
        logger.info("table %s keeps its changes after zxid %s for its links", state.definition.full_name, since)

    def _stop(self) -> None:
        self._log.keep = self._state.mutations.keep = None
        self._kept = None
        self._forget_known()

    def _end(self, keeper: Keeper) -> None:
        self._stop()
        self.journal.remove()
        self._blocks.end()
        delete_if_present(keeper, self._state.replica.link_keeping)

    # -- what comes -----------------------------------------------------------------------------------------------

    def keep_entries(self, pulled: Sequence[PulledEntry]) -> None:
        """Writes log entries into the journal. Raises ``OSError``: then the pointer stays."""
        self._state.services.failpoint("links.before_journal")
        with self._lock:
            records = [make_log_record(each.index, each.data, each.stat) for each in pulled]
            self._append(records, [each.entry for each in pulled])
        self._state.services.failpoint("links.after_journal")

    def keep_mutations(self, nodes: Mapping[str, tuple[bytes, Stat]]) -> None:
        """Writes mutations into the journal, before they are known."""
        with self._lock:
            if self._kept is not None:
                records = [
                    make_record(RecordKind.MUTATION, f"mutations/mutation-{id_}", data, stat)
                    for id_, (data, stat) in nodes.items()
                ]
                self._append(records)

    def read_late_nodes(self, keeper: Keeper) -> None:
        """Writes definitions, failed quorums and losses into the journal, and tells the others so."""
        if self._kept is None:
            return
        paths = self._state.paths
        self._read_list(keeper, RecordKind.DEFINITION, paths.linked.definitions, "definitions")
        self.read_failures(keeper)
        self._read_list(keeper, RecordKind.LOSS, paths.lost_blocks, "")

    def read_failures(self, keeper: Keeper) -> None:
        """Writes failed quorums into the journal that it lacks, and tells the others so."""
        self._read_list(keeper, RecordKind.FAILED_QUORUM, self._state.paths.quorum_failed_parts, "failures")

    def read_definitions(self, keeper: Keeper) -> None:
        """Writes definitions into the journal that it lacks, and tells the others so."""
        self._read_list(keeper, RecordKind.DEFINITION, self._state.paths.linked.definitions, "definitions")

    def _read_list(self, keeper: Keeper, kind: RecordKind, parent: str, told: str) -> None:
        if self._kept is None:
            return
        relative = parent.removeprefix(f"{self._state.paths.root}/")
        names = [name for name in keeper.children_many([parent])[0] or [] if f"{relative}/{name}" not in self._known]
        if not names:
            return
        answers = keeper.get_many([f"{parent}/{name}" for name in names])
        records = [
            make_record(kind, f"{relative}/{name}", answer[0], answer[1])
            for name, answer in zip(names, answers, strict=True)
            if answer is not None
        ]
        with self._lock:
            if self._kept is None or not records:
                return
            self._append(records)
            newest = max(record.zxid for record in records)
            if told and newest > max(self._kept.since, getattr(self._kept, told)):
                kept = self._kept.having(told, newest)
                try:
                    keeper.set(self._state.replica.link_keeping, kept.to_bytes())
                except BaseException:
                    self._known.difference_update(record.name for record in records)  # they are told next time
                    raise
                self._kept = kept

    def _append(self, records: Sequence[JournalRecord], entries: Sequence[LogEntry] | None = None) -> None:
        self.journal.append(records)
        self._note(records, entries)
        self.appended += 1
        self._state.services.link_news.grow()
        waiting, self._waiting = self._waiting, set()
        for event in waiting:
            event.set()

    # -- what is there --------------------------------------------------------------------------------------------

    def _has_long_journal(self) -> bool:
        return self._kept is not None and self.journal.get_statistics().segments > 1

    def _trim(self, released: int | None, limits: RetentionLimits) -> None:
        """Trims the journal behind the blocks that went, and what needs no blocks by its age.

        The newest log entry stays: a start finds by it that the journal has all that was pulled.
        """
        if self._kept is None:
            return
        facts, now = self.journal.get_statistics(), self._state.services.monotonic()
        end = max(
            self._blocks.outbox.get_statistics().trimmed_position,
            self._retention.find_end(released, facts.last_position, limits, now),
        )
        if self._last_entry:
            end = min(end, self._last_entry - 1)
        if end > facts.first_position:
            self.journal.trim(end)

    def require_journal(self) -> Journal:
        """Returns the journal. Raises 242 (TABLE_IS_READ_ONLY) if the replica does not keep changes."""
        if self._kept is None:
            name = self._state.definition.full_name
            raise UnavailableError(
                "TABLE_IS_READ_ONLY", f"Table {name} keeps no changes here: it has no links, or starts"
            )
        return self.journal

    def wait_for_news(self, seen: int, seconds: float) -> None:
        """Waits until the journal has grown since ``appended`` was ``seen``, at most this long."""
        event = threading.Event()
        with self._lock:
            if self.appended != seen:
                return
            self._waiting.add(event)
        try:
            self._state.services.wait(event, seconds)
        finally:
            with self._lock:
                self._waiting.discard(event)
