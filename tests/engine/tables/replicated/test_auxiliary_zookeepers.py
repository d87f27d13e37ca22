"""Tables of several ZooKeepers on the same servers: ``ENGINE = ReplicatedMergeTree('aux:/path', …)``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.interserver.replication import Replication
from engine.server.config import Config, ConfigError
from engine.simulator.replica_agreement import check_replicas_agree
from engine.tables.replicated.replicated_table import ReplicatedTable
from parts.common.errors import UserError
from sql.definitions.engines.replica_location import split_zookeeper
from tests.engine.tables.replicated.converted import MakeServers, PlainServer, PlainServers, making_servers


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[PlainServer]]:
    """Two, with ``d`` in the default ZooKeeper and ``a`` in the auxiliary one."""
    with making_servers(tmp_path) as make:
        yield make_tables(make)


def make_tables(make: MakeServers) -> list[PlainServer]:
    found = make(2)
    for server in found:
        server.sql(create("d", "/tables/d"))
        server.sql(create("a", "aux:/tables/a"))
    return found


def create(name: str, path: str, replica: str = "{replica}") -> str:
    return (
        f"CREATE TABLE {name} (p UInt8, k UInt64, v String) ENGINE = ReplicatedMergeTree('{path}', '{replica}') "
        "PARTITION BY p ORDER BY k"
    )


def table(server: PlainServer, name: str) -> ReplicatedTable:
    found = server.engine.catalog.table("default", name)
    assert isinstance(found, ReplicatedTable)
    return found


def keys(server: PlainServer, name: str) -> list[object]:
    return [key for (key,) in server.rows(f"SELECT k FROM {name} ORDER BY k")]


def insert(server: PlainServer, name: str, key: int) -> None:
    server.sql(f"INSERT INTO {name} (p, k) VALUES (1, {key})")


def test_each_table_lives_in_its_own(servers: list[PlainServer]) -> None:
    one, two = servers
    for key, server in enumerate(servers):
        insert(server, "d", key)
        insert(server, "a", 10 + key)
    one.cluster.settle()
    for server in servers:
        assert keys(server, "d") == [0, 1]
        assert keys(server, "a") == [10, 11]
    assert one.keeper.exists("/tables/a") is None
    assert one.other_keeper.exists("/tables/d") is None
    shown = (
        "SELECT name, zookeeper_name, zookeeper_path FROM system.replicas r JOIN system.tables t ON r.table = t.name"
    )
    assert sorted(one.rows(shown)) == [("a", "aux", "/tables/a"), ("d", "default", "/tables/d")]
    one.sql("ALTER TABLE a UPDATE v = 'x' WHERE 1 SETTINGS mutations_sync = 2")
    one.sql("OPTIMIZE TABLE a FINAL")
    one.sql("ALTER TABLE a ADD COLUMN n UInt8 DEFAULT 7")
    one.restart()
    one.cluster.settle()
    assert two.rows("SELECT k, v, n FROM a ORDER BY k") == [(10, "x", 7), (11, "x", 7)]
    check_replicas_agree(one.other_keeper, [table(server, "a") for server in servers])
    check_replicas_agree(one.keeper, [table(server, "d") for server in servers])


def test_one_that_is_away_stops_only_its_own_tables(servers: list[PlainServer]) -> None:
    one, _ = servers
    one.other_keeper.disconnect()
    one.step_all()
    insert(one, "d", 1)
    assert one.refusal("INSERT INTO a (p, k) VALUES (1, 2)")[0] in (242, 999)
    assert keys(one, "a") == []
    assert one.rows("SELECT name, is_expired FROM system.zookeeper_connection ORDER BY name") == [
        ("aux", 1), ("default", 0),
    ]  # fmt: skip
    one.other_keeper.reconnect()
    one.cluster.settle()
    insert(one, "a", 2)
    one.keeper.disconnect()
    one.step_all()
    insert(one, "a", 3)
    assert keys(one, "a") == [2, 3]
    assert one.refusal("INSERT INTO d (p, k) VALUES (1, 4)")[0] in (242, 999)
    one.keeper.reconnect()
    one.cluster.settle()
    insert(one, "d", 4)


def test_a_session_that_ends_is_renewed_for_its_own_tables(servers: list[PlainServer]) -> None:
    one, _ = servers
    assert isinstance(one.cluster, PlainServers)
    before = {name: table(one, name).state.activation for name in ("a", "d")}
    one.cluster.other_ensemble.end_session(one.other_keeper.session_id)
    one.cluster.settle()
    assert table(one, "d").state.activation is before["d"]
    assert table(one, "a").state.activation is not before["a"]
    insert(one, "a", 1)
    one.cluster.settle()


def test_a_name_that_nobody_configured(servers: list[PlainServer]) -> None:
    one, _ = servers
    code, message = one.refusal(create("x", "nobody:/tables/x"))
    assert (code, "Unknown auxiliary ZooKeeper name 'nobody'" in message) == (36, True)
    for path in (":/tables/x", "tables/x", "aux:tables/x"):
        assert one.refusal(create("x", path))[0] == 36
    one.sql(create("x", "default:/tables/x"))
    assert one.keeper.exists("/tables/x") is not None
    insert(one, "a", 1)
    one.stop()
    one._connect_auxiliary = lambda name: None  # type: ignore[method-assign]
    one.cluster.end_zombies()
    one.start()  # somebody has taken it out of the configuration
    assert keys(one, "a") == [1]
    assert one.refusal("INSERT INTO a (p, k) VALUES (1, 2)")[0] in (242, 36)
    assert one.refusal("DROP TABLE a")[0] == 36
    insert(one, "d", 1)


def test_one_path_in_two_zookeepers_is_refused_on_one_server(servers: list[PlainServer]) -> None:
    """Parts are asked for by the path."""
    one, two = servers
    code, message = one.refusal(create("x", "aux:/tables/d"))
    assert (code, "'default' already" in message) == (36, True)
    assert one.other_keeper.exists("/tables/d") is None
    insert(one, "d", 1)
    one.cluster.settle()
    assert keys(two, "d") == [1]


def test_partitions_between_tables_of_two(servers: list[PlainServer]) -> None:
    one, two = servers
    insert(one, "a", 1)
    insert(one, "d", 2)
    one.cluster.settle()
    code, message = one.refusal("ALTER TABLE a MOVE PARTITION 1 TO TABLE d")
    assert (code, "different ZooKeepers" in message) == (48, True)
    one.sql("ALTER TABLE d ATTACH PARTITION 1 FROM a")
    one.cluster.settle()
    assert keys(two, "d") == [1, 2]
    one.sql("ALTER TABLE d FETCH PARTITION 1 FROM 'aux:/tables/a'")
    one.sql("ALTER TABLE d ATTACH PARTITION 1")
    assert keys(one, "d") == [1, 1, 2]
    assert one.refusal("ALTER TABLE a FETCH PARTITION 1 FROM '/tables/a'")[0] == 999
    assert one.refusal("ALTER TABLE a FETCH PARTITION 1 FROM 'nobody:/tables/a'")[0] == 36


def test_nodes_are_shown_and_replicas_dropped_by_name(servers: list[PlainServer]) -> None:
    one, two = servers
    shown = "SELECT name, path FROM system.zookeeper WHERE path = '{}' ORDER BY name"
    assert one.rows(shown.format("aux:/tables")) == [("a", "aux:/tables")]
    assert one.rows(shown.format("/tables")) == [("d", "/tables")]
    assert one.refusal(shown.format("nobody:/tables"))[0] == 36
    assert one.refusal("SYSTEM DROP REPLICA 'r1' FROM ZKPATH 'aux:/tables/a'")[0] == 305
    two.stop()
    one.cluster.end_zombies()
    two.other_keeper.close()
    one.sql("SYSTEM DROP REPLICA 'r2' FROM ZKPATH 'aux:/tables/a'")
    assert one.other_keeper.children("/tables/a/replicas") == ["r1"]
    assert one.keeper.children("/tables/d/replicas") == ["r1", "r2"]
    one.sql("SYSTEM DROP REPLICA 'r2'")
    assert one.keeper.children("/tables/d/replicas") == ["r1"]


def test_a_plain_table_is_converted_there(servers: list[PlainServer]) -> None:
    one, two = servers
    for server in servers:
        server.insert(1, [1, 2])
        server.replication.default_path = "aux:/tables/{table}"
        server.convert()
    one.cluster.settle()
    insert(two, "t", 3)
    one.cluster.settle()
    assert keys(one, "t") == keys(two, "t") == [1, 2, 3]
    assert one.other_keeper.exists("/tables/t") is not None
    one.convert("NOT REPLICATED")
    assert keys(one, "t") == [1, 2, 3]


def test_paths_with_names() -> None:
    assert split_zookeeper("/a/b/") == ("default", "/a/b")
    assert split_zookeeper("zk2:/a") == ("zk2", "/a")
    assert split_zookeeper("/a:/b") == ("default", "/a:/b")
    for wrong in ("", "a", ":/a", "zk2:a"):
        with pytest.raises(UserError):
            split_zookeeper(wrong)


def test_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("path: data\nauxiliary_zookeepers: {zk2: {nodes: [{host: h, port: 1}], root: /r}}\n")
    assert Config.load(file).auxiliary_zookeepers["zk2"].hosts == "h:1"
    for name in ("a:b", ""):
        file.write_text(f"path: data\nauxiliary_zookeepers: {{'{name}': {{nodes: [{{host: h}}]}}}}\n")
        with pytest.raises(ConfigError, match="auxiliary"):
            Config.load(file)
    file.write_text("path: data\nauxiliary_zookeepers: {default: {nodes: [{host: h}]}}\n")
    with pytest.raises(UserError, match="'default'"):
        Replication.from_config(Config.load(file), tmp_path, lambda name: None)
