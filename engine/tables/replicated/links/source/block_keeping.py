"""Keeps the level-0 parts of a linked table in this replica's outbox.

A block is *wanted* from the moment at which its log entry is in the journal. It is linked into the outbox as soon as
its part is on this disk: written here, or fetched. A wanted part is not deleted before. So nothing is lost by a crash:
a start wants what the journal names and the outbox lacks.

A block may never come here as a part: this replica fetched a part that covers it, or it was dropped first. While a link
lacks such a block, it is fetched for the outbox from a replica that has it, in the background. Merges do not wait.

Invariants:

- A part that is wanted leaves the disk only after the outbox has it.
- A block is wanted until the outbox has it, no link needs it, or no active replica has it and nothing brings it here.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

from coordination.log.log_entry import EntryType, LogEntry
from engine.link_store.block_ages import BlockAges
from engine.link_store.journal_segment import JournalRecord
from engine.link_store.outbox import OUTBOX_FOLDER, Outbox
from engine.link_store.outbox_retention import RetentionLimits
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.errors import CorruptionError, PandoError
from parts.common.part_name import PartName
from parts.read.part_reader import Part

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 600.0
_RETRY_SECONDS = 1.0
_WANTED_SECONDS = 5.0
"""The pause while parts are wanted that are not here; the queue wakes the step earlier."""
_MOST_FETCHES = 64
"""The blocks that one step fetches for the outbox alone."""
_TRIM_SECONDS = 10.0
"""The least seconds between two looks at what the links need."""
_MB = 1024 * 1024


class WantedBlock(NamedTuple):
    """The commit of a block that the outbox lacks."""

    zxid: int
    commit_time_ms: int
    content_hash: str


class BlockKeeping:
    """The outbox of one replica, and what fills and trims it."""

    def __init__(self, state: ReplicaState, resting: Callable[[], AbstractContextManager[None]]) -> None:
        """``resting`` keeps the log from being pulled while its block runs."""
        self._state = state
        self._resting = resting
        services = state.services
        self.ages = BlockAges(services.monotonic)
        self.outbox = Outbox(state.definition.data_path / OUTBOX_FOLDER, self.ages, services.disk.unreserved_bytes)
        self.find_released: Callable[[], int | None] = lambda: None
        """Returns the zxid up to which no link needs blocks; ``None`` if nobody knows."""
        self.bring: Callable[[PartName], Path | None] = lambda part: None
        """Fetches a block from another replica into a temporary directory; ``None`` if none has it."""
        self.has_long_journal: Callable[[], bool] = lambda: False
        """Tells whether some of the journal could go."""
        self.trim_journal: Callable[[int | None, RetentionLimits], None] = lambda released, limits: None
        """Called with the zxid up to which no link needs anything, after blocks were given up."""
        self.task = state.make_task("keep blocks for links", self.step)
        self._lock = threading.Lock()
        self._wanted: dict[PartName, WantedBlock] = {}
        self._trim_at = 0.0
        self._is_on = False

    @property
    def missing_blocks(self) -> int:
        """How many blocks are wanted and not in the outbox."""
        return len(self._wanted)

    # -- beginning and ending -------------------------------------------------------------------------------------

    def load(self) -> None:
        """Counts what the disk has."""
        self.outbox.load()
        self._is_on = True

    def begin_anew(self, *, keeps_outbox: bool) -> None:
        """Forgets what the former journal named, and the blocks too unless they are of this period of links."""
        with self._lock:
            self._wanted.clear()
        if not keeps_outbox:
            self.outbox.remove()
        self._is_on = True

    def end(self) -> None:
        """Removes everything: the table has no links any more."""
        self._is_on = False
        with self._lock:
            self._wanted.clear()
        self.outbox.remove()

    # -- blocks that come -----------------------------------------------------------------------------------------

    def want(self, entries: Iterable[tuple[JournalRecord, LogEntry]]) -> None:
        """Notes the blocks of log entries that are in the journal."""
        wanted: dict[PartName, WantedBlock] = {}
        given_up = self.outbox.get_statistics().trimmed_position
        for record, entry in entries:
            for part, content_hash in list_blocks(entry):
                if record.zxid > given_up and self.outbox.find(record.zxid, part) is None:
                    wanted[part] = WantedBlock(record.zxid, record.commit_time_ms, content_hash)
        if wanted:
            with self._lock:
                self._wanted.update(wanted)
            self._is_on = True
            self.task.wake()

    def note_finished(self) -> None:
        """Looks for wanted parts soon: an entry has left the queue."""
        if self._wanted:
            self.task.wake()

    def keep_before_deletion(self, parts: Sequence[Part]) -> list[Part]:
        """Returns the parts that may be deleted now, after keeping those that are wanted."""
        with self._lock:
            doomed = [part for part in parts if part.name in self._wanted]
        left = {part.name for part in doomed if not self._keep(part, is_last=True)}
        return [part for part in parts if part.name not in left]

    def _keep(self, part: Part, *, is_last: bool = False) -> bool:
        """Links the part; tells whether it is wanted no more.

        ``is_last``: the part is to be deleted now. It is, if the disk is too full for another link: the disk goes
        before all.
        """
        with self._lock:
            wanted = self._wanted.get(part.name)
        if wanted is None:
            return True
        try:
            self.outbox.keep(part.path, part.name, wanted.zxid, wanted.commit_time_ms, wanted.content_hash)
        except CorruptionError as error:
            logger.error("block %s of %s cannot be kept: %s", part.name, self._state.definition.full_name, error)
        except (PandoError, OSError) as error:
            if not (is_last and isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)):
                logger.info("block %s of %s is kept later: %s", part.name, self._state.definition.full_name, error)
                return False
            logger.error("block %s of %s is given up: %s", part.name, self._state.definition.full_name, error)
        with self._lock:
            if self._wanted.get(part.name) == wanted:
                del self._wanted[part.name]
        return True

    # -- in the background ----------------------------------------------------------------------------------------

    def step(self) -> float:
        """Keeps the wanted blocks that are here, and gives up old ones.

        Returns the seconds until the next look.
        """
        if not self._is_on or not self._state.has_started:
            return _IDLE_SECONDS
        try:
            has_more = self._fetch_missing(self._keep_present())
            self._trim()
        except (PandoError, OSError) as error:
            logger.info("the outbox of %s is looked at later: %s", self._state.definition.full_name, error)
            return _RETRY_SECONDS
        if self._wanted:
            return 0.0 if has_more else _WANTED_SECONDS
        return _TRIM_SECONDS if self._has_old() else _IDLE_SECONDS

    def _has_old(self) -> bool:
        return self.outbox.get_statistics().blocks > 0 or self.has_long_journal()

    def _keep_present(self) -> list[PartName]:
        """Keeps the wanted blocks that are here. Returns those that nothing brings."""
        if not self._wanted:
            return []
        with self._resting(), self._lock:  # else an entry may be in the journal and not yet in the queue
            wanted, coming = list(self._wanted), set(self._state.queue.list_coming_parts())
        missing = []
        for name in wanted:
            if self._state.store.get(name) is not None:
                with self._state.store.hold([name]) as held:
                    self._keep(held.parts[0])
            elif name not in coming:
                missing.append(name)
        return missing

    def _fetch_missing(self, missing: Sequence[PartName]) -> bool:
        """Fetches blocks that a link needs. Blocks are wanted no more that no link needs, or that nobody has.

        Returns whether more are left. Raises what keeps another replica from being asked.
        """
        released = self.find_released() if missing else None
        fetched = 0
        for name in missing:
            wanted = self._wanted.get(name)
            if wanted is not None and released is not None and wanted.zxid > released:
                if fetched == _MOST_FETCHES:
                    return True
                fetched += 1
                self._fetch(name, wanted)
            with self._lock:
                if self._wanted.get(name) == wanted:
                    self._wanted.pop(name, None)
        return False

    def _fetch(self, name: PartName, wanted: WantedBlock) -> None:
        directory = self.bring(name)
        if directory is None:
            return
        try:
            self.outbox.keep(directory, name, wanted.zxid, wanted.commit_time_ms, wanted.content_hash)
        except CorruptionError as error:
            logger.error("block %s of %s cannot be kept: %s", name, self._state.definition.full_name, error)
        finally:
            self._state.store.drop_temporary(directory)

    def _trim(self) -> None:
        now = self._state.services.monotonic()
        if now < self._trim_at or not self._has_old():
            return
        self._trim_at = now + _TRIM_SECONDS
        released = self.find_released()
        if released is not None:
            self.outbox.release(released)
        limits = self._limits()
        lost = self.outbox.trim(limits)
        if lost is not None and released is not None:
            logger.warning(
                "table %s gave up %s blocks (zxid %s to %s) that a link still needs: the settings link_log_… say so",
                self._state.definition.full_name, lost.blocks, lost.first, lost.last,
            )  # fmt: skip
        self.trim_journal(released, limits)

    def _limits(self) -> RetentionLimits:
        settings = self._state.definition.settings
        return RetentionLimits(
            settings.link_log_min_seconds_to_retain,
            settings.link_log_max_seconds_to_retain,
            settings.link_log_max_bytes_to_retain,
            settings.link_log_stop_retaining_min_disk_mb * _MB,
        )


def list_blocks(entry: LogEntry) -> list[tuple[PartName, str]]:
    """Returns the blocks that an entry brings, with their content hashes."""
    if entry.type is EntryType.REPLACE_RANGE:
        found = [(staged.part, staged.content_hash) for staged in entry.replace_parts]
    elif entry.type in (EntryType.GET_PART, EntryType.ATTACH_PART) and entry.new_part is not None:
        found = [] if entry.is_restored else [(entry.new_part, entry.content_hash)]
    else:
        found = []
    return [(part, digest) for part, digest in found if not part.level and not part.mutation]
