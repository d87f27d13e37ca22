"""Tables of ``tests.cluster.chaos_links`` whose source moves from cluster to cluster, and their writers.

==================  ==================================================================================================
``moves``           the table of one asynchronous link
``orders, lines``   the tables of the transactional group ``trade``, whose targets are read all the time
``held``            the table of synchronous links
==================  ==================================================================================================

A source moves by SWITCH, which loses nothing, or by PROMOTE … FORCE while the old source goes on taking INSERTs: what
it takes then must be its tail, and what no promotion reports must not be lost (:mod:`.link_moves`).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence

from parts.common.errors import PandoError
from tests.cluster.link_clients import Merger
from tests.cluster.link_group_readers import SparkReader, SqlReader
from tests.cluster.link_history import History
from tests.cluster.link_moves import MovedTables, Mover
from tests.cluster.link_rows import Difference
from tests.cluster.link_sites import NAMES, PATIENCE_SECONDS, LinkedSites, Step, create_link

_COLUMNS = "(p UInt32, k UInt64, v UInt64)"
_RETRY_SECONDS = 0.2


class SwitchedWork:
    """All tables whose source moves, with those who write, read and move them."""

    wipeable = 1
    """One replica keeps all changes: it alone can tell what lies behind a fork of long ago."""

    def __init__(self, sites: LinkedSites, *, with_spark: bool) -> None:
        source = NAMES[0]
        self._sites = sites
        self._moved = [
            MovedTables("moves", ("moves",), History(("moves",), source)),
            MovedTables("trade", ("orders", "lines"), History(("orders", "lines"), source), is_group=True),
            MovedTables("held", ("held",), History(("held",), source), is_sync=True),
        ]
        self._trade = self._moved[1]
        self._writers = {each.name: MovedWriter(sites, each, sites.another_random()) for each in self._moved}
        self._with_spark = with_spark
        self.tables: Mapping[str, str] = {
            table: f"ReplicatedMergeTree('/{table}', '{{replica}}') PARTITION BY p ORDER BY k"
            for each in self._moved
            for table in each.tables
        }

    def create(self) -> None:
        """Makes the tables, and at two clusters links from the first one."""
        self._sites.create_tables(self.tables, _COLUMNS)
        for name in NAMES[1:]:
            first = self._sites.clients[name][0]
            for each in self._moved:
                settings = "mode = 'sync'" if each.is_sync else "mode = 'async'"
                for table in each.tables:
                    first.execute(create_link(table, table, NAMES[0], settings))
                if each.is_group:
                    first.execute(f"CREATE REPLICATION LINK GROUP {each.name} ({', '.join(each.tables)})")

    def steps(self) -> Sequence[Step]:
        """Returns the steps of all clients."""
        sites = self._sites
        movers = [Mover(sites, each, self._writers[each.name].turn, sites.another_random()) for each in self._moved]
        readers = [SqlReader(sites, self._trade, sites.another_random()) for _ in range(2)]
        merger = Merger(sites, NAMES, list(self.tables), sites.another_random(), sites.wait)
        spark = [SparkReader(sites, self._trade, sites.another_random()).step] if self._with_spark else []
        clients = [*self._writers.values(), *movers, *readers, merger]
        return [*(client.step for client in clients), *spark]  # type: ignore[attr-defined]

    def check(self) -> list[str]:
        """Returns what is wrong with the rows: every replica has those of the last reign."""
        wrong = []
        for each in self._moved:
            for table in each.tables:
                rows = {(_partition(k), k): v for name, k, v in each.history.expected() if name == table}
                wrong += self._sites.compare(
                    f"SELECT p, k, v FROM {table}", lambda found, rows=rows: Difference.of(found, rows)
                )
        return wrong


def _partition(key: int) -> int:
    return 1 + key % 3


class MovedWriter:
    """Inserts one row after the other where the source is now."""

    def __init__(self, sites: LinkedSites, moved: MovedTables, rng: random.Random) -> None:
        self._sites = sites
        self._moved = moved
        self._random = rng
        self.turn = threading.Lock()
        """Held while a row is sent."""

    def step(self) -> None:
        """Inserts one row, unless the source moves before it is acknowledged."""
        history, deadline = self._moved.history, time.monotonic() + PATIENCE_SECONDS
        reign, item = history.send()
        while history.last is reign and not self._send(item):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{reign.cluster} does not take {item}")
            time.sleep(_RETRY_SECONDS)
        time.sleep(self._random.uniform(0, 0.3))

    def _send(self, item: tuple[str, int, int]) -> bool:
        table, key, value = item
        with self.turn:
            reign, now = self._moved.history.send()
            if now != item:  # the source has moved
                return True
            statement = f"INSERT INTO {table} VALUES ({_partition(key)}, {key}, {value})"
            if not self._sites.try_once(reign.cluster, self._random, statement, f"INSERT INTO {table}"):
                return False
            self._moved.history.acknowledge(reign)
            self._sites.note_acknowledged()
        if self._moved.is_sync:
            self._look(reign.cluster, item)
        return True

    def _look(self, source: str, item: tuple[str, int, int]) -> None:
        """A row of a synchronous link is shown by a target at once; a replica may be down, or late after a restart."""
        table, key, value = item
        found = []
        for name in NAMES:
            for client in self._sites.clients[name] if name != source else ():
                try:
                    found.append(client.value(f"SELECT count() FROM {table} WHERE k = {key} AND v = {value}"))
                except PandoError:
                    return
        if not any(map(int, found)) and self._moved.history.last.cluster == source:
            self._sites.fail(f"{item} was acknowledged by {source}, and no replica of its synchronous targets shows it")
        self._sites.count("look for a synchronous row: found")
