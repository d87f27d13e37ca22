"""Moves the source of tables of ``tests.cluster.chaos_links``, and checks what each move says of lost rows."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.cluster.link_history import History, Item, Reign, State, list_items
from tests.cluster.link_sites import NAMES, PATIENCE_SECONDS, REPLICAS, LinkedSites

_RETRY_SECONDS = 0.3
_PAUSE_SECONDS = (20.0, 40.0)
"""Between two moves."""
_REST_SECONDS = 4.0
"""So long a link may rest before its target is promoted."""
_PROMOTED = 0.4
"""The share of moves that are by force."""


@dataclass
class MovedTables:
    """Tables that change over together: that of a link of the same name, or those of a group."""

    name: str
    tables: Sequence[str]
    history: History
    is_group: bool = False
    is_sync: bool = False
    moving_to: str = ""
    """The cluster that is becoming the source, until all others follow it."""
    tail: Counter[str] = field(default_factory=Counter)

    @property
    def title(self) -> str:
        """How statements name them."""
        return f"REPLICATION LINK {'GROUP ' * self.is_group}{self.name}"

    @property
    def settled(self) -> tuple[int, str]:
        """The reign and its source, or the one that is coming; equal at two moments if nothing moved between them."""
        return self.history.last.number, self.moving_to or self.history.last.cluster


def read_state(client: HttpClient, tables: Sequence[str]) -> State:
    """Returns all rows that a source has, also those that this replica has not fetched yet."""
    for table in tables:
        client.execute(f"SYSTEM SYNC REPLICA {table}")
    return {table: frozenset((int(k), int(v)) for k, v in client.rows(f"SELECT k, v FROM {table}")) for table in tables}


class Mover:
    """Makes another cluster the source, and insists on it and on all others following it."""

    def __init__(self, sites: LinkedSites, moved: MovedTables, turn: threading.Lock, rng: random.Random) -> None:
        """``turn`` is held by the writer while it sends a row."""
        self._sites = sites
        self._moved = moved
        self._turn = turn
        self._random = rng

    def step(self) -> None:
        """Moves the source once."""
        sites, moved, former = self._sites, self._moved, self._moved.history.last
        sites.wait(self._random.uniform(*_PAUSE_SECONDS))
        if sites.end.is_set():
            return
        name = self._random.choice([each for each in NAMES if each != former.cluster])
        moved.moving_to = name
        is_forced = self._random.random() < _PROMOTED
        facts = self._promote(name) if is_forced else self._move(name, "SWITCH", "")
        found = self._read_source(name)
        for problem in moved.history.begin(name, found):
            sites.fail(f"{'PROMOTE' if is_forced else 'SWITCH'} of {moved.name}: {problem}")
        with self._turn:  # the last row of the former reign is acknowledged, or not sent again
            lost = moved.history.list_lost(former)
        left = [value for fact, value in facts or () if fact in ("not asked", "left at a sibling")]
        if lost and not is_forced:
            sites.fail(f"SWITCH of {moved.name} to {name} lost {sorted(lost)[:5]}")
        if lost and moved.is_sync and facts is not None and not left:
            sites.fail(f"PROMOTE of {moved.name} at {name} lost synchronous rows {sorted(lost)[:5]}, and reported none")
        sites.count_fault(f"{moved.name}: {'PROMOTE FORCE' if is_forced else 'SWITCH'}")
        for other in NAMES:
            if other != name and not sites.problems:
                Follower(sites, moved, other, name, self._random).follow(former, is_tail=is_forced)
        moved.moving_to = ""

    def _promote(self, name: str) -> list[list[object]] | None:
        """Promotes a target, whose link may have rested for a while."""
        sites, moved = self._sites, self._moved
        if not moved.is_sync and self._random.random() < 0.5:
            link = moved.tables[0]
            sites.try_once(name, self._random, f"ALTER REPLICATION LINK {link} DISABLE", "DISABLE")
            sites.wait(self._random.uniform(0, _REST_SECONDS))
        return self._move(name, "PROMOTE", " FORCE")

    def _move(self, name: str, verb: str, force: str) -> list[list[object]] | None:
        """Returns the report; ``None`` if the answer was lost."""
        statement = f"SYSTEM {verb} {self._moved.title}{force}"
        deadline, is_first = time.monotonic() + PATIENCE_SECONDS, True
        while True:
            if not is_first and self._is_source(name):  # it was done, and the answer lost
                return None
            report = self._sites.ask(name, self._random.randrange(REPLICAS), statement, f"SYSTEM {verb}")
            if report is not None:
                return report if is_first else None
            is_first = False
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name} does not become the source by {statement}")
            time.sleep(_RETRY_SECONDS)

    def _is_source(self, name: str) -> bool:
        """Tells whether no link brings changes to a cluster any more."""
        table = self._moved.tables[0]
        query = f"SELECT count() FROM system.replication_links WHERE table = '{table}' AND direction = 'in'"
        found = self._sites.ask(name, self._random.randrange(REPLICAS), query, "look for links")
        return found is not None and not int(str(found[0][0]))

    def _read_source(self, name: str) -> State:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return read_state(self._random.choice(self._sites.clients[name]), self._moved.tables)
            except PandoError as error:
                self._sites.count(f"read the new source: {error.name}")
                if time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_SECONDS)


class Follower:
    """A cluster that has to follow a new source."""

    def __init__(self, sites: LinkedSites, moved: MovedTables, name: str, source: str, rng: random.Random) -> None:
        self._sites = sites
        self._moved = moved
        self._name = name
        self._source = source
        self._random = rng
        self._is_unknown = False
        """A REJOIN may have been done whose answer was lost."""

    def follow(self, former: Reign, *, is_tail: bool) -> None:
        """Waits until it follows, and rejoins it where it cannot by itself.

        ``is_tail``: the source of the former reign has what the new one lacks.
        """
        deadline, since = time.monotonic() + PATIENCE_SECONDS, time.monotonic()
        is_former = is_tail and self._name == former.cluster
        while not self._follows():
            if self._sites.problems:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._name} does not follow {self._source} in {self._moved.title}")
            if is_former:
                is_former = not self._rejoin(former)
            elif time.monotonic() - since > 10:
                self._help()
            time.sleep(_RETRY_SECONDS)
        if self._moved.is_sync:
            link = self._moved.tables[0]
            statement = f"ALTER REPLICATION LINK {link} MODE sync"
            self._sites.insist(self._name, self._random, statement, "MODE sync")

    def _follows(self) -> bool:
        links = ", ".join(f"'{table}'" for table in self._moved.tables)
        query = (
            "SELECT count() FROM system.replication_links WHERE direction = 'in' AND upstream_status != 'stopped' "
            f"AND peer = '{self._source}' AND name IN ({links})"
        )
        found = self._sites.ask(self._name, self._random.randrange(REPLICAS), query, "look for links")
        return found is not None and int(str(found[0][0])) == len(self._moved.tables)

    def _help(self) -> None:
        """Does what the messages of a stopped link say, and of a table that has more than the fork."""
        number = self._random.randrange(REPLICAS)
        statement = f"SYSTEM REJOIN {self._moved.title} FROM CLUSTER {self._source} DETACH TAIL"
        if self._sites.ask(self._name, number, statement, "REJOIN of a sibling"):
            self._sites.count_fault(f"{self._moved.name}: a sibling had more than the fork")
        query = (
            "SELECT name, message FROM system.replication_links WHERE direction = 'in' AND upstream_status = 'stopped'"
        )
        for link, message in self._sites.ask(self._name, number, query, "look for links") or ():
            if link in self._moved.tables and "SYSTEM BOOTSTRAP" in str(message):
                self._sites.try_at(
                    self._name, number, f"SYSTEM BOOTSTRAP REPLICATION LINK {link}", "BOOTSTRAP of a follower"
                )

    def _rejoin(self, former: Reign) -> bool:
        """Rejoins the former source, and compares the tail that it tells with the rows that it has in addition.

        Returns whether that was done.
        """
        sites, number = self._sites, self._random.randrange(REPLICAS)
        statement = f"SYSTEM REJOIN {self._moved.title} FROM CLUSTER {self._source}"
        if sites.ask(self._name, number, statement, "REJOIN") is None:  # from now on nothing is inserted
            return False
        try:
            here = list_items(read_state(sites.clients[self._name][number], self._moved.tables))
        except PandoError as error:
            sites.count(f"read the former source: {error.name}")
            return False
        told = sites.ask(self._name, number, statement, "REJOIN")
        if told is None:
            return False
        if not self._is_unknown:
            self._compare(former, here, told)
        detached = sites.ask(self._name, number, f"{statement} DETACH TAIL", "REJOIN DETACH TAIL")
        if detached is None:
            self._is_unknown = True
        elif not self._is_unknown:
            self._compare_detached(told, detached)
        return detached is not None

    def _compare(self, former: Reign, here: set[Item], told: Sequence[Sequence[object]]) -> None:
        """Compares what REJOIN shows with what the former source has behind the fork."""
        reign = self._moved.history.last
        begun = reign.prefix(reign.began_with)
        missing = former.prefix(former.acknowledged) - here - begun
        if missing:
            self._sites.fail(f"{self._name} has lost {sorted(missing)[:5]} of {self._moved.name}")
        wanted, found = Counter(table for table, _, _ in here - begun), _sum_rows(told, "blocks")
        if wanted != found:
            self._sites.fail(
                f"REJOIN of {self._moved.name} at {self._name} shows {dict(found)}, lost are {dict(wanted)}"
            )
        self._moved.tail.update(found)

    def _compare_detached(self, told: Sequence[Sequence[object]], detached: Sequence[Sequence[object]]) -> None:
        shown, taken = _sum_rows(told, "blocks"), _sum_rows(detached, "block")
        if shown != taken:
            self._sites.fail(f"REJOIN at {self._name} showed {dict(shown)} and detached {dict(taken)}")
        gone = [row[7] for row in detached if row[0] == "block" and not Path(str(row[7])).is_dir()]
        if gone:
            self._sites.fail(f"REJOIN at {self._name} named {gone[:3]}, which are not there")
        self._sites.count_fault(f"{self._moved.name}: a tail of {sum(taken.values())} rows was detached")


def _sum_rows(tail: Sequence[Sequence[object]], kind: str) -> Counter[str]:
    """Returns the rows of a REJOIN's answer by table."""
    rows: Counter[str] = Counter()
    for row in tail:
        if row[0] == kind and int(str(row[3])):
            rows[str(row[1]).partition(".")[2]] += int(str(row[3]))
    return rows
