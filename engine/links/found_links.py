"""The links of this server's tables, as ZooKeeper has them, followed by watches.

A table is read again when a watch of it fired or the session changed; otherwise a look costs nothing. Watches may fire
from any thread; everything else is called by one thread at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from coordination.keeper.interface import NoNode
from coordination.links.link_definition import LinkDefinition
from engine.links.linkable_tables import explain_unlinkable
from engine.tables.capabilities.replica import Replica
from engine.tables.owned_table import OwnedTable
from parts.common.errors import PandoError

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class _Table:
    table: OwnedTable
    replica: Replica
    session: int = 0
    is_changed: bool = True
    definitions: dict[str, LinkDefinition] = field(default_factory=dict)


class FoundLinks:
    """The links whose targets are tables of this server."""

    def __init__(self, list_tables: Callable[[], Iterable[OwnedTable]], wake: Callable[[], None]) -> None:
        self._list_tables = list_tables
        self._wake = wake
        self._tables: dict[OwnedTable, _Table] = {}

    def look(self) -> dict[tuple[OwnedTable, str], LinkDefinition]:
        """Returns the definitions by table and name."""
        tables = dict.fromkeys(table for table in self._list_tables() if not table.is_stopping.is_set())
        for gone in self._tables.keys() - tables.keys():
            del self._tables[gone]
        for table in tables:  # in the order of the catalog, so that a simulation replays
            if table in self._tables:
                continue
            if table.replication is not None and not explain_unlinkable(table):
                self._tables[table] = _Table(table, table.replication)
        for known in self._tables.values():
            self._refresh(known)
        return {
            (table, name): link for table, known in self._tables.items() for name, link in known.definitions.items()
        }

    def forget(self) -> None:
        """Forgets what was read, so that the next look reads everything anew."""
        for known in list(self._tables.values()):
            known.is_changed = True

    def _refresh(self, known: _Table) -> None:
        keeper = known.replica.keeper
        if keeper is None or known.replica.is_session_expired:
            return
        if not known.is_changed and known.session == keeper.session_id:
            return
        known.is_changed, known.session = False, keeper.session_id
        try:
            known.definitions = self._read(known)
        except PandoError as error:
            known.is_changed = True
            logger.info("the links of %s are looked at later: %s", known.table.definition.full_name, error.message)

    def _read(self, known: _Table) -> dict[str, LinkDefinition]:
        keeper, paths = known.replica.require_keeper(), known.replica.paths

        def on_change(_: str) -> None:
            known.is_changed = True
            self._wake()

        try:
            names = keeper.children(paths.linked.incoming, on_change)
        except NoNode:
            if keeper.exists(paths.linked.incoming, on_change) is not None:
                known.is_changed = True
            return {}
        found = {}
        for name in names:
            try:
                found[name] = LinkDefinition.parse(keeper.get(paths.linked.incoming_link(name), on_change)[0])
            except NoNode:
                known.is_changed = True
            except PandoError as error:
                logger.error("link %s cannot be read: %s", name, error.message)
        return found
