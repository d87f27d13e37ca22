"""The lists of large log entries, as nodes: written before the commit, read whenever an entry is read.

::

    links/lists/<name>            {"version":1,"link":"<uuid of the link>","state":"writing"}
    links/lists/<name>/<number>   a piece of the entry (``coordination.log.entry_list``)

States: ``writing`` until the multi of the commit sets ``committed``, or at once ``done`` if no block ids are to be set
after it; ``done`` when they are. A list stays as long as a log entry or a replica's queue names it.

Invariant: the multi that logs the entry sets the list's state. So a list that was removed before cannot be committed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from coordination.keeper.interface import Create, Delete, Keeper, MultiFailed, NoNode, SetData
from coordination.keeper.request_limits import operation_bytes, split_into_multis
from coordination.log.entry_list import count_pieces, list_name, read_list
from coordination.log.log_entry import LogEntry
from coordination.nodes.paths import TablePaths
from coordination.nodes.table_lists import create_lists
from parts.common.errors import ConflictError, CorruptionError

FORMAT_VERSION = 1


class ListState(Enum):
    """How far a list is."""

    WRITING = "writing"
    COMMITTED = "committed"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class EntryList:
    """One list."""

    name: str
    link: str
    """UUID of the link that wrote it."""
    state: ListState
    version: int
    """Of its node."""


def parse_entries(keeper: Keeper, table: TablePaths, contents: Iterable[bytes]) -> list[LogEntry]:
    """Parses log entries, and makes those whole that stand for lists.

    Raises ``CorruptionError``, and 999 if a list was removed meanwhile: its entry is gone too then.
    """
    return [complete_entry(keeper, table, LogEntry.parse(content)) for content in contents]


def complete_entry(keeper: Keeper, table: TablePaths, entry: LogEntry) -> LogEntry:
    """Returns the whole entry."""
    name = list_name(entry)
    if name is None or entry.replace_parts:
        return entry
    answers = keeper.get_many([table.linked.list_piece(name, number) for number in range(count_pieces(entry))])
    pieces = [answer[0] for answer in answers if answer is not None]
    if len(pieces) < len(answers):
        raise ConflictError("KEEPER_EXCEPTION", f"List {name} of {table.root} was removed meanwhile")
    return read_list(entry, pieces)


def write_list(keeper: Keeper, table: TablePaths, name: str, link: str, pieces: Sequence[bytes]) -> None:
    """Writes the pieces of a list that is not committed yet."""
    if keeper.exists(table.linked.lists) is None:
        create_lists(keeper, table, table.linked.lists)
    keeper.create(table.linked.list(name), _content(link, ListState.WRITING))
    creates = [Create(table.linked.list_piece(name, number), piece) for number, piece in enumerate(pieces)]
    for packet in split_into_multis(creates, operation_bytes):
        keeper.multi(packet)


def commit_list_op(table: TablePaths, name: str, link: str, state: ListState) -> SetData:
    """Returns the operation of the commit's multi, which fails if the list was removed or committed."""
    return SetData(table.linked.list(name), _content(link, state), 0)


def finish_list_op(table: TablePaths, found: EntryList) -> SetData:
    """Returns the operation that notes that the block ids of a committed list are set."""
    return SetData(table.linked.list(found.name), _content(found.link, ListState.DONE), found.version)


def read_lists(keeper: Keeper, table: TablePaths) -> list[EntryList]:
    """Returns the lists in the order of their names."""
    names = sorted(keeper.children_many([table.linked.lists])[0] or ())
    answers = keeper.get_many([table.linked.list(name) for name in names])
    found = []
    for name, answer in zip(names, answers, strict=True):
        if answer is not None:
            found.append(_parse(name, answer[0], answer[1].version))
    return found


def find_list_entry(keeper: Keeper, table: TablePaths, name: str) -> LogEntry | None:
    """Returns the whole log entry that stands for the list; ``None`` if the log does not have it any more."""
    for node in reversed(keeper.children(table.log)):
        (answer,) = keeper.get_many([f"{table.log}/{node}"])
        if answer is not None and list_name(entry := LogEntry.parse(answer[0])) == name:
            return complete_entry(keeper, table, entry)
    return None


def remove_unneeded_lists(keeper: Keeper, table: TablePaths, finished: Sequence[EntryList]) -> int:
    """Removes the finished lists that neither the log nor a queue names. Returns how many are left.

    The log is read before the queues: an entry moves from it to them.
    """
    if not finished:
        return 0
    named = _find_named(keeper, [table.log])
    named |= _find_named(keeper, [table.replica(name).queue for name in keeper.children(table.replicas)])
    gone = [found for found in finished if found.name not in named]
    for found in gone:
        remove_list(keeper, table, found.name, found.version)
    return len(finished) - len(gone)


def _find_named(keeper: Keeper, parents: Sequence[str]) -> set[str]:
    listings = zip(parents, keeper.children_many(parents), strict=True)
    paths = [f"{parent}/{name}" for parent, names in listings for name in names or ()]
    found = (list_name(LogEntry.parse(answer[0])) for answer in keeper.get_many(paths) if answer is not None)
    return {name for name in found if name is not None}


def remove_list(keeper: Keeper, table: TablePaths, name: str, version: int) -> bool:
    """Removes a list if its node still has the version. Returns whether it did.

    The node goes last, and its state is moved first: a commit that is under way fails.
    """
    path = table.linked.list(name)
    try:
        pieces = sorted(keeper.children(path), key=int)
        keeper.multi([SetData(path, keeper.get(path)[0], version)])
        for packet in split_into_multis([Delete(f"{path}/{piece}") for piece in pieces], operation_bytes):
            keeper.multi(packet)
        keeper.delete(path)
    except (MultiFailed, NoNode):
        return False
    return True


def _content(link: str, state: ListState) -> bytes:
    document = {"version": FORMAT_VERSION, "link": link, "state": state.value}
    return json.dumps(document, separators=(",", ":")).encode()


def _parse(name: str, data: bytes, version: int) -> EntryList:
    try:
        document = json.loads(data)
        if document["version"] != FORMAT_VERSION:
            raise ValueError(f"version {document['version']}, this server understands {FORMAT_VERSION}")
        return EntryList(name, str(document["link"]), ListState(document["state"]), version)
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError(f"Cannot read list {name}: {data[:200]!r}: {error}", name="CORRUPTED_DATA") from error
