"""Random damage of a replica's directory, running and stopped, in a history of INSERTs, merges and mutations.

After each damage queries are right or fail with an error that names a part; then the replica is mended, alone: all
replicas hold the same, every byte of it, and no byte of the disk has gone that is not in ``detached/`` or covered by an
active part. ``python -m tests.recovery damage 0:500`` does five hundred.
"""

from __future__ import annotations

import contextlib
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from engine.simulator.simulated_disk import SimulatedDisk, Tree, read_directory, record_syncs, write_directory
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.trace import Trace
from parts.common.errors import CorruptionError, PandoError
from parts.common.part_name import PartName
from parts.common.thread_pool import run_jobs_inline
from parts.store.detached_parts import DETACHED
from tests.recovery.damages import DAMAGES, DEFINITION, KINDS

DAMAGES_A_HISTORY = 10
_COLUMNS = "p UInt32, k UInt64, s String, d DateTime"
_PARTITIONS = 8
_ROWS = 20
_ENGINE = "ReplicatedMergeTree('/clickhouse/tables/1/damaged', '{replica}')"
_QUERY = "SELECT p, count(), sum(k), max(s), max(d) FROM damaged WHERE s >= 's' GROUP BY p ORDER BY p"
_ALLOWED = {40, 74, 226, 246, 227}
"""Codes of a part that is not what was written."""
Rows = list[tuple[object, ...]]


class DamagedReplicas:
    """Two servers with a replicated table; made by :func:`damaged_replicas`."""

    def __init__(self, servers: SimulatedServers, kind: str) -> None:
        servers.power_cut_rate = 0.0
        self._servers = servers
        self._next_key = 0
        self.counts: Counter[str] = Counter()
        for server in servers.servers:
            server.sql(f"CREATE TABLE damaged ({_COLUMNS}) ENGINE = {_ENGINE} {DEFINITION} SETTINGS {KINDS[kind]}")
        for partition in range(_PARTITIONS):
            self._insert(servers.servers[0], partition)
        servers.settle()

    def damage(self, seed: int) -> None:
        """Works a little, damages something of one server, and checks everything. Raises ``AssertionError``."""
        rng = random.Random(seed)
        self._work(rng)
        whole, hurt = self._servers.servers
        if rng.random() < 0.5:
            whole, hurt = hurt, whole
        right = whole.sql(_QUERY)[1]
        assert hurt.sql(_QUERY)[1] == right
        is_stopped = rng.random() < 0.5
        if is_stopped:
            hurt.crash()
        elif rng.random() < 0.7:  # else all parts are open, and mapped
            hurt.sql("DETACH TABLE damaged")
            hurt.sql("ATTACH TABLE damaged")
            self._servers.settle()
        what, after = self._hurt(hurt, rng)
        self.counts[f"{what.partition(' ')[0]} {'stopped' if is_stopped else 'running'}"] += 1
        if is_stopped:
            assert hurt.found is not None
            hurt.start()
        else:
            self._ask(hurt, right, what)
        self._mend(hurt)
        self._servers.settle(rounds=200)
        self._servers.check_equal()
        for server in self._servers.servers:
            assert not (broken := self._broken(server)), f"{what}: {server.name} has broken parts: {broken}"
            assert (found := server.sql(_QUERY)[1]) == right, f"{what}: {server.name} shows {found}, not {right}"
        self._check_bytes(hurt, after, what)

    # -- work -----------------------------------------------------------------------------------------------------

    def _insert(self, server: SimulatedServer, partition: int) -> None:
        first, self._next_key = self._next_key, self._next_key + _ROWS
        server.sql(
            f"INSERT INTO damaged SELECT {partition}, number, concat('s', toString(number)), "
            f"toDateTime('2024-01-01 00:00:00') + number FROM numbers({first}, {_ROWS})"
        )

    def _work(self, rng: random.Random) -> None:
        server = rng.choice(self._servers.servers)
        partition = rng.randrange(_PARTITIONS)
        self._insert(server, partition)
        if rng.random() < 0.3:
            server.sql(f"OPTIMIZE TABLE damaged PARTITION {partition} FINAL")
        if rng.random() < 0.1:
            server.sql(f"ALTER TABLE damaged UPDATE s = concat(s, '+') IN PARTITION {partition} WHERE k % 3 = 0")
        if rng.random() < 0.1:  # or the rows of one partition would become most of all
            server.sql(f"ALTER TABLE damaged DROP PARTITION {partition}")
            self._insert(server, partition)
        self._servers.settle()

    # -- damage ---------------------------------------------------------------------------------------------------

    def _hurt(self, server: SimulatedServer, rng: random.Random) -> tuple[str, Tree]:
        """What was done, and what the directory of the table is then."""
        relative = self._home(server).relative_to(server.path)
        if server.is_up:
            home = self._home(server)
            what = _hurt_something(home, rng)
            return what, read_directory(home)
        with as_files(self._servers.root / "stopped", server) as root:
            what = _hurt_something(root / relative, rng)
            server.found = read_directory(root)
            return what, read_directory(root / relative)

    @staticmethod
    def _home(server: SimulatedServer) -> Path:
        return server.path / "data" / "default" / "damaged"

    def _ask(self, server: SimulatedServer, right: Rows, what: str) -> None:
        """While nobody has mended it: the right answer, or an error that says which part."""
        for partition in range(_PARTITIONS):
            query = _QUERY.replace("WHERE", f"WHERE p = {partition} AND")
            try:
                found = server.sql(query)[1]
            except PandoError as error:
                self.counts["a query failed"] += 1
                problem = error
            else:
                assert found == [row for row in right if row[0] == partition], f"{what}: a wrong answer: {found}"
                continue
            assert isinstance(problem, CorruptionError), f"{what}: {problem!r}"
            assert problem.code in _ALLOWED, f"{what}: {problem}"
            assert problem.part in problem.message, f"{what}: {problem}"

    def _mend(self, server: SimulatedServer) -> None:
        """What no query meets CHECK TABLE finds. A server that lost what says who it is waits for the end of its own
        former session."""
        self._servers.end_zombies()
        self._servers.settle(rounds=200)
        self.counts["broken parts found by CHECK"] += len(self._broken(server))

    @staticmethod
    def _broken(server: SimulatedServer) -> Rows:
        return [row for row in server.sql("CHECK TABLE damaged")[1] if not row[1]]

    # -- afterwards -----------------------------------------------------------------------------------------------

    def _check_bytes(self, server: SimulatedServer, before: Tree, what: str) -> None:
        """Every byte that was there is there, in ``detached/``, or of a part that an active one covers."""
        home = self._home(server)
        now = read_directory(home)
        detached = now.get(DETACHED, {})
        assert isinstance(detached, dict)
        active = [part.name for part in server.engine.catalog.table("default", "damaged").store.list_active()]
        for name, content in before.items():
            if now.get(name) == content or not content:
                continue
            if name == DETACHED:
                assert isinstance(content, dict)
                missing = [entry for entry in content if detached.get(entry) != content[entry]]
                assert not missing, f"{what}: {missing} are gone from detached/"
                continue
            part = PartName.try_parse(name)
            if part is not None and any(other != part and other.covers(part) for other in active):
                continue
            if part is None and name.startswith(("tmp_", "delete_tmp_")):
                continue
            assert content in detached.values(), f"{what}: {name} is neither there nor in detached/: {sorted(detached)}"


def _hurt_something(home: Path, rng: random.Random) -> str:
    """In the directory of a table: a whole part, or one file. In ``detached/`` lies what nobody could bring back."""
    folders = sorted(path for path in home.iterdir() if path.is_dir() and path.name != DETACHED)
    files = sorted(path for path in home.rglob("*") if path.is_file() and DETACHED not in path.relative_to(home).parts)
    if rng.random() < 0.15:
        folder = rng.choice([*folders, *([home / DETACHED] if not any((home / DETACHED).iterdir()) else [])])
        shutil.rmtree(folder)
        return f"folder {folder.name}"
    file, name = rng.choice(files), rng.choice([name for name in DAMAGES if name != "unreadable"])
    DAMAGES[name](file)
    return f"{name} {file.relative_to(home)}"


@contextlib.contextmanager
def as_files(root: Path, server: SimulatedServer) -> Iterator[Path]:
    """The disk of a server that is down, as files."""
    assert server.found is not None
    write_directory(root, server.found)
    try:
        yield root
    finally:
        shutil.rmtree(root)


@contextlib.contextmanager
def damaged_replicas(root: Path, seed: int) -> Iterator[DamagedReplicas]:
    """The seed of its first damage says which kind of parts they have."""
    kind = list(KINDS)[seed // DAMAGES_A_HISTORY % len(KINDS)]
    disks: dict[Path, SimulatedDisk] = {}
    with record_syncs(disks), run_jobs_inline():
        servers = SimulatedServers(root, 2, 1, Trace(None), disks, old_parts_lifetime=40, cleanup_delay_period=5)
        try:
            servers.settle()
            yield DamagedReplicas(servers, kind)
        finally:
            servers.end()
