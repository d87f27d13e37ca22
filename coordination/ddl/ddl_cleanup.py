"""Remove old entries from the queue of distributed DDL.

An entry is removed when it is older than ``task_max_lifetime``, executed or not. It is also removed when more than
``max_tasks_in_queue`` entries are newer and all its servers have finished. An entry that a server is executing stays.
Ages are measured on ZooKeeper's own clock. Any server may clean.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from coordination.ddl.ddl_entry import DdlEntry
from coordination.ddl.ddl_queue import DdlQueue
from coordination.keeper.interface import Keeper, NoNode
from parts.common.errors import PandoError


@dataclass(frozen=True, slots=True)
class EntryAge:
    """The age and progress of an entry."""

    name: str
    created_ms: int
    is_active: bool
    is_finished: bool
    """All of its servers have finished, or it is being removed."""


def plan_cleanup(entries: Sequence[EntryAge], now_ms: int, lifetime_seconds: float, most: int) -> list[str]:
    """Returns the names of the entries to remove. ``entries`` are in the order of the queue."""
    oldest_ms = now_ms - 1000 * lifetime_seconds
    surplus = max(0, len(entries) - most)
    return [
        entry.name
        for position, entry in enumerate(entries)
        if not entry.is_active and (entry.created_ms < oldest_ms or (position < surplus and entry.is_finished))
    ]


def clean_queue(keeper: Keeper, queue: DdlQueue, lifetime_seconds: float, most: int) -> list[str]:
    """Removes old entries and returns their names."""
    names = queue.names(keeper)
    if not names:
        return []
    now_ms = keeper.set(queue.path, b"").modified_ms
    ages = [age for name in names if (age := _age(keeper, queue, name)) is not None]
    removed = plan_cleanup(ages, now_ms, lifetime_seconds, most)
    for name in removed:
        path = queue.entry_path(name)
        with contextlib.suppress(NoNode):
            keeper.set(path, b"")  # from here on nobody begins to execute it
            keeper.delete_tree(path)
    return removed


def _age(keeper: Keeper, queue: DdlQueue, name: str) -> EntryAge | None:
    answer = keeper.get_many([queue.entry_path(name)])[0]
    if answer is None:
        return None
    data, stat = answer
    status = queue.status(keeper, name)
    return EntryAge(name, stat.created_ms, bool(status.active), _is_finished(data, set(status.finished)))


def _is_finished(data: bytes, finished: set[str]) -> bool:
    """Tells whether all servers have finished. An entry that cannot be read may wait for others."""
    try:
        return not data or {host.id for host in DdlEntry.decode(data).hosts} <= finished
    except PandoError:
        return False
