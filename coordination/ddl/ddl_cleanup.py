"""Removes old entries from the queue of distributed DDL.

An entry goes when it is older than ``task_max_lifetime``, carried out or not, or when more than ``max_tasks_in_queue``
are newer and all its servers have finished. Nothing goes that a server carries out now. Ages are measured on
ZooKeeper's own clock. Any server may clean.
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
    name: str
    created_ms: int
    is_active: bool
    is_finished: bool
    """On all of its servers; also what is half removed."""


def plan_cleanup(entries: Sequence[EntryAge], now_ms: int, lifetime_seconds: float, most: int) -> list[str]:
    """The names of those to remove. ``entries`` are in the order of the queue."""
    oldest_ms = now_ms - 1000 * lifetime_seconds
    surplus = max(0, len(entries) - most)
    return [
        entry.name
        for position, entry in enumerate(entries)
        if not entry.is_active and (entry.created_ms < oldest_ms or (position < surplus and entry.is_finished))
    ]


def clean_queue(keeper: Keeper, queue: DdlQueue, lifetime_seconds: float, most: int) -> list[str]:
    """The names of those that were removed."""
    names = queue.names(keeper)
    if not names:
        return []
    now_ms = keeper.set(queue.path, b"").modified_ms
    ages = [age for name in names if (age := _age(keeper, queue, name)) is not None]
    removed = plan_cleanup(ages, now_ms, lifetime_seconds, most)
    for name in removed:
        path = queue.entry_path(name)
        with contextlib.suppress(NoNode):
            keeper.set(path, b"")  # from here on nobody begins it, however much of it is left
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
    """An entry that this version cannot read may wait for others."""
    try:
        return not data or {host.id for host in DdlEntry.decode(data).hosts} <= finished
    except PandoError:
        return False
