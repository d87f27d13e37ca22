"""The configuration: what it accepts, and the one line each mistake gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.server.config import Config, ConfigError


def _load(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    return Config.load(file)


def test_defaults(tmp_path: Path) -> None:
    config = _load(tmp_path, "path: data\n")
    assert config.path == tmp_path / "data"
    assert (config.http_port, config.interserver_http_port, config.listen_host) == (8123, 9009, "127.0.0.1")
    assert config.zookeeper is None
    assert config.users["default"].password == ""
    assert config.interserver_host == "127.0.0.1"


def test_full_configuration(tmp_path: Path) -> None:
    config = _load(
        tmp_path,
        """
path: /var/lib/pando
logger: {level: debug, log: /var/log/pando.log}
http_port: 0
interserver_http_host: replica-1
interserver_http_credentials: {user: replica, password: 123}
zookeeper:
  nodes: [{host: zk1, port: 2181}, {host: zk2}]
  session_timeout_ms: 10000
  root: /pando/
macros: {layer: 05, shard: 02, replica: r1}
users:
  default: {password: ''}
  reader: {password_sha256_hex: abc, readonly: true}
merge_tree: {index_granularity: 1024}
profiles: {default: {insert_quorum: auto, max_threads: 2}}
timezone: Europe/Berlin
""",
    )
    assert config.path == Path("/var/lib/pando")
    assert config.zookeeper is not None
    assert config.zookeeper.hosts == "zk1:2181,zk2:2181"
    assert config.zookeeper.root == "/pando"
    assert config.macros["replica"] == "r1"
    assert config.interserver_http_credentials is not None
    assert config.interserver_http_credentials.password == "123"
    assert config.interserver_host == "replica-1"
    assert config.profile("default") == {"insert_quorum": "auto", "max_threads": 2}


def test_clickhouse_spelling_of_zookeeper_nodes(tmp_path: Path) -> None:
    config = _load(tmp_path, "path: x\nzookeeper: {node: {host: zk}}\n")
    assert config.zookeeper is not None
    assert config.zookeeper.hosts == "zk:2181"


def test_clusters_in_both_forms(tmp_path: Path) -> None:
    """ClickHouse's has the shards below a key, and its default of ``internal_replication``."""
    config = _load(
        tmp_path,
        """
path: x
remote_servers:
  own: [{replicas: [{host: a}, {host: b}]}]
  nested: {shard: [{weight: 2, replica: {host: c, priority: 2}}, {internal_replication: true, replica: [{host: d}]}]}
  single: {shard: {replica: [{host: e, port: 9}]}}
""",
    )
    found = {
        name: [
            (shard.weight, shard.internal_replication, [(r.host, r.port, r.priority) for r in shard.replicas])
            for shard in shards
        ]
        for name, shards in config.remote_servers.items()
    }
    assert found == {
        "own": [(1, True, [("a", 8123, 1), ("b", 8123, 1)])],
        "nested": [(2, False, [("c", 8123, 2)]), (1, True, [("d", 8123, 1)])],
        "single": [(1, False, [("e", 9, 1)])],
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("path: x\nremote_servers: {c: {secret: s}}\n", "a cluster has the key shard"),
        (
            "path: x\nremote_servers: {c: {shard: [], sharrd: []}}\n",
            "a cluster has the key shard, and may have secret, not sharrd",
        ),
        ("path: x\nremote_servers: {c: {shard: []}}\n", "Bad value of 'remote_servers.c' in the configuration"),
        ("path: x\nhttp_prt: 1\n", "Unknown key 'http_prt' in the configuration. Maybe you meant http_port"),
        ("path: x\nlogger: {levle: debug}\n", "Unknown key 'logger.levle'"),
        ("http_port: 1\n", "The key 'path' is missing"),
        ("path: x\nhttp_port: many\n", "Bad value of 'http_port'"),
        ("path: x\nhttp_port: 70000\n", "Bad value of 'http_port'"),
        ("path: x\nzookeeper: {nodes: []}\n", "Bad value of 'zookeeper.nodes'"),
        ("path: x\nmerge_tree: {index_granularty: 1}\n", "Maybe you meant index_granularity"),
        (
            "path: x\nprofiles: {default: {max_thread: 1}}\n",
            "Unknown setting 'max_thread'. Maybe you meant max_threads",
        ),
        ("path: x\ntimezone: Mars\n", "there is no time zone 'Mars'"),
        ("path: [\n", "Cannot read the configuration"),
        ("- path\n", "must be a mapping"),
        ("", "must be a mapping"),
    ],
)
def test_mistake_is_one_line_with_key_and_file(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, text)
    assert expected in caught.value.message
    assert "config.yaml" in caught.value.message
    assert "\n" not in caught.value.message


def test_missing_file() -> None:
    with pytest.raises(ConfigError, match="No such file or directory"):
        Config.load("/nowhere/config.yaml")


def test_local_configuration_has_no_network(tmp_path: Path) -> None:
    config = Config.local(tmp_path)
    assert (config.http_port, config.interserver_http_port, config.zookeeper) == (None, None, None)
