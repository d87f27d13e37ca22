"""Servers of the simulator that know each other as clusters, for statements with ON CLUSTER."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordination.ddl.ddl_queue import DdlQueue
from engine.simulator.simulated_disk import SimulatedDisk, record_syncs
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.trace import Trace
from parts.common.errors import PandoError
from parts.common.thread_pool import run_jobs_inline

MakeCluster = Callable[..., SimulatedServers]
PLAIN = "CREATE TABLE {} ON CLUSTER c (k UInt64, v UInt64) ENGINE = MergeTree ORDER BY k"
REPLICATED = (
    "CREATE TABLE {} ON CLUSTER c (p UInt8, k UInt64, v UInt64) "
    "ENGINE = ReplicatedMergeTree('/tables/{{shard}}/{{table}}', '{{replica}}') PARTITION BY p ORDER BY k"
)
STATUS = (
    "SELECT host, port, toString(status), exception_code FROM system.distributed_ddl_queue "
    "WHERE entry = '{}' ORDER BY port"
)

ASYNC = {"distributed_ddl_task_timeout": 0}
"""Settings of a statement that does not wait for the servers."""


def port_of(name: str) -> int:
    return 8000 + int(name[1:])


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[MakeCluster]:
    """``shards`` are the numbers of replicas of the cluster ``c``; ``{cluster}`` is its name."""
    disks: dict[Path, SimulatedDisk] = {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(record_syncs(disks))
        stack.enter_context(run_jobs_inline())

        def make(*shards: int, **distributed_ddl: object) -> SimulatedServers:
            names = [f"r{number}" for number in range(1, sum(shards) + 1)]
            members = iter(names)
            divided = [[next(members) for _ in range(size)] for size in shards]

            def config_of(name: str) -> dict[str, object]:
                shard = next((number for number, found in enumerate(divided, 1) if name in found), 0)
                return {
                    "http_port": port_of(name),
                    "workers": 0,
                    "macros": {"replica": name, "shard": str(shard), "cluster": "c"},
                    "remote_servers": {
                        "c": [
                            {"replicas": [{"host": "127.0.0.1", "port": port_of(member)} for member in found]}
                            for found in divided
                        ]
                    },
                    "distributed_ddl": {"path": "/ddl", "replicas_path": "/ddl_replicas", **distributed_ddl},
                }

            servers = SimulatedServers(
                tmp_path / str(len(disks)), len(names), 1, Trace(None), disks, config_of=config_of
            )
            servers.power_cut_rate = 0.0
            stack.callback(servers.end)
            servers.settle()
            return servers

        yield make


def rows(server: SimulatedServer, statement: str, **settings: int | float | str) -> list[tuple[object, ...]]:
    return server.sql(statement, **settings)[1]


def refusal(server: SimulatedServer, statement: str, **settings: int | float | str) -> PandoError:
    with pytest.raises(PandoError) as caught:
        server.sql(statement, **settings)
    return caught.value


def has_table(server: SimulatedServer, name: str) -> bool:
    return rows(server, f"EXISTS TABLE {name}") == [(1,)]


def work(servers: SimulatedServers, rounds: int = 5) -> None:
    """Everybody's background tasks."""
    for _ in range(rounds):
        servers.now += 10.0
        servers.step_others()


def entry_names(servers: SimulatedServers) -> list[str]:
    """The entries of the queue, the oldest first."""
    return DdlQueue("/ddl", "/ddl_replicas").names(servers.ensemble.connect())


def crash_at(servers: SimulatedServers, server: SimulatedServer, point: str) -> None:
    """End ``server`` the next time it passes the failpoint ``point``."""

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        if node is server and name == point:
            servers.on_failpoint = lambda node, name: None
            node.crash_here()

    servers.on_failpoint = on_failpoint
