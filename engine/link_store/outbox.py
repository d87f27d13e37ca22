"""``link_outbox/``: hard links to the blocks of a linked table, which its links may still need.

::

    link_outbox/<zxid>-<time>-<part name>/<files of a part>     a block: its position, the time of its commit (ms)
    link_outbox/trimmed                                         the largest position that was given up, and what a link
                                                                still needed of it; JSON
    link_outbox/tmp_…, link_outbox/gone_…                       being linked, being removed; a start deletes them

A block is a level-0 part as its INSERT wrote it. A merge or a mutation gives the table another part and removes the
block there; the files here stay. The position stands in the folder's name, so that one rename brings both.

Invariants

- A folder with a block's name is whole: it is linked and fsynced as ``tmp_…`` first, and is renamed to ``gone_…``, and
  that made durable, before the first file of it goes.
- :meth:`Outbox.keep` returns after the links are durable; the bytes are as durable as the table's settings made them.
  It may be repeated, after a crash or beside itself.
- ``trimmed`` is durable before anything is given up, unless the disk is too full for it. Blocks at or below it may be
  here all the same.
- Figures in memory are those of the disk: counted at the start, and changed with each block.

All methods may be called from any thread.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import shutil
import threading
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from pathlib import Path

from engine.link_store.block_ages import BlockAges
from engine.link_store.outbox_retention import BlockRange, OutboxBlock, RetentionLimits, count_expired, describe_range
from parts.common.errors import CorruptionError, UnavailableError, UserError
from parts.common.part_name import PartName
from parts.format.durable_files import replace_file_durably
from parts.format.hashed_file import SharedSync, link_files, make_directories, sync_directory
from parts.read.part_reader import open_part

OUTBOX_FOLDER = "link_outbox"
_TRIMMED = "trimmed"
_DRAFT, _GONE = "tmp_", "gone_"
_BLOCK = re.compile(r"([1-9][0-9]{0,18})-([0-9]{1,19})-(.+)")
_EXISTS = (errno.EEXIST, errno.ENOTEMPTY)
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class OutboxStatistics:
    """Figures of an outbox, for system tables. Positions are 0 where there is nothing."""

    first_position: int
    last_position: int
    trimmed_position: int
    blocks: int
    size_bytes: int
    needed_blocks: int
    """Blocks that some link has not acknowledged."""
    lost: BlockRange | None
    """Blocks that were given up although a link needs them."""


class Outbox:
    """The outbox in ``folder``.

    ``ages`` tells how old blocks are, ``free_bytes`` returns the free bytes of the disk of a path.
    """

    def __init__(self, folder: Path, ages: BlockAges, free_bytes: Callable[[Path], int]) -> None:
        self._folder = folder
        self._ages = ages
        self._free_bytes = free_bytes
        self._sync = SharedSync(folder)
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()
        """Guards the fields below, and that a block in them has its folder. No file is read or written under it."""
        self._trimming = threading.Lock()
        """Held while blocks are removed."""
        self._blocks: dict[tuple[int, PartName], OutboxBlock] = {}
        self._by_part: dict[PartName, OutboxBlock] = {}
        self._order: list[OutboxBlock] = []
        self._size_bytes = 0
        self._held: Counter[Path] = Counter()
        """How often folders are held."""
        self._waiting: list[OutboxBlock] = []
        """Blocks that were given up while they were held."""
        self._released = 0
        self._trimmed = 0
        self._lost: BlockRange | None = None

    def load(self) -> None:
        """Counts what is on the disk, and removes what a crash left. To be called before anything else.

        May be repeated after an error.
        """
        with self._lock:
            self._blocks, self._by_part, self._order, self._size_bytes = {}, {}, [], 0
        if not self._folder.exists():
            return
        for entry in sorted(self._folder.iterdir()):
            if entry.name.startswith((_DRAFT, _GONE)):
                shutil.rmtree(entry, ignore_errors=True)
            elif (block := _describe_block(entry)) is not None and not self._add(block):
                shutil.rmtree(entry, ignore_errors=True)  # the same block under another time
        self._sync()  # the blocks of a killed server count from here on
        with suppress(FileNotFoundError):
            self._trimmed, self._lost = _decode_trimmed((self._folder / _TRIMMED).read_bytes())

    # -- blocks that come -----------------------------------------------------------------------------------------

    def keep(self, source: Path, part: PartName, zxid: int, commit_time_ms: int, content_hash: str = "") -> bool:
        """Links the files of a level-0 part in the folder ``source``, durably.

        Returns ``False`` if the block is here already. Raises ``UserError`` 233 for a part that was merged or mutated,
        ``UnavailableError`` 232 for one that is gone, or half gone. ``CorruptionError`` tells of damaged files, or of
        other rows than ``content_hash`` says. After an error of the disk a restart may find the block, whole.
        """
        if part.level or part.mutation:
            message = f"Part {part} was merged or mutated: a link needs the block as it was inserted"
            raise UserError("BAD_DATA_PART_NAME", message)
        if self.find(zxid, part) is not None:
            return False
        make_directories(self._folder)
        draft = self._folder / f"{_DRAFT}{next(self._numbers)}_{part}"
        try:
            _link_whole_part(source, draft, part, content_hash)
            folder = self._folder / draft.name
            size_bytes, kept_at = _count_bytes(draft), self._ages.now()
            return self._move_in(draft, OutboxBlock(zxid, part, commit_time_ms, size_bytes, folder, kept_at))
        finally:
            shutil.rmtree(draft, ignore_errors=True)

    def _move_in(self, draft: Path, block: OutboxBlock) -> bool:
        folder = self._folder / f"{block.zxid}-{block.commit_time_ms}-{block.part}"
        try:
            os.rename(draft, folder)
        except OSError as error:
            if error.errno not in _EXISTS:
                raise
        self._sync()  # also for a block of another thread, or of an attempt that failed here
        with self._lock:
            if not folder.exists():  # another thread kept it, and it was given up meanwhile
                return False
            return self._add(replace(block, folder=folder))

    def _add(self, block: OutboxBlock) -> bool:
        if block.key in self._blocks:
            return False
        self._blocks[block.key] = self._by_part[block.part] = block
        insort(self._order, block, key=lambda each: each.key)
        self._size_bytes += block.size_bytes
        return True

    # -- blocks that are asked for --------------------------------------------------------------------------------

    def find(self, zxid: int, part: PartName) -> OutboxBlock | None:
        """Returns a block, or ``None``. Its files may go while they are read."""
        with self._lock:
            return self._blocks.get((zxid, part))

    def find_part(self, part: PartName) -> OutboxBlock | None:
        """Returns the newest block of this name, or ``None``. Its files may go: :meth:`hold` it to read them."""
        with self._lock:
            return self._by_part.get(part)

    def hold(self, part: PartName) -> tuple[OutboxBlock, Callable[[], None]] | None:
        """Returns the newest block of this name, and a function that lets its files go; ``None`` for none.

        Files of a held block stay. If it is given up meanwhile, they go with the first :meth:`trim` after the hold.
        """
        with self._lock:
            block = self._by_part.get(part)
            if block is None:
                return None
            self._held[block.folder] += 1
        return block, lambda: self._let_go(block.folder)

    def _let_go(self, folder: Path) -> None:
        with self._lock:
            self._held[folder] -= 1
            self._held += Counter()  # without zeros

    def list_blocks(self, after: int = 0) -> Sequence[OutboxBlock]:
        """Returns the blocks behind a position, in the order of their positions."""
        with self._lock:
            return [block for block in self._order if block.zxid > after]

    def check(self) -> Iterator[tuple[OutboxBlock, CorruptionError | None]]:
        """Reads every block, one at a time, and yields it with what is wrong with its files.

        A block whose files are gone or changed has an error; :meth:`discard` lets it be kept anew.
        """
        for block in self.list_blocks():
            try:
                open_part(block.folder, name=block.part).verify()
            except CorruptionError as error:
                if self.find(*block.key) is not None:  # nobody has given it up meanwhile
                    yield block, error
            else:
                yield block, None

    def discard(self, block: OutboxBlock) -> None:
        """Removes a damaged block."""
        with self._trimming:
            self._remove_blocks([block])

    # -- blocks that go -------------------------------------------------------------------------------------------

    def release(self, position: int) -> None:
        """Notes that every link has what is at or below ``position``. :meth:`trim` removes it.

        To be called after each start too: only the links know it.
        """
        with self._lock:
            self._released = max(self._released, position)
            if self._lost is not None and self._lost.last <= self._released:
                self._lost = None

    def trim(self, limits: RetentionLimits) -> BlockRange | None:
        """Gives up the blocks that the limits say (:mod:`engine.link_store.outbox_retention`).

        Returns the range of those that a link still needs: it must be told. A block between positions that were told
        before, whose removal failed or which was kept again, is not told twice.
        """
        with self._trimming:
            self._remove_let_go()
            gone, released = self._select_expired(limits)
            if not gone:
                return None
            told = self._lost
            needed = [block for block in gone if block.zxid > released and not (told and block.zxid in told)]
            lost = describe_range(needed)
            with self._lock:
                self._trimmed = max(self._trimmed, gone[-1].zxid)
                self._lost = lost.join(self._lost) if lost is not None else self._lost
            try:
                self._write_trimmed()
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                self._remove_blocks(gone)  # the note would not fit before
                self._write_trimmed()
            else:
                self._remove_blocks(gone)
            return lost

    def _write_trimmed(self) -> None:
        replace_file_durably(self._folder / _TRIMMED, _encode_trimmed(self._trimmed, self._lost))

    def _select_expired(self, limits: RetentionLimits) -> tuple[list[OutboxBlock], int]:
        with self._lock:
            order, released = list(self._order), self._released
        free = self._free_bytes(self._folder) if limits.min_free_bytes and order else 0
        return order[: count_expired(order, limits, self._ages.age_ms, released, free, _get_freed_bytes)], released

    def _remove_blocks(self, blocks: Sequence[OutboxBlock]) -> None:
        """Removes blocks, from the first on. After an error those that are left are still here."""
        places = []
        try:
            for block in blocks:
                place = self._folder / f"{_GONE}{next(self._numbers)}_{block.part}"
                with self._lock:
                    if self._held[block.folder]:
                        self._waiting.append(block)
                    else:
                        with suppress(FileNotFoundError):
                            os.rename(block.folder, place)
                            places.append(place)
                    self._forget(block)
        finally:
            if places:
                self._sync()  # before the first file goes: a power cut must not leave half a block under its name
                for place in places:
                    shutil.rmtree(place, ignore_errors=True)

    def _remove_let_go(self) -> None:
        """Removes blocks that were given up while they were held, and are not held or kept again."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            waiting = [block for block in waiting if block.key not in self._blocks]
        self._remove_blocks(waiting)

    def _forget(self, block: OutboxBlock) -> None:
        if self._by_part.get(block.part) == block:
            del self._by_part[block.part]
        if self._blocks.pop(block.key, None) is not None:
            self._order.remove(block)
            self._size_bytes -= block.size_bytes

    def check_removable(self) -> None:
        """Raises ``UserError`` 392 (QUERY_IS_PROHIBITED) if a link still needs blocks."""
        facts = self.get_statistics()
        if facts.needed_blocks:
            raise UserError(
                "QUERY_IS_PROHIBITED",
                f"{facts.needed_blocks} blocks, up to position {facts.last_position}, have not reached every target of "
                "the table's links: wait for the links, or drop them first",
            )

    def remove(self) -> None:
        """Deletes the outbox with everything in it, for a table that is dropped or has no links any more.

        Does not ask whether a link needs something (:meth:`check_removable`).
        """
        with self._trimming:
            with self._lock:
                self._blocks, self._by_part, self._order, self._size_bytes = {}, {}, [], 0
                self._trimmed, self._lost, self._waiting = 0, None, []
            while self._folder.exists():
                with suppress(FileNotFoundError):  # another thread's draft has just gone
                    shutil.rmtree(self._folder)
                    sync_directory(self._folder.parent)

    def get_statistics(self) -> OutboxStatistics:
        """Returns the figures of this moment."""
        with self._lock:
            order = self._order
            return OutboxStatistics(
                order[0].zxid if order else 0,
                order[-1].zxid if order else 0,
                self._trimmed,
                len(order),
                self._size_bytes,
                len(order) - bisect_right(order, self._released, key=lambda block: block.zxid),
                self._lost,
            )


def _describe_block(folder: Path) -> OutboxBlock | None:
    """Returns the block in a folder; ``None`` for another file."""
    found = _BLOCK.fullmatch(folder.name)
    part = PartName.try_parse(found[3]) if found else None
    if found is None or part is None:
        return None
    return OutboxBlock(int(found[1]), part, int(found[2]), _count_bytes(folder), folder)


def _link_whole_part(source: Path, draft: Path, part: PartName, content_hash: str) -> None:
    """Links a part's files. Its owner may delete them meanwhile, so the result is opened."""
    draft.mkdir()
    try:
        link_files(source, draft, should_sync=True)
    except FileNotFoundError:
        raise _make_gone_error(source, part) from None
    try:
        opened = open_part(draft, name=part)
    except CorruptionError as error:
        if error.name == "NO_FILE_IN_DATA_PART" and not source.exists():
            raise _make_gone_error(source, part) from None
        raise
    if content_hash and opened.content_hash != content_hash:
        message = f"Part has other rows than were inserted: content hash {opened.content_hash}, not {content_hash}"
        raise CorruptionError(message, part=str(part), name="CORRUPTED_DATA")


def _make_gone_error(source: Path, part: PartName) -> UnavailableError:
    return UnavailableError("NO_SUCH_DATA_PART", f"Part {part} is not in {source} any more: fetch it")


def _count_bytes(folder: Path) -> int:
    with os.scandir(folder) as files:
        return sum(file.stat().st_size for file in files)


def _get_freed_bytes(block: OutboxBlock) -> int:
    """Returns the bytes of the files that nobody else has."""
    try:
        with os.scandir(block.folder) as files:
            facts = [file.stat() for file in files]
    except OSError:
        return 0
    return sum(each.st_size for each in facts if each.st_nlink == 1)


def _encode_trimmed(position: int, lost: BlockRange | None) -> bytes:
    document = {"version": 1, "trimmed": position, "lost": None if lost is None else list(astuple(lost))}
    return json.dumps(document).encode()


def _decode_trimmed(data: bytes) -> tuple[int, BlockRange | None]:
    try:
        document = json.loads(data)
        lost = document["lost"]
        return int(document["trimmed"]), None if lost is None else BlockRange(*map(int, lost))
    except (ValueError, KeyError, TypeError) as error:
        message = f"The position up to which an outbox was trimmed cannot be read ({error})"
        raise CorruptionError(message, file=_TRIMMED, name="CORRUPTED_DATA") from error
