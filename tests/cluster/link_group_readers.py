"""Readers of a transactional group of ``tests.cluster.chaos_links``: they must see prefixes of what was written."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from typing import TYPE_CHECKING

from parts.common.errors import PandoError
from tests.cluster.link_history import State
from tests.cluster.link_moves import MovedTables
from tests.cluster.link_sites import NAMES, REPLICAS, LinkedSites

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_PATIENCE = {"connect_timeout": "2", "timeout": "10", "stall_timeout": "10", "retries": "1"}
"""Options of Spark: a query that meets a cluster that is down ends soon."""


class SqlReader:
    """Reads all tables of the group on one replica, by one statement. A source has no group and is passed over."""

    def __init__(self, sites: LinkedSites, moved: MovedTables, rng: random.Random) -> None:
        self._sites = sites
        self._moved = moved
        self._random = rng
        arrays = (f"(SELECT groupArray((k, v)) FROM {table})" for table in moved.tables)
        cuts = (f"lastCut('{table}')" for table in moved.tables)
        self._query = f"SELECT {', '.join((*arrays, *cuts))}"

    def step(self) -> None:
        """Reads once."""
        self._sites.wait(self._random.uniform(0, 0.3))
        name, number = self._random.choice(NAMES), self._random.randrange(REPLICAS)
        found = self._sites.ask(name, number, self._query, "SELECT of a group")
        if found is None:
            return
        rows, cuts = found[0][: len(self._moved.tables)], found[0][len(self._moved.tables) :]
        state = {
            table: frozenset((int(k), int(v)) for k, v in pairs)  # type: ignore[attr-defined]
            for table, pairs in zip(self._moved.tables, rows, strict=True)
        }
        if problem := self._moved.history.check_prefix(state):
            self._sites.fail(f"SELECT on {name} r{number + 1} at {cuts}: {problem}")
        if len(set(map(str, cuts))) != 1:
            self._sites.fail(f"SELECT on {name} r{number + 1} reads several cuts: {cuts}")


class SparkReader:
    """Reads all tables of the group by one query of Spark, from both replicas of a target."""

    def __init__(self, sites: LinkedSites, moved: MovedTables, rng: random.Random) -> None:
        self._sites = sites
        self._moved = moved
        self._random = rng
        self._session: SparkSession | None = None
        """Made by the thread that reads."""

    def step(self) -> None:
        """Reads once, from a cluster that is a target during all of it."""
        self._sites.wait(self._random.uniform(0, 1))
        name, before = self._random.choice(NAMES), self._moved.settled
        if name == before[1] or not self._is_grouped(name):
            return
        try:
            state = self._read(name)
        except Exception as error:
            code = re.search(r"Code: (\d+)", str(error))
            self._sites.count(f"query of Spark: {code[1] if code else type(error).__name__}")
            return
        if self._moved.settled != before or not self._is_grouped(name):
            self._sites.count("query of Spark: passed over, the source moved")
            return
        self._sites.count("query of Spark: answered")
        if problem := self._moved.history.check_prefix(state):
            self._sites.fail(f"Spark on {name}: {problem}")

    def _is_grouped(self, name: str) -> bool:
        """Tells whether every replica that answers shows the tables as a group."""
        for client in self._sites.clients[name]:
            try:
                client.value(f"SELECT lastCut('{self._moved.tables[0]}')")
            except PandoError as error:
                if error.name == "BAD_ARGUMENTS":
                    return False
        return True

    def _read(self, name: str) -> State:
        spark = self._open_session()
        urls = ",".join(f"http://127.0.0.1:{client.port}" for client in self._sites.clients[name])
        frames = [
            spark.read.format("pando")
            .options(url=urls, table=table, **_PATIENCE)
            .load()
            .selectExpr(f"'{table}'", "k", "v")
            for table in self._moved.tables
        ]
        union = frames[0]
        for frame in frames[1:]:
            union = union.union(frame)
        rows = defaultdict(set)
        for table, key, value in union.collect():
            rows[table].add((int(key), int(value)))
        return {table: frozenset(rows[table]) for table in self._moved.tables}

    def _open_session(self) -> SparkSession:
        from pyspark.sql import SparkSession

        from spark_connector import configure, use_session

        if self._session is None:
            builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
            self._session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
            self._session.sparkContext.setLogLevel("OFF")
            configure(self._session)
            use_session(self._session)
        return self._session
