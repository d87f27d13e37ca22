"""The configuration file of a cluster's replica, which holds passwords and only its owner reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import yaml

from engine.cluster.cluster_state import ClusterState, Member

LINK_USER = "linker"
"""The user that links of other clusters log in as; it may only read, and register links."""
_CLUSTER = "default"
"""The name of the cluster of all replicas in ``remote_servers``, and the value of the macro ``cluster``."""


def write_replica_config(cluster_directory: Path, state: ClusterState, replica: Member) -> Path:
    """Writes a replica's configuration file, at once or not at all, and returns its path."""
    directory = cluster_directory / replica.name
    (directory / "data").mkdir(parents=True, exist_ok=True)
    config = _merge_configs(_make_config(cluster_directory, state, replica), state.overrides)
    file = directory / "config.yaml"
    temporary = file.with_suffix(".tmp")
    temporary.unlink(missing_ok=True)
    with open(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as output:
        output.write(yaml.safe_dump(config, sort_keys=False))
    temporary.rename(file)
    return file


def _make_config(cluster_directory: Path, state: ClusterState, replica: Member) -> dict[str, object]:
    config: dict[str, object] = {
        "path": "data",
        "user_files_path": str(cluster_directory / "user_files"),
        "display_name": replica.name,
        "logger": {"level": "information", "log": str(cluster_directory / replica.name / "server.log")},
        "listen_host": "0.0.0.0" if state.image else "127.0.0.1",
        "http_port": replica.port,
        "interserver_http_port": replica.interserver_port,
        "interserver_http_host": state.get_host(replica),
        "interserver_http_credentials": {"user": "interserver", "password": state.interserver_password},
        "zookeeper": {
            "nodes": [{"host": state.get_host(state.zookeeper), "port": state.zookeeper.port}],
            "session_timeout_ms": 10_000,
        },
        "macros": {"layer": "01", "shard": "01", "replica": replica.name, "cluster": _CLUSTER},
        "remote_servers": {
            _CLUSTER: [
                {"replicas": [{"host": state.get_host(member), "port": member.port} for member in state.replicas]}
            ]
        },
    }
    if state.name:
        linker = {LINK_USER: {"password": state.link_password, "readonly": 1, "may_link": True}}
        # Without users in the configuration there is the user default, which must not come back where it was left out.
        config["cluster_name"] = state.name
        config["users"] = linker if "users" in state.overrides else {"default": {}, **linker}
        config["linked_clusters"] = state.linked_clusters
    return config


def _merge_configs(config: Mapping[str, object], overrides: Mapping[str, object]) -> dict[str, object]:
    """Merges two configurations, sections key by key."""
    merged = dict(config)
    for key, value in overrides.items():
        own = merged.get(key)
        merged[key] = _merge_configs(own, value) if isinstance(own, dict) and isinstance(value, dict) else value
    return merged
