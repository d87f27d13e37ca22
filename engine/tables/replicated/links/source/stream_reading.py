"""Reads a table's change stream: what is decided by now, and the next page of it.

The reads have the order of :class:`coordination.links.stream.frontier.Observation`. The journal takes part in them: a
pull puts the log into it, a load of the mutations these. What lies at or below a frontier is decided for ever. So only
what lies behind the last frontier is looked at anew; an index remembers where the rest is. The first look after a start
may go through the whole journal: it does so page by page.

Invariants: one reading runs at a time; the index is of the journal's present beginning.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from coordination.inserts.block_numbers import read_committing_numbers, read_lock_kinds
from coordination.inserts.partition_nodes import read_partition_nodes
from coordination.inserts.quorum import read_failed_parts, read_pending_quorums
from coordination.keeper.interface import Keeper
from coordination.links.positions import MAX_ZXID, Origin, Position
from coordination.links.stream.change import Change
from coordination.links.stream.change_stream import Reading, build_changes
from coordination.links.stream.frontier import FrontierSearch, Lock, Observation, find_frontier, select_undecided
from coordination.links.stream.kept_changes import read_kept_changes
from coordination.links.stream.own_origins import OwnOrigins, list_former
from coordination.links.stream.stable_times import Marks, read_marks
from coordination.links.stream.stream_index import ChangeFigures, StreamIndex
from coordination.links.switching.lineage import Lineage
from coordination.links.version_vector import VersionVector
from engine.link_store.journal import Journal, PositionTrimmedError
from engine.link_store.journal_segment import JournalRecord
from engine.tables.capabilities.table_links import ChangesAnswer, ChangesRequest, SourceTable
from engine.tables.replicated.links.source.block_source import BlockSource
from engine.tables.replicated.links.source.change_keeping import SCAN_BYTES, ChangeKeeping
from engine.tables.replicated.links.source.journal_records import ParsedRecords, parse_records
from engine.tables.replicated.links.source.source_description import SourceDescription, TableLook
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import UserError
from parts.common.part_name import PartName

_PAGE_BYTES = 128 * 1024
"""The most bytes of records that are read at once for a page, most of which are then on it."""
MAX_PAGE_CHANGES = 1000
"""The most changes on a page. One batch of a target takes no more: its log entry has at most 512 KiB."""
_UNREAD = -2
_PLAIN = "Ordinary"
"""The merge mode that keeps all rows. In the others the order of blocks may decide which row stays."""


@dataclass(frozen=True, slots=True)
class StreamOfTable:
    """The change stream that a journal has."""

    origin: Origin
    own: OwnOrigins
    begin: int
    """The journal has everything behind it."""
    end: int
    """The frontier."""
    changes: tuple[Change, ...]
    cuts: tuple[int, ...]
    vector: VersionVector
    """The table's."""
    waits: tuple[str, ...]
    """What holds the frontier back."""
    lineage: Lineage


class StreamReading:
    """The change stream of one replica."""

    scan_bytes = SCAN_BYTES
    """The most bytes of records behind the frontier that are in memory at once."""

    def __init__(
        self, state: ReplicaState, keeping: ChangeKeeping, blocks: BlockSource, pull: Callable[[Keeper], None]
    ) -> None:
        """``pull`` reads the log into the queue, and so into the journal."""
        self._state = state
        self._keeping = keeping
        self._blocks = blocks
        self._pull = pull
        self._description = SourceDescription(state)
        self._lock = threading.Lock()
        self._index: StreamIndex | None = None
        self._index_of: tuple[int, OwnOrigins] | None = None
        """The period of links and the origin that the index is of."""
        self._failed: set[PartName] = set()
        """All parts of the journal whose quorum failed."""
        self._waits: tuple[str, ...] = ()
        self._seen = 0
        """The newest zxid that the last observation took for decided."""
        self._read_since, self._read_lists = -1, list[int]()
        """Which journal has what was read of the log, the mutations and the definitions, and their versions then."""
        self._quiet: tuple[int, ...] | None = None
        """What a look found of the table's lists before everything up to the frontier was decided."""

    def list_locks(self, keeper: Keeper) -> frozenset[tuple[str, int]]:
        """Returns partition and number of everything that is being committed."""
        partitions = list(read_partition_nodes(keeper, self._state.paths))
        found = read_committing_numbers(keeper, self._state.paths, partitions)
        return frozenset((partition_id, number) for partition_id, numbers in found.items() for number in numbers)

    def read_frontier(self, keeper: Keeper, floor: int, look: TableLook | None = None) -> int:
        """Returns the last place of all at which a batch may end.

        ``floor``: the zxid of something in this ZooKeeper that was written before the call, and before ``look``.
        """
        with self._lock:
            if look is None:
                keeper.sync(self._state.paths.root)
            return self._advance(keeper, floor, look)[0].end

    def measure_behind(self, keeper: Keeper, after: int) -> int:
        """Returns the bytes between a place and the frontier."""
        with self._lock:
            keeper.sync(self._state.paths.root)
            return self._advance(keeper)[0].find_page(after, 1, 1, 1).bytes_behind

    def last_cut(self, place: int) -> int:
        """Returns the last place at or below ``place`` at which a batch may end.

        The frontier is there already.
        """
        with self._lock:
            assert self._index is not None, "the frontier was read before"
            return self._index.last_cut(min(place, self._index.end))

    def find_page_end(self, after: int, max_rows: int, max_bytes: int) -> int:
        """Returns the last place at which a batch behind ``after`` ends within the limits, at least the first."""
        with self._lock:
            assert self._index is not None, "the frontier was read before"
            return self._index.find_page(after, max_rows, max_bytes, MAX_PAGE_CHANGES).end

    def read_until(self, keeper: Keeper, request: ChangesRequest, place: int, look: TableLook) -> ChangesAnswer:
        """Returns all changes behind the request's vector up to a cut at or below the frontier.

        ``look`` came behind ``place``. Raises as :meth:`read`.
        """
        with self._lock:
            journal = self._keeping.require_journal()
            source = self._description.describe_look(look, place)
            index, after = self._find_index(journal, _own_origins(source)), request.vector.applied(source.origin)
            if after < journal.first_position:
                raise PositionTrimmedError(after, journal.first_position)
            if not index.is_cut(after) or not index.is_cut(place) or place > index.end:
                raise UserError("BAD_ARGUMENTS", f"No batch of table {source.table} is from zxid {after} to {place}")
            changes = self._read_page(journal, index, _own_origins(source), after, place)
            behind, waits = index.find_page(after, 1, 1, 1), self._waits
            changes = self._select_present(keeper, source, changes)
        wanted = [change for change in changes if not request.vector.covers(change.position)]
        blocks = tuple(self._blocks.mark_lost(keeper, wanted))
        return ChangesAnswer(source, blocks, (place,), place, waits, 0, behind.rows_behind, behind.bytes_behind)

    def read(self, keeper: Keeper, request: ChangesRequest) -> ChangesAnswer:
        """Returns the next page behind the request's vector. The caller has synchronized with ZooKeeper.

        Raises ``PositionTrimmedError``, and 36 (BAD_ARGUMENTS) for a place at which no batch ends.
        """
        with self._lock:
            has_versions = self._state.description.merge_mode.has_row_versions
            marks = read_marks(keeper, self._state.paths) if has_versions else Marks()
            index, source = self._advance(keeper, marks.zxid)
            journal = self._keeping.require_journal()
            after = request.vector.applied(source.origin)
            if after > index.end:
                index, source = self._advance(keeper, self._find_beginnings(keeper))
            present = 0
            if after > index.end:  # a cut of a group may be where another table committed
                present = self._find_moment(keeper)
                index, source = self._advance(keeper, present)
            if after < journal.first_position:
                raise PositionTrimmedError(after, journal.first_position)
            if not index.is_cut(after):
                raise UserError(
                    "BAD_ARGUMENTS",
                    f"Zxid {after} of table {source.database}.{source.table} lies between a command and what belongs "
                    "before it: no batch ends there, and no link begins",
                )
            page = index.find_page(after, request.max_rows, request.max_bytes, MAX_PAGE_CHANGES)
            changes = self._read_page(journal, index, _own_origins(source), after, page.end)
            changes = self._select_present(keeper, source, changes)
            waits, newest = self._waits, max(index.end, min(after, present))
        wanted = [change for change in changes if not request.vector.covers(change.position)]
        return ChangesAnswer(
            source,
            tuple(self._blocks.mark_lost(keeper, wanted)),
            page.cuts,
            newest,
            waits,
            0,
            page.rows_behind,
            page.bytes_behind,
            stable=marks.times if newest >= marks.zxid else {},
        )

    def _find_beginnings(self, keeper: Keeper) -> int:
        """Returns the largest zxid at which a link may have begun without a commit there.

        That is where a link was registered, where the last replica began to keep changes, or where another link wrote
        the vector.
        """
        paths = self._state.paths
        registered = keeper.get(paths.gate)[1].modified_zxid
        kept = read_kept_changes(keeper, paths, keeper.children(paths.replicas)).values()
        return max(registered, self._description.read_vector(keeper)[1], *(each.since for each in kept))

    def _find_moment(self, keeper: Keeper) -> int:
        """Returns the zxid of a write that is made now."""
        path = keeper.create(self._state.paths.linked.moment_prefix, ephemeral=True, sequential=True)
        stat = keeper.exists(path)
        keeper.delete(path)
        return stat.created_zxid if stat is not None else 0

    # -- for switching over -----------------------------------------------------------------------------------------

    def find_last_own(self, keeper: Keeper) -> Position | None:
        """Returns the last change of the table's present epoch; ``None`` if the journal knows of none."""
        with self._lock:
            keeper.sync(self._state.paths.root)
            index, source = self._advance(keeper)
            zxid = index.find_previous_own(index.end)
            is_present = bool(zxid) and _own_origins(source).find(zxid) == source.origin
            return Position(source.origin, zxid) if is_present else None

    def read_stream(self, keeper: Keeper) -> StreamOfTable:
        """Returns the whole stream of this replica's journal up to the frontier."""
        with self._lock:
            keeper.sync(self._state.paths.root)
            index, source = self._advance(keeper, self._find_beginnings(keeper))
            journal, own = self._keeping.require_journal(), _own_origins(source)
            begin = journal.first_position
            found = self._read_page(journal, index, own, begin, index.end)
            changes = self._select_present(keeper, source, found)
            cuts = [change.place for change in changes if index.is_cut(change.place)]
            vector = self._description.read_vector(keeper)[0]
            return StreamOfTable(
                source.origin, own, begin, index.end, tuple(changes), tuple(cuts), vector, self._waits, source.lineage
            )

    def _select_present(self, keeper: Keeper, source: SourceTable, changes: list[Change]) -> list[Change]:
        """Returns the changes that are part of the table.

        The others lie behind a fork that it follows, or were taken out as a tail: then its vector, which came with
        the copy of the new source, does not have them.
        """
        lineage = source.lineage
        found = [change for change in changes if not lineage.has_given_up(change.position)]
        if not lineage.settled or not found:
            return found
        vector = self._description.read_vector(keeper)[0]  # read behind the journal, so it has what came by links
        return [each for each in found if each.position.origin == source.origin or vector.covers(each.position)]

    # -- the frontier ---------------------------------------------------------------------------------------------

    def _advance(
        self, keeper: Keeper, floor: int = 0, look: TableLook | None = None
    ) -> tuple[StreamIndex, SourceTable]:
        """Reads what is new, and moves the index to the frontier.

        What was committed up to ``floor`` is known after the reads, so the frontier may be there too. ``look`` came
        behind ``floor``.
        """
        journal = self._keeping.require_journal()
        look = look or self._description.look(keeper)
        newest = journal.get_statistics().last_position
        source = self._description.describe_look(look, max(floor, newest))
        index = self._find_index(journal, _own_origins(source))
        if self._state.pull_rest.is_resting:  # a bootstrap looks at the parts as of a place: later
            return index, source
        if look.lists == self._quiet and index.end >= newest:
            index.extend(_own_origins(source), (), (), max(index.end, floor))
            return index, source
        self._quiet = None
        index, source = self._advance_by_news(keeper, journal, floor, look)
        if not self._waits and index.end >= journal.get_statistics().last_position:
            self._quiet = look.lists
        return index, source

    def _advance_by_news(
        self, keeper: Keeper, journal: Journal, floor: int, look: TableLook
    ) -> tuple[StreamIndex, SourceTable]:
        floor = max(floor, journal.get_statistics().last_position)
        self._read_news(keeper, look)
        newest = max(floor, journal.get_statistics().last_position)
        source = self._description.describe_at(keeper, newest)
        own = _own_origins(source)
        index = self._find_index(journal, own)
        if newest == self._seen and not self._waits and index.end >= newest:
            return index, source
        page = journal.read(index.end, self.scan_bytes)
        if not page.is_last:
            self._go_through(keeper, journal, index, own, floor)
            return index, source
        first = parse_records(page.records)
        bound = first.reading.newest
        if not bound:
            index.extend(own, (), (), max(index.end, floor))
            return index, source
        frontier = find_frontier(
            self._observe(keeper, journal, index, first),
            own,
            after=index.end,
            previous=index.find_previous_own(index.end),
            is_ordered=self._state.description.merge_mode.name != _PLAIN,
        )
        end = max(frontier.end, floor) if frontier.end >= bound else frontier.end
        index.extend(own, frontier.changes, frontier.cuts, end)
        self._waits, self._seen = frontier.waits, newest
        return index, source

    def _go_through(self, keeper: Keeper, journal: Journal, index: StreamIndex, own: OwnOrigins, floor: int) -> None:
        """Moves the index to the frontier over more records than shall be in memory at once."""
        bound, empty = journal.get_statistics().last_position, Reading()
        locks, pending = self._read_undecided(keeper, sorted(read_partition_nodes(keeper, self._state.paths)))
        self._failed |= self._keeping.failed_parts
        observation = Observation(empty, locks, pending, frozenset(self._failed), empty)
        is_ordered = self._state.description.merge_mode.name != _PLAIN
        search = FrontierSearch(observation, bound, after=index.end, is_ordered=is_ordered)
        figures = ChangeFigures(own)
        for records in _read_pages(journal, index.end, page_bytes=self.scan_bytes):
            changes = build_changes(parse_records(records).reading, own, failed=observation.failed_quorums)
            search.add(changes)
            figures.add(changes)
        found = search.finish()
        end = max(found.end, floor) if found.end >= bound else found.end
        index.extend_by(figures, bisect_right(figures.places, found.place), found.cuts, end)
        self._waits, self._seen = found.waits, bound

    def _read_news(self, keeper: Keeper, look: TableLook) -> None:
        """Reads those lists to which something was added, before the look, since they were read last."""
        if self._read_since != self._keeping.since:
            self._read_since, self._read_lists = self._keeping.since, [_UNREAD] * len(look.lists)
        readers: Sequence[Callable[[Keeper], object]] = (
            self._pull, self._state.mutations.load, self._keeping.read_definitions,
        )  # fmt: skip
        for at, read in enumerate(readers):
            if self._read_lists[at] != look.lists[at]:
                read(keeper)
                self._read_lists[at] = look.lists[at]

    def _find_index(self, journal: Journal, own: OwnOrigins) -> StreamIndex:
        """Returns the index of the journal as it is now; another one after the journal began anew."""
        of = (self._keeping.since, own)
        if self._index is None or self._index_of != of:
            self._index, self._index_of = StreamIndex(journal.first_position), of
            self._failed, self._waits, self._seen, self._quiet = set(), (), 0, None
        self._index.forget_before(journal.first_position)
        return self._index

    def _observe(self, keeper: Keeper, journal: Journal, index: StreamIndex, first: ParsedRecords) -> Observation:
        """Makes the observation whose first reading is ``first``."""
        seen = self._keeping.appended
        locks, pending = self._read_undecided(keeper, sorted(first.partition_ids))
        second = first
        if self._keeping.appended != seen:
            second = parse_records(record for records in _read_pages(journal, index.end) for record in records)
        self._failed |= second.failed
        return Observation(first.reading, locks, pending, frozenset(self._failed), second.reading)

    def _read_undecided(self, keeper: Keeper, partitions: list[str]) -> tuple[tuple[Lock, ...], frozenset[PartName]]:
        """Reads the locks of the partitions, the open quorums and the failed ones, and then the news again."""
        paths = self._state.paths
        listed = read_committing_numbers(keeper, paths, partitions) if partitions else {}
        locks = select_undecided(listed, read_lock_kinds(keeper, paths, listed))
        pending = frozenset(part for status, _, _ in read_pending_quorums(keeper, paths) for part in status.parts)
        self._failed |= set(map(PartName.parse, read_failed_parts(keeper, paths)))
        self._read_news(keeper, self._description.look(keeper))
        return locks, pending

    # -- pages ----------------------------------------------------------------------------------------------------

    def _read_page(self, journal: Journal, index: StreamIndex, own: OwnOrigins, after: int, end: int) -> list[Change]:
        if end <= after:
            return []
        pages = _read_pages(journal, after, end)
        found = parse_records(record for records in pages for record in records)
        self._failed |= found.failed
        return build_changes(
            found.reading, own, after=after, previous=index.find_previous_own(after), failed=self._failed
        )


def _own_origins(source: SourceTable) -> OwnOrigins:
    return list_former(source.origin, source.lineage.epochs)


def _read_pages(
    journal: Journal, after: int, end: int = MAX_ZXID, page_bytes: int = _PAGE_BYTES
) -> Iterator[list[JournalRecord]]:
    """Yields the records behind ``after``, up to ``end``; those of one zxid together."""
    is_last = False
    while not is_last and after < end:
        page = journal.read(after, page_bytes)
        yield [record for record in page.records if record.zxid <= end]
        is_last = page.is_last
        after = page.records[-1].zxid if page.records else after
