"""Everything that changes a replicated table, hit at any request to ZooKeeper and at any fsync: the whole matrix.

An operation is a statement, and what the replicas then do; requests and fsyncs are counted over all replicas, until
they rest. Whoever makes the one that is hit loses the request, or its answer, or its session, or dies. When all has
healed, the replicas show what was before the operation, or what is after it, as the client was told.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from coordination.inserts.block_numbers import list_partition_ids
from coordination.keeper.memory_keeper import Fault
from engine.simulator.simulated_disk import SimulatedDisk, record_syncs
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.step_pool import Crash
from engine.simulator.trace import Trace
from parts.common.errors import PandoError, UnknownOutcomeError
from parts.common.thread_pool import run_jobs_inline
from tests.faults import DISK_FAULTS, FAULTS, SYNC_FAULTS, hit_disk, hit_request, hit_sync

Rows = list[tuple[object, ...]]
State = tuple[list[str], Rows, object]
"""Names of the columns, rows, and what else the operation is about."""

ROWS: Rows = [(1, 1, "value 1"), (1, 3, "value 3"), (1, 4, "value 4"), (2, 2, "value 2")]
_LEFT = [row for row in ROWS if row[1] != 3]
_TTL = "toDateTime(if(k = 3, 1, 4000000000))"
_LAST = 99
_WAIT_SECONDS = 60.0
"""Of the simulator: a session that expired under a statement comes back only when the statement has ended."""
_DISK_WAIT_SECONDS = 10.0
"""A disk that is read-only stays so while a statement waits for what the queue cannot do."""
_WORDLESS = (49, 1001, 1002)
"""Codes of errors that say nothing to a user."""
_OTHER = (
    "CREATE TABLE s (p UInt8, k UInt64, v String) ENGINE = MergeTree PARTITION BY p ORDER BY k",
    "INSERT INTO s VALUES (1, 7, 'of s')",
)
_SECOND = """
CREATE TABLE u (p UInt8, k UInt64, v String)
ENGINE = ReplicatedMergeTree('/tables/u', '{replica}') PARTITION BY p ORDER BY k
"""
_INDEXED = "ALTER TABLE t ADD INDEX i v TYPE set(10)"
_SYNC = "SETTINGS alter_sync = 2, mutations_sync = 2"


def _indexes(server: SimulatedServer) -> object:
    """Those of the table, and in how many of its parts each is."""
    parts = server.table.store.list_active()
    indexes = server.table.definition.description.indexes
    return {index.name: sum(part.read_skip_index(index) is not None for part in parts) for index in indexes}


def _detached(server: SimulatedServer) -> object:
    names = server.table.store.list_detached()
    return sorted({name.partition("_")[0] for name in names})


def _second(server: SimulatedServer) -> object:
    return server.sql("SELECT * FROM u ORDER BY ALL")[1]


def _unfinished(server: SimulatedServer) -> object:
    return sum(not shown.is_done for shown in server.table.mutations.shown())


def _partitions(server: SimulatedServer) -> object:
    """Those that ZooKeeper knows."""
    return list_partition_ids(server.keeper, server.table.replication.paths)


def _ttl(server: SimulatedServer) -> object:
    return server.table.definition.description.ttl.text


@dataclass(frozen=True)
class Operation:
    """``after``: the rows, ``columns`` their names, ``other`` what ``look`` gives; before it there are ``before``."""

    statement: str
    after: Rows
    columns: str = "p k v"
    prepare: tuple[str, ...] = ()
    everywhere: str = ""
    """What every replica does before that."""
    look: Callable[[SimulatedServer], object] = lambda server: None
    other: object = None
    before: Rows | None = None
    """If not the usual."""
    halfway: Rows | None = None
    """It has two steps, which a client who got no answer may find apart: the rows then, and all else as after it."""
    is_repeated: bool = False
    """Until it is done: what it ends would never rest."""
    action: Callable[[SimulatedServer], object] | None = None
    """In place of the statement."""
    hurt: Callable[[SimulatedServer], None] = lambda server: None
    """What happened to the disk before it, unseen."""

    def run(self, server: SimulatedServer) -> None:
        (self.action or (lambda server: server.sql(self.statement)))(server)


OPERATIONS = {
    "add column": Operation(
        f"ALTER TABLE t ADD COLUMN c UInt64 DEFAULT k * 2 {_SYNC}", [(*r, int(str(r[1])) * 2) for r in ROWS], "p k v c"
    ),
    "drop column": Operation(f"ALTER TABLE t DROP COLUMN v {_SYNC}", [row[:2] for row in ROWS], "p k"),
    "modify column": Operation(
        f"ALTER TABLE t MODIFY COLUMN c String {_SYNC}", [(*row, str(row[1])) for row in ROWS], "p k v c",
        ("ALTER TABLE t ADD COLUMN c UInt8 DEFAULT k", "INSERT INTO t VALUES (2, 5, 'v', 5)", "ALTER TABLE t DELETE "
         "WHERE k = 5 SETTINGS mutations_sync = 2"), before=[(*row, row[1]) for row in ROWS],
    ),
    "rename column": Operation(f"ALTER TABLE t RENAME COLUMN v TO w {_SYNC}", ROWS, "p k w"),
    "modify TTL": Operation(
        f"ALTER TABLE t MODIFY TTL {_TTL} {_SYNC}", _LEFT, look=_ttl, other=_TTL, halfway=ROWS
    ),
    "add index": Operation(f"{_INDEXED} {_SYNC}", ROWS, look=_indexes, other={"i": 0}),
    "drop index": Operation(f"ALTER TABLE t DROP INDEX i {_SYNC}", ROWS, prepare=(_INDEXED,), look=_indexes, other={}),
    "materialize index": Operation(
        f"ALTER TABLE t MATERIALIZE INDEX i {_SYNC}", ROWS, prepare=(_INDEXED,), look=_indexes, other={"i": 3}
    ),
    "update": Operation(
        f"ALTER TABLE t UPDATE v = concat(v, '+') WHERE k != 2 {_SYNC}",
        [(p, k, f"{v}+") for p, k, v in ROWS[:3]] + ROWS[3:],
    ),
    "delete": Operation(f"ALTER TABLE t DELETE WHERE k = 3 {_SYNC}", _LEFT),
    "lightweight delete": Operation("DELETE FROM t WHERE k = 3 SETTINGS lightweight_deletes_sync = 2", _LEFT),
    "kill mutation": Operation(
        "KILL MUTATION WHERE NOT is_done", ROWS, look=_unfinished, other=0, is_repeated=True,
        prepare=("ALTER TABLE t UPDATE v = toString(throwIf(k = 3)) WHERE k = 3 SETTINGS mutations_sync = 0",),
    ),
    "drop partition": Operation(f"ALTER TABLE t DROP PARTITION 1 {_SYNC}", ROWS[3:]),
    "detach partition": Operation(
        f"ALTER TABLE t DETACH PARTITION 1 {_SYNC}", ROWS[3:], look=_detached, other=["1"]
    ),
    "attach partition": Operation(
        f"ALTER TABLE t ATTACH PARTITION 1 {_SYNC}", ROWS, before=ROWS[3:],
        prepare=("ALTER TABLE t DETACH PARTITION 1 SETTINGS alter_sync = 2",),
    ),
    "attach partition from": Operation(
        f"ALTER TABLE t ATTACH PARTITION 1 FROM s {_SYNC}", [*ROWS[:3], (1, 7, "of s"), *ROWS[3:]], prepare=_OTHER
    ),
    "replace partition": Operation(
        f"ALTER TABLE t REPLACE PARTITION 1 FROM s {_SYNC}", [(1, 7, "of s"), *ROWS[3:]], prepare=_OTHER
    ),
    "move partition": Operation(
        f"ALTER TABLE s MOVE PARTITION 1 TO TABLE t {_SYNC}", [*ROWS[:3], (1, 7, "of s"), *ROWS[3:]], prepare=_OTHER
    ),
    "move partition to replicas": Operation(
        f"ALTER TABLE t MOVE PARTITION 1 TO TABLE u {_SYNC}", ROWS[3:], everywhere=_SECOND,
        prepare=("INSERT INTO u VALUES (1, 3, 'of u')",), look=_second, other=sorted([(1, 3, "of u"), *ROWS[:3]]),
    ),
    "drop part": Operation(f"ALTER TABLE t DROP PART '1_0_0_0' {_SYNC}", ROWS[1:]),
    "forget partition": Operation(
        "ALTER TABLE t FORGET PARTITION 1", ROWS[3:], before=ROWS[3:], look=_partitions, other=["2"],
        prepare=(f"ALTER TABLE t DROP PARTITION 1 {_SYNC}",),
    ),
    "truncate": Operation(f"TRUNCATE TABLE t {_SYNC}", [], halfway=ROWS[3:]),
    "TTL merge": Operation(
        "OPTIMIZE TABLE t FINAL SETTINGS alter_sync = 2", _LEFT,
        prepare=(f"ALTER TABLE t MODIFY TTL {_TTL} SETTINGS materialize_ttl_after_modify = 0",),
    ),
    "deduplicate": Operation(
        "OPTIMIZE TABLE t FINAL DEDUPLICATE SETTINGS alter_sync = 2", ROWS, before=sorted([*ROWS, ROWS[1]]),  # type: ignore[type-var]
        prepare=("INSERT INTO t VALUES (1, 3, 'value 3')",),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """``number`` of the request, the fsync, or the file operation, that is hit."""

    operation: str
    number: int
    fault: Fault | int | str
    kind: str

    def __str__(self) -> str:
        return f"{self.operation}, {self.kind} {self.number}: {self.fault}"


class Matrix:
    """Made by :func:`matrix`; each case has replicas of its own, of the same history."""

    def __init__(self, path: Path, disks: dict[Path, SimulatedDisk], operations: Mapping[str, Operation]) -> None:
        self._path = path
        self._operations = operations
        self._disks = disks
        self._numbers = itertools.count()

    def cases(self, name: str, *, distinct: bool = False) -> Iterator[Case]:
        """All of an operation. ``distinct``: of requests of which who asks what is equal, the first and the last."""
        with self._servers(name) as servers:
            requests = hit_request(servers, 0, "crash")
            syncs = hit_sync(servers, 0, "crash")
            self._run(servers, name)
        first = {text: number for number, text in reversed([*enumerate(requests, 1)])}
        last = {text: number for number, text in enumerate(requests, 1)}
        numbers = sorted({*first.values(), *last.values()}) if distinct else range(1, len(requests) + 1)
        yield from (Case(name, number, fault, "request") for number in numbers for fault in FAULTS)
        yield from (Case(name, number, fault, "fsync") for number in range(1, len(syncs) + 1) for fault in SYNC_FAULTS)

    def disk_cases(self, name: str) -> Iterator[Case]:
        """All of an operation that an error of a disk makes."""
        with self._servers(name, _DISK_WAIT_SECONDS) as servers, servers.watch_disks():
            seen = hit_disk(servers, 0, 0)
            self._run(servers, name)
        for number, operation in enumerate(seen, 1):
            for fault, kinds in DISK_FAULTS.items():
                if kinds is None or operation.kind in kinds:
                    yield Case(name, number, fault, operation.kind)

    def check(self, case: Case) -> None:
        with self._servers(case.operation) as servers:
            before = _state(servers.servers[0], self._operations[case.operation])
            if case.kind == "fsync":
                assert isinstance(case.fault, int | str)
                hit_sync(servers, case.number, case.fault)
            else:
                assert isinstance(case.fault, Fault | str)
                hit_request(servers, case.number, case.fault)
            answer = self._run(servers, case.operation)
            self._check(servers, case.operation, before, answer)

    def check_disk(self, case: Case) -> None:
        """Also over a restart of all."""
        with self._servers(case.operation, _DISK_WAIT_SECONDS) as servers:
            before = _state(servers.servers[0], self._operations[case.operation])
            with servers.watch_disks():
                assert isinstance(case.fault, int)
                hit_disk(servers, case.number, case.fault)
                answer = self._run(servers, case.operation)
            self._check(servers, case.operation, before, answer)
            for server in servers.servers:
                homes = {part.path.relative_to(server.table.store.path) for part in server.table.store.list_active()}
                assert homes == {Path(str(part.name)) for part in server.table.store.list_active()}
            found = [_state(server, self._operations[case.operation]) for server in servers.servers]
            servers.power_cut_rate = 0.0
            for server in servers.servers:
                server.restart()
            servers.settle()
            again = [_state(server, self._operations[case.operation]) for server in servers.servers]
            assert again == found, f"{found} became {again} by a restart"

    @contextlib.contextmanager
    def _servers(self, name: str, queue_wait_seconds: float = _WAIT_SECONDS) -> Iterator[SimulatedServers]:
        """Two replicas; one of them lacks a part of the other."""
        root = self._path / str(next(self._numbers))
        servers = SimulatedServers(root, 2, 1, Trace(None), self._disks, queue_wait_seconds=queue_wait_seconds)
        operation = self._operations[name]
        try:
            servers.settle()
            one, two = servers.servers
            one.insert(1, [1])
            two.insert(2, [2])
            servers.settle()
            one.insert(1, [3, 4])
            for server in servers.servers if operation.everywhere else ():
                server.sql(operation.everywhere)
            for statement in operation.prepare:
                one.sql(statement)
            if operation.prepare:
                _work(servers)
            yield servers
        finally:
            servers.end()

    def _run(self, servers: SimulatedServers, name: str) -> str:
        """What the client hears; then all work on, while they may be hit."""
        one, answer, code = servers.servers[0], "done", 0
        self._operations[name].hurt(one)
        try:
            self._operations[name].run(one)
        except (UnknownOutcomeError, Crash, OSError):  # of a disk's error nobody says when it came
            answer = "unknown"
        except PandoError as error:
            answer, code = "refused", error.code
        assert code not in _WORDLESS, code
        _work(servers)
        return answer

    def _check(self, servers: SimulatedServers, name: str, before: State, answer: str) -> None:
        operation = self._operations[name]
        after: State = (operation.columns.split(), operation.after, operation.other)
        assert before[1] == (operation.before or ROWS), before
        servers.calm()
        one = servers.servers[0]
        if operation.is_repeated and answer != "done":
            _work(servers)
            operation.run(one)
            answer = "done"
        servers.settle()
        servers.check_equal()
        found = _state(one, operation)
        allowed = {"done": [after], "refused": [before], "unknown": [before, after]}[answer]
        if operation.halfway is not None and answer == "unknown":
            allowed.append((after[0], operation.halfway, after[2]))
        assert found in allowed, f"{answer}, but there is {found}, not {allowed}"
        for node in servers.servers:
            assert _state(node, operation) == found, f"{node.name} differs"
        one.sql(f"INSERT INTO t (p, k) VALUES (1, {_LAST})")
        servers.settle()
        servers.check_equal()
        for node in servers.servers:
            assert node.keys()[-1] == _LAST, node.name


def _work(servers: SimulatedServers) -> None:
    for _ in range(4):
        for node in servers.servers:
            servers.now += 7
            with contextlib.suppress(PandoError, OSError, Crash):
                node.step_all()


def _state(server: SimulatedServer, operation: Operation) -> State:
    result, rows = server.sql("SELECT * FROM t ORDER BY ALL")
    return [name for name, _ in result.columns], rows, operation.look(server)


@contextlib.contextmanager
def matrix(path: Path, operations: Mapping[str, Operation] = OPERATIONS) -> Iterator[Matrix]:
    disks: dict[Path, SimulatedDisk] = {}
    with record_syncs(disks), run_jobs_inline():
        yield Matrix(path, disks, operations)
