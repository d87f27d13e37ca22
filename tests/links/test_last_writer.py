"""``last_writer_wins`` on replicas: the later acknowledged statement wins, wherever it ran and however clocks stand."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordination.inserts.block_numbers import BlockLock, allocate_block_number, release_block_number
from coordination.keeper.memory_keeper import MemoryEnsemble
from coordination.links.stream.commit_times import CommitTimes, LargestTime
from coordination.log.log_entry import LogEntry
from coordination.nodes.paths import TablePaths
from engine.simulator.simulated_servers import SimulatedServer
from engine.simulator.statement_costs import CountedTable, counted_table
from engine.tables.replicated.replicated_table import ReplicatedTable
from parts.common.errors import PandoError
from parts.common.part_name import PartName
from parts.read.part_reader import open_part
from parts.table.row_version import RowVersion
from parts.write.part_stamp import stamp_part

ENGINE = "ReplicatedReplacingMergeTree('/tables/{name}', '{{replica}}'{version})"
COLUMNS = "k UInt64, v UInt64, m UInt64 MATERIALIZED v * 2"
KEYS = range(4)
PATHS = TablePaths("/tables/lww")


class Cluster:
    """Two servers with the table ``lww``, and the rows that it must show."""

    def __init__(self, counted: CountedTable) -> None:
        self.counted = counted
        self.rows: dict[int, int] = {}
        self._zookeeper_ahead = 0.0
        self.ensemble.clock = lambda: counted.servers.now + self._zookeeper_ahead

    @property
    def ensemble(self) -> MemoryEnsemble:
        return self.counted.servers.ensemble

    @property
    def servers(self) -> list[SimulatedServer]:
        return self.counted.servers.servers

    def create(self, name: str = "lww", columns: str = COLUMNS, version: str = "", rest: str = "") -> None:
        """``rest`` are more settings."""
        engine = ENGINE.format(name=name, version=version)
        for server in self.servers:
            server.sql(
                f"CREATE TABLE {name} ({columns}) ENGINE = {engine} ORDER BY k SETTINGS last_writer_wins = 1, "
                f"cleanup_delay_period = 1, min_replicated_logs_to_keep = 1{rest}"
            )
        for server in self.servers:
            self.table(server, name).merge_steps.is_enabled = False

    def table(self, server: SimulatedServer, name: str = "lww") -> ReplicatedTable:
        found = server.engine.catalog.table("default", name)
        assert isinstance(found, ReplicatedTable)
        return found

    def set_clocks(self, zookeeper: float, servers: list[float]) -> None:
        """Sets how many seconds each clock is ahead."""
        self._zookeeper_ahead = zookeeper
        for server, ahead in zip(self.servers, servers, strict=True):
            server.clock.skew = ahead

    def work(self, rounds: int = 50) -> None:
        for _ in range(rounds):
            self.counted.servers.now += 0.05
            self.counted.servers.step_others()

    def settle(self, name: str = "lww") -> None:
        """Runs background work until the replicas have the same parts."""

        def is_done() -> bool:
            tables = [self.table(server, name) for server in self.servers]
            parts = [{part.name for part in table.store.list_active()} for table in tables]
            is_idle = all(t.state.activation is not None and not t.state.queue.list_entries() for t in tables)
            return is_idle and all(found == parts[0] for found in parts)

        self.counted.work_until(is_done)

    def show(self, server: SimulatedServer, final: str = "FINAL") -> dict[int, int]:
        rows = server.sql(f"SELECT k, v, m FROM lww {final} ORDER BY k")[1]
        assert all(m == 2 * int(str(v)) for _, v, m in rows)
        assert len({row[0] for row in rows}) == len(rows)
        return {int(str(row[0])): int(str(row[1])) for row in rows}

    def check(self) -> None:
        """Both replicas show the rows with FINAL, and without it once all is merged."""
        self.settle()
        for server in self.servers:
            assert self.show(server) == self.rows
            assert server.sql("SELECT count() FROM lww FINAL")[1] == [(len(self.rows),)]
        self.servers[0].sql("OPTIMIZE TABLE lww FINAL")
        self.settle()
        for server in self.servers:
            assert self.show(server, "") == self.show(server) == self.rows
            assert server.sql("SELECT count() FROM lww")[1] == [(len(self.rows),)]


@contextlib.contextmanager
def make_cluster(root: Path) -> Iterator[Cluster]:
    with counted_table(root, "k UInt64", "ORDER BY k", replicas=2) as counted:
        yield Cluster(counted)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with make_cluster(tmp_path) as made:
        made.create()
        yield made


def run_random_statement(cluster: Cluster, random: Random, number: int) -> None:
    """Runs one statement on one server, with clocks that may have stepped, and updates the expected rows."""
    cluster.set_clocks(
        random.choice([0, -86_400, 3600, random.uniform(-9, 9)]), [random.uniform(-1e6, 1e6) for _ in "12"]
    )
    server = random.choice(cluster.servers)
    keys = random.sample(KEYS, random.randint(1, 3))
    chosen = ", ".join(map(str, keys))
    match random.choice(["insert", "insert", "insert", "delete", "alter delete", "update", "merge", "restart", "work"]):
        case "insert":
            server.sql(f"INSERT INTO lww VALUES {', '.join(f'({key}, {number})' for key in keys)}")
            cluster.rows |= dict.fromkeys(keys, number)
        case "delete":
            server.sql(f"DELETE FROM lww WHERE k IN ({chosen})")
            cluster.rows = {key: value for key, value in cluster.rows.items() if key not in keys}
        case "alter delete":
            server.sql(f"ALTER TABLE lww DELETE WHERE k IN ({chosen})")
            cluster.rows = {key: value for key, value in cluster.rows.items() if key not in keys}
        case "update":
            server.sql(f"ALTER TABLE lww UPDATE v = v + 1000 WHERE k IN ({chosen})")
            cluster.rows |= {key: cluster.rows[key] + 1000 for key in keys if key in cluster.rows}
        case "merge":
            server.sql("OPTIMIZE TABLE lww")
        case "restart":
            server.stop()
            server.start()
            cluster.work(20)
        case _:
            cluster.work(random.randint(1, 60))


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_later_acknowledged_statement_wins(seed: int) -> None:
    random = Random(seed)
    with tempfile.TemporaryDirectory() as root, make_cluster(Path(root)) as cluster:
        cluster.create()
        for number in range(1, random.randint(4, 16)):
            run_random_statement(cluster, random, number)
        cluster.rows = dict(sorted(cluster.rows.items()))
        cluster.check()


def test_two_servers_and_one_millisecond(cluster: Cluster) -> None:
    """ZooKeeper stamps all nodes with one time; each INSERT still gets a later one."""
    cluster.ensemble.clock = lambda: 1_700_000_000.0
    for number in range(6):
        cluster.servers[number % 2].sql(f"INSERT INTO lww VALUES (1, {number})")
    cluster.rows = {1: 5}
    cluster.settle()
    times = cluster.servers[0].sql("SELECT toUnixTimestamp64Micro(_commit_time) FROM lww ORDER BY v")[1]
    assert [time for (time,) in times] == [1_700_000_000_000_000 + number for number in range(6)]
    cluster.check()


def test_zookeepers_clock_steps_back(cluster: Cluster) -> None:
    one, two = cluster.servers
    one.sql("INSERT INTO lww VALUES (1, 1)")
    cluster.set_clocks(-365 * 86_400, [0, 0])
    two.sql("INSERT INTO lww VALUES (1, 2)")
    cluster.rows = {1: 2}
    cluster.check()


def test_the_largest_time_outlives_the_log(cluster: Cluster) -> None:
    """And a server that never had the row, as after the loss of its disk, still gets a later time."""
    one, two = cluster.servers
    keeper = cluster.ensemble.connect()
    for number in range(4):
        one.sql(f"INSERT INTO lww VALUES (1, {number})")
    largest = max(
        LogEntry.parse(keeper.get(f"{PATHS.log}/{name}")[0]).commit_time for name in keeper.children(PATHS.log)
    )
    cluster.settle()
    cluster.counted.work_until(lambda: len(keeper.children(PATHS.log)) < 3)
    kept = LargestTime.parse(keeper.get(PATHS.commit_time)[0])
    assert kept.commit_time == largest
    assert all(int(name[4:]) >= kept.trimmed for name in keeper.children(PATHS.log))
    cluster.set_clocks(-10 * 86_400, [0, 0])
    times = CommitTimes(PATHS)
    with cluster.table(two).state.hold_write_access() as (active, _):
        taken = allocate_block_number(active, PATHS, "all", owner="r2")
        assert isinstance(taken, BlockLock)
        made = times.make_version(active, taken, 0)
        release_block_number(active, taken)
    assert made.commit_time == largest + 1


def test_every_replica_has_the_same_versions(cluster: Cluster) -> None:
    """By fetches of inserted parts, and by a clone of merged ones."""
    one, two = cluster.servers
    one.sql("INSERT INTO lww VALUES (1, 1), (2, 1)")
    two.sql("INSERT INTO lww VALUES (2, 2)")
    cluster.settle()
    query = "SELECT *, _commit_time, _origin, _origin_block FROM lww ORDER BY ALL"
    assert one.sql(query)[1] == two.sql(query)[1]
    files = [
        {part.name: part.row_version for part in cluster.table(server).store.list_active()} for server in (one, two)
    ]
    assert files[0] == files[1]
    assert sorted(version.block for version in files[0].values()) == [0, 1]  # type: ignore[type-var]
    two.sql("DROP TABLE lww SYNC")
    one.sql("OPTIMIZE TABLE lww FINAL")
    before = one.sql(query)[1]
    two.sql(
        f"CREATE TABLE lww ({COLUMNS}) ENGINE = {ENGINE.format(name='lww', version='')} ORDER BY k "
        "SETTINGS last_writer_wins = 1"
    )
    cluster.settle()
    assert two.sql(query)[1] == before
    two.sql("INSERT INTO lww VALUES (2, 3)")
    cluster.rows = {1: 1, 2: 3}
    cluster.check()


def bring_block(cluster: Cluster, version: RowVersion, values: str, *, is_delete: bool = False) -> None:
    """Brings a block of another cluster, as a link's batch does: as a part that has its version already."""
    one = cluster.servers[0]
    table = cluster.table(one)
    known = {part.name for part in table.store.list_active()}
    one.sql("DELETE FROM lww WHERE k = 77" if is_delete else f"INSERT INTO lww VALUES {values}")
    (name,) = {part.name for part in table.store.list_active()} - known
    one.sql(f"ALTER TABLE lww DETACH PART '{name}'")
    directory = table.store.path / "detached" / str(name)
    stamp_part(directory, version, table.description.settings)
    one.sql(f"ALTER TABLE lww ATTACH PART '{name}'")


def test_blocks_of_other_clusters_count_by_their_versions(cluster: Cluster) -> None:
    one = cluster.servers[0]
    one.sql("INSERT INTO lww VALUES (1, 1), (2, 1), (3, 1)")
    cluster.settle()
    (mine,) = (part.row_version for part in cluster.table(one).store.list_active())
    bring_block(cluster, RowVersion(mine.commit_time - 5, "west", 3), "(1, 50)")
    bring_block(cluster, RowVersion(mine.commit_time + 5, "west", 4), "(2, 51)")
    far = mine.commit_time + 10**12
    bring_block(cluster, RowVersion(far, "west", 5), "(3, 52)")
    cluster.rows = {1: 1, 2: 51, 3: 52}
    cluster.settle()
    assert [cluster.show(server) for server in cluster.servers] == [cluster.rows] * 2
    one.sql("INSERT INTO lww VALUES (3, 2)")  # what was seen here is older, whatever the other cluster's clock says
    cluster.rows[3] = 2
    versions = [part.row_version for part in cluster.table(one).store.list_active()]
    assert far < max(version.commit_time for version in versions) < far + 9
    cluster.check()
    conflicts = sum(
        server.engine.services.conflicts[cluster.table(server).definition.data_path] for server in cluster.servers
    )
    assert conflicts >= 3


def test_an_attached_part_is_older_than_what_another_replica_takes_next(cluster: Cluster) -> None:
    """The other replica has not carried the ATTACH out."""
    two = cluster.servers[1]
    far = 4 * 10**15
    bring_block(cluster, RowVersion(far, "west", 5), "(1, 50)")
    assert all(part.row_version.commit_time < far for part in cluster.table(two).store.list_active())
    two.sql("INSERT INTO lww VALUES (1, 2)")
    cluster.rows = {1: 2}
    cluster.check()


def test_an_older_row_that_comes_late_stays_deleted(cluster: Cluster) -> None:
    one = cluster.servers[0]
    one.sql("INSERT INTO lww VALUES (1, 1), (2, 1)")
    (mine,) = (part.row_version for part in cluster.table(one).store.list_active())
    one.sql("DELETE FROM lww WHERE k = 1")
    cluster.settle()
    one.sql("OPTIMIZE TABLE lww FINAL")
    cluster.settle()
    bring_block(cluster, RowVersion(mine.commit_time - 1, "west", 0), "(1, 9)")
    cluster.rows = {2: 1}
    cluster.check()


def test_the_largest_time_is_known_without_a_look_at_the_parts(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever brought a part: an INSERT, a fetch, a merge, ATTACH, a start."""
    one, two = cluster.servers
    late = RowVersion(2 * 10**15, "6b1f0c2e-5f5d-4b57-9d0c-0f6f6f1f9a10.5.1-00c0ffee00c0ffee", 3)
    bring_block(cluster, late, "(1, 100)")
    cluster.settle()
    one.sql("OPTIMIZE TABLE lww FINAL")
    cluster.settle()
    for server in (one, two):
        store = cluster.table(server).store
        assert [part.row_version.commit_time for part in store.list_active()] == [late.commit_time]
        assert store.get_largest_commit_time() == late.commit_time
    two.stop()
    two.start()
    cluster.work(20)
    store = cluster.table(two).store
    assert store.get_largest_commit_time() == late.commit_time
    monkeypatch.setattr(store, "list_active", lambda: pytest.fail("an INSERT lists the parts"))
    two.sql("INSERT INTO lww VALUES (1, 8)")
    monkeypatch.undo()
    cluster.rows = {1: 8}
    cluster.check()


def test_conflict_order_takes_the_place_of_the_time(tmp_path: Path) -> None:
    with make_cluster(tmp_path) as cluster:
        cluster.create(columns="k UInt64, v UInt64, m UInt64 MATERIALIZED v * 2", rest=", conflict_order = 'v % 100'")
        one, two = cluster.servers
        one.sql("INSERT INTO lww VALUES (1, 150), (2, 7)")
        two.sql("INSERT INTO lww VALUES (1, 249), (2, 107)")
        cluster.settle()
        cluster.rows = {1: 150, 2: 107}
        cluster.check()
        one.sql("DELETE FROM lww WHERE k = 1")
        del cluster.rows[1]
        cluster.check()


def test_columns_of_conflict_order_stay_as_they_are(tmp_path: Path) -> None:
    """Rows that met before and after an ALTER would be compared differently, so clusters would keep other rows."""
    with make_cluster(tmp_path) as cluster:
        cluster.create(columns="k UInt64, v Nullable(Float64), w UInt8", rest=", conflict_order = 'v + 1'")
        one = cluster.servers[0]
        for change in ("MODIFY COLUMN v Nullable(Float32)", "CLEAR COLUMN v", "DROP COLUMN v", "RENAME COLUMN v TO x"):
            with pytest.raises(PandoError, match="conflict_order") as told:
                one.sql(f"ALTER TABLE lww {change}")
            assert told.value.code == 524
        one.sql("ALTER TABLE lww MODIFY COLUMN v Nullable(Float64) DEFAULT 3, MODIFY COLUMN w UInt16")


def test_nulls_and_nans_have_their_place_in_any_order(tmp_path: Path) -> None:
    with make_cluster(tmp_path) as cluster:
        cluster.create(columns="k UInt64, v Nullable(Float64)", rest=", conflict_order = 'v'")
        one = cluster.servers[0]
        for order in itertools.permutations(["NULL", "nan", "1"]):
            for value in order:
                one.sql(f"INSERT INTO lww VALUES (1, {value})")
                one.sql(f"INSERT INTO lww VALUES (2, {value if value != 'NULL' else '-1'})")
                one.sql("OPTIMIZE TABLE lww FINAL")
            assert one.sql("SELECT isNull(v), isNaN(v) FROM lww ORDER BY k")[1] == [(1, None), (0, 1)]
            one.sql("TRUNCATE TABLE lww")


def test_a_version_column_comes_first(tmp_path: Path) -> None:
    with make_cluster(tmp_path) as cluster:
        cluster.create(columns="k UInt64, v UInt64, m UInt64 MATERIALIZED v * 2, ver UInt8", version=", ver")
        one, two = cluster.servers
        one.sql("INSERT INTO lww (k, v, ver) VALUES (1, 1, 5), (2, 1, 5)")
        two.sql("INSERT INTO lww (k, v, ver) VALUES (1, 2, 4), (2, 2, 5)")
        cluster.rows = {1: 1, 2: 2}
        cluster.check()


def test_hidden_columns_are_read_by_name_alone(cluster: Cluster) -> None:
    one = cluster.servers[0]
    one.sql("INSERT INTO lww VALUES (1, 1)")
    assert one.sql("SELECT * FROM lww")[1] == [(1, 1)]
    assert [row[0] for row in one.sql("DESCRIBE lww")[1]] == ["k", "v", "m"]
    ((origin, block),) = one.sql("SELECT _origin, _origin_block FROM lww WHERE _commit_time > '2020-01-01'")[1]
    root = cluster.ensemble.connect().get(PATHS.root)[1]
    assert str(origin).split(".")[:2] == ["00000000-0000-0000-0000-000000000000", str(root.created_zxid)]
    assert block == 0
    assert "last_writer_wins = 1" in str(one.sql("SHOW CREATE TABLE lww")[1])
    with pytest.raises(PandoError, match="_origin"):
        one.sql("SELECT _origin FROM costs")


REFUSED = {
    "ALTER TABLE lww MODIFY SETTING last_writer_wins = 0": "last_writer_wins",
    "ALTER TABLE lww RESET SETTING conflict_order": "conflict_order",
    "ALTER TABLE costs MODIFY SETTING last_writer_wins = 1": "last_writer_wins",
    "ALTER TABLE lww ADD COLUMN _origin String": "_origin",
    "ALTER TABLE lww MATERIALIZE COLUMN m": "DELETE and UPDATE only",
    "ALTER TABLE lww UPDATE k = 1 WHERE 1": "key column `k`",
    "OPTIMIZE TABLE lww FINAL DEDUPLICATE": "DEDUPLICATE",
    "OPTIMIZE TABLE lww FINAL CLEANUP": "CLEANUP",
    "CREATE TABLE x (k UInt64) ENGINE = MergeTree ORDER BY k SETTINGS last_writer_wins = 1": "not of MergeTree",
    "CREATE TABLE x (k UInt64) ENGINE = ReplacingMergeTree ORDER BY k SETTINGS last_writer_wins = 1": "not of R",
    "CREATE TABLE x (k UInt64) ENGINE = MergeTree ORDER BY k SETTINGS conflict_order = 'k'": "needs last_writer_wins",
    "CREATE TABLE x (k UInt64, _commit_time Date) ENGINE = {} ORDER BY k SETTINGS last_writer_wins = 1": "reserved",
    "CREATE TABLE x (k UInt64) ENGINE = {} ORDER BY k SETTINGS last_writer_wins = 1, conflict_order = 'rand()'": "rand",
    "CREATE TABLE x (k UInt64) ENGINE = {} ORDER BY k SETTINGS last_writer_wins = 1, conflict_order = 'z'": "`z`",
    "CREATE TABLE x (k UInt64) ENGINE = {} ORDER BY k SETTINGS last_writer_wins = 1, conflict_order = '[k]'": "order",
    "CREATE TABLE x (k UInt64) ENGINE = {} ORDER BY k SETTINGS last_writer_wins = 1, conflict_order = '1'": "no column",
    "CREATE TABLE x (k UInt64) ENGINE = {} ORDER BY k SETTINGS last_writer_wins = 2": "last_writer_wins",
}


def test_refusals_name_the_cause(cluster: Cluster) -> None:
    one = cluster.servers[0]
    one.sql("INSERT INTO lww VALUES (1, 1)")
    for statement, cause in REFUSED.items():
        with pytest.raises(PandoError, match=cause):
            one.sql(statement.replace("{}", ENGINE.format(name="x", version="")))
    assert cluster.show(one) == {1: 1}


def test_a_transaction_is_one_version_at_its_commit(cluster: Cluster) -> None:
    """Rows acknowledged before the commit lose, also those inserted after the transaction's; later ones win."""
    one, two = cluster.servers
    one.sql("INSERT INTO lww VALUES (1, 1), (2, 1), (3, 1)")
    one.sql("INSERT INTO lww SETTINGS insert_transaction = 'job' VALUES (1, 2), (2, 2)")
    two.sql("INSERT INTO lww SETTINGS insert_transaction = 'job' VALUES (3, 2)")
    cluster.set_clocks(-500, [-9e5, 9e5])
    two.sql("INSERT INTO lww VALUES (1, 3)")
    two.sql("DELETE FROM lww WHERE k = 2")
    one.sql("COMMIT TRANSACTION 'job' ON lww")
    two.sql("INSERT INTO lww VALUES (3, 4)")
    cluster.rows = {1: 2, 2: 2, 3: 4}
    cluster.settle()
    stores = [cluster.table(server).store for server in cluster.servers]
    found = [{part.name: part.row_version for part in store.list_active()} for store in stores]
    assert found[0] == found[1]
    versions = [found[0][name] for name in sorted(found[0])]
    job = [version for version in versions if [v.commit_time for v in versions].count(version.commit_time) == 2]
    assert len(job) == 2
    assert len({version.origin for version in versions}) == 1
    assert max(version.commit_time for version in versions) > job[0].commit_time
    cluster.check()


def test_a_replica_without_the_setting_is_refused(cluster: Cluster) -> None:
    two = cluster.servers[1]
    two.sql("DROP TABLE lww SYNC")
    with pytest.raises(PandoError, match="last_writer_wins"):
        two.sql(f"CREATE TABLE lww ({COLUMNS}) ENGINE = {ENGINE.format(name='lww', version='')} ORDER BY k")


def test_tables_without_the_setting_pay_nothing(cluster: Cluster) -> None:
    """No request, no byte, no newer format."""
    one = cluster.servers[0]
    one.sql("INSERT INTO costs VALUES (1)")
    table = cluster.table(one, "costs")
    (part,) = table.store.list_active()
    assert part.checksums.version == (2, 0)
    assert "row_version" not in part.checksums.files
    keeper = cluster.ensemble.connect()
    entries = [
        json.loads(keeper.get(f"{table.replication.paths.log}/{name}")[0])
        for name in keeper.children(table.replication.paths.log)
    ]
    assert all("commit_time" not in entry for entry in entries)
    assert keeper.exists(table.replication.paths.commit_time) is None
    one.sql("INSERT INTO lww VALUES (1, 1)")
    one.sql("INSERT INTO costs VALUES (2)")
    seen: list[str] = []
    cluster.counted.servers.on_request = lambda node, kind, path: seen.append(kind) if node is one else None
    one.sql("INSERT INTO costs VALUES (3)")
    plain, seen[:] = len(seen), []
    one.sql("INSERT INTO lww VALUES (2, 1)")
    assert plain == 2
    assert len(seen) > plain


def test_detached_parts_keep_their_versions(cluster: Cluster) -> None:
    one = cluster.servers[0]
    one.sql("INSERT INTO lww VALUES (1, 1)")
    one.sql("INSERT INTO lww VALUES (1, 2)")
    (first,) = (part for part in cluster.table(one).store.list_active() if part.name == PartName("all", 0, 0, 0))
    version = first.row_version
    one.sql("ALTER TABLE lww DETACH PART 'all_0_0_0'")
    copy = cluster.table(one).store.path.parent / "copy"
    shutil.copytree(cluster.table(one).store.path / "detached" / "all_0_0_0", copy)
    assert open_part(copy).row_version == version
    one.sql("ALTER TABLE lww ATTACH PART 'all_0_0_0'")
    cluster.rows = {1: 2}
    cluster.check()
