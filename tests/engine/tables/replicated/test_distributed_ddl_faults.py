"""ON CLUSTER under random crashes, lost answers and lost sessions: what is said to be done was done once."""

from __future__ import annotations

from collections import Counter

import pytest

from coordination.ddl.ddl_queue import DdlQueue
from coordination.keeper.memory_keeper import Fault
from engine.simulator.simulated_node import SimulatedNode
from tests.engine.tables.replicated.clusters import PLAIN, REPLICATED, MakeCluster, make_cluster, rows, work

__all__ = ["make_cluster"]
_STATEMENTS = 6
_RATE = 0.04
_FAULTS = (Fault.LOSE_REQUEST, Fault.LOSE_ANSWER, Fault.EXPIRE, Fault.EXPIRE_AFTER)


@pytest.mark.long
@pytest.mark.parametrize("definition", [PLAIN, REPLICATED], ids=["plain", "replicated"])
def test_what_is_done_is_done_once(make_cluster: MakeCluster, definition: str) -> None:
    """Every statement adds 1; its outcome is 0, or 341: 0 times or once."""
    seen: Counter[object] = Counter()
    for seed in range(4):
        servers = make_cluster(2)
        servers.random.seed(seed)
        first = servers.servers[0]
        rows(first, definition.format("a"))
        if definition is REPLICATED:
            rows(first, "INSERT INTO a VALUES (1, 1, 0)")
        else:
            for server in servers.servers:
                rows(server, "INSERT INTO a VALUES (1, 0)")
        servers.settle()

        def on_request(node: SimulatedNode, kind: str, path: str) -> Fault | None:
            if not path.startswith("/ddl") or servers.random.random() > _RATE:  # noqa: B023
                return None
            if servers.random.random() < 0.5:  # noqa: B023
                node.crash_here()
            return servers.random.choice(_FAULTS) if kind != "read" else None  # noqa: B023

        def on_failpoint(node: SimulatedNode, name: str) -> None:
            if name.startswith("distributed_ddl") and servers.random.random() < _RATE:  # noqa: B023
                node.crash_here()

        initiator = DdlQueue("/ddl", "/ddl_replicas")
        for _ in range(_STATEMENTS):
            servers.calm()
            rows(first, "ALTER TABLE a ON CLUSTER c UPDATE v = v + 1 WHERE 1", distributed_ddl_task_timeout=0)
            servers.on_request, servers.on_failpoint = on_request, on_failpoint
            for _ in range(3):
                work(servers, 1)
                for server in servers.servers:
                    if server.is_up:
                        server.keeper.reconnect()
                    elif servers.random.random() < 0.5:
                        server.start()
        servers.calm()
        work(servers, 20)
        servers.settle()
        keeper = servers.ensemble.connect()
        names = initiator.names(keeper)[1:]
        assert len(names) == _STATEMENTS
        outcomes = [initiator.status(keeper, name).finished for name in names]
        assert all(len(found) == 2 for found in outcomes), (seed, outcomes)
        for server, host in zip(servers.servers, ("127.0.0.1:8001", "127.0.0.1:8002"), strict=True):
            codes = Counter(found[host].code for found in outcomes)
            assert codes.keys() <= {0, 341}, (seed, outcomes)
            ((value,),) = rows(server, "SELECT v FROM a")
            assert isinstance(value, int)
            assert codes[0] <= value <= codes[0] + codes[341], (seed, value, outcomes)
            seen.update(codes)
    assert seen[0] > 20
    assert seen[341] > 0
