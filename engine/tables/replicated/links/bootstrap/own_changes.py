"""The place of a table's last own change, as far as its log tells."""

from __future__ import annotations

from coordination.keeper.interface import Keeper
from coordination.keeper.request_limits import split_into_chunks
from coordination.links.stream.carried_changes import is_batch
from coordination.log.log_entry import EntryType, LogEntry
from coordination.log.part_set import PartSet
from coordination.nodes.paths import TablePaths

_AT_ONCE = 200
_NO_CHANGES = (EntryType.MERGE_PARTS, EntryType.MUTATE_PART, EntryType.ALTER_METADATA)


def find_last_own_change(keeper: Keeper, table: TablePaths, parts: PartSet, *, is_written: bool) -> int:
    """Returns the zxid of the last change that this cluster made; 0 if there was none.

    ``parts`` are those that the whole log gives. An INSERT that none of them covers does not count: its quorum failed,
    so it is no change and nobody ever passes it, or its rows are gone.

    The mutations of links' batches have the zxids of their log entries. Of what lies before a trimmed log only a table
    that ``is_written`` by clients may have changes: then its last mutation, or the zxid before the first entry, is
    returned, which every follower of the table passes. Nobody would ever pass it where links alone write.
    """
    names = keeper.children(table.log)
    newest, first, batches = 0, 0, set[int]()
    for some in split_into_chunks(names[::-1], _AT_ONCE):
        for answer in keeper.get_many([f"{table.log}/{name}" for name in some]):
            if answer is None:
                continue
            entry, first = LogEntry.parse(answer[0]), answer[1].created_zxid
            if is_batch(entry):
                batches.add(first)
            elif entry.type not in _NO_CHANGES and not entry.is_restored and _is_left(entry, parts):
                newest = max(newest, first)
        if newest:
            break
    ids = keeper.children(table.mutations)
    stats = keeper.exists_many([f"{table.mutations}/{name}" for name in ids])
    mutated = [
        stat.created_zxid
        for stat in stats
        if stat is not None and stat.created_zxid not in batches and (is_written or stat.created_zxid > first)
    ]
    is_trimmed = bool(names) and not names[0].endswith("-0000000000")
    return max([newest, *mutated, first - 1 if is_trimmed and is_written and not newest else 0])


def _is_left(entry: LogEntry, parts: PartSet) -> bool:
    """Tells whether an entry is a command, or brings a part that is left."""
    is_insert = entry.type in (EntryType.GET_PART, EntryType.ATTACH_PART)
    return not is_insert or entry.new_part is None or parts.find_covering(entry.new_part) is not None
