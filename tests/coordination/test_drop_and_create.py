"""A table, or a replica, is made anew while another server still sweeps what it dropped."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from coordination.keeper.interface import KeeperConnectionLoss
from coordination.keeper.memory_keeper import Fault, MemoryEnsemble
from coordination.replicas.table_nodes import CreateOutcome, drop_dead_replica, drop_replica
from parts.common.errors import ConflictError, UserError
from tests.coordination.members import DEFINITION, TABLE, Member
from tests.coordination.real_time import create_table_or_replica

REQUESTS = range(1, 40)


def at_request(ensemble: MemoryEnsemble, member: Member, number: int, action: Callable[[], object]) -> None:
    left = [number]

    def faults(session: int, kind: str, path: str) -> None:
        if session == member.keeper.session_id:
            left[0] -= 1
            if left[0] == 0:
                ensemble.faults = None
                action()

    ensemble.faults = faults


def nodes(ensemble: MemoryEnsemble, below: str) -> set[str]:
    return {path for path in ensemble.tree if path == below or path.startswith(below + "/")}


def complete(ensemble: MemoryEnsemble) -> set[str]:
    """The nodes of a new table with one replica, r1."""
    other = MemoryEnsemble(time.time)
    create_table_or_replica(other.connect(), TABLE, "r1", DEFINITION)
    return nodes(other, TABLE.root)


@pytest.mark.parametrize("number", REQUESTS)
def test_table_made_anew_while_its_last_replica_is_dropped(ensemble: MemoryEnsemble, number: int) -> None:
    dropper = Member(ensemble, "r1")
    dropper.insert("id")
    creator = ensemble.connect()
    outcomes: list[object] = []

    def create() -> None:
        try:
            outcomes.append(create_table_or_replica(creator, TABLE, "r2", DEFINITION))
        except ConflictError as conflict:
            outcomes.append(conflict)

    at_request(ensemble, dropper, number, create)
    drop_replica(dropper.keeper, TABLE, "r1")
    ensemble.faults = None
    if outcomes and isinstance(outcomes[0], CreateOutcome):
        expected = {path.replace("/r1", "/r2") for path in complete(ensemble)}
        assert expected <= nodes(ensemble, TABLE.root)
        assert not nodes(ensemble, TABLE.replica("r1").root)
    else:
        assert create_table_or_replica(creator, TABLE, "r1", DEFINITION) is CreateOutcome.FIRST_REPLICA
        assert nodes(ensemble, TABLE.root) == complete(ensemble)


@pytest.mark.parametrize("number", REQUESTS)
def test_replica_made_anew_while_another_server_drops_it(ensemble: MemoryEnsemble, number: int) -> None:
    one, dead = Member(ensemble, "r1"), Member(ensemble, "r2")
    one.insert("id")
    dead.expire()
    creator = ensemble.connect()
    outcomes: list[object] = []

    def create() -> None:
        try:
            outcomes.append(create_table_or_replica(creator, TABLE, "r2", DEFINITION))
        except (ConflictError, UserError) as refusal:  # 253: it is not dropped yet
            outcomes.append(refusal)

    at_request(ensemble, one, number, create)
    drop_dead_replica(one.keeper, TABLE, "r2")
    ensemble.faults = None
    if outcomes and outcomes[0] is CreateOutcome.NEW_REPLICA:
        assert len(nodes(ensemble, TABLE.replica("r2").root)) == 14
    else:
        assert not nodes(ensemble, TABLE.replica("r2").root)
        assert create_table_or_replica(creator, TABLE, "r2", DEFINITION) is CreateOutcome.NEW_REPLICA
    assert len(nodes(ensemble, TABLE.replica("r2").root)) == 14


@pytest.mark.parametrize("number", REQUESTS)
@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_ANSWER, Fault.EXPIRE, Fault.EXPIRE_AFTER])
def test_drop_that_broke_off_is_repeated(ensemble: MemoryEnsemble, fault: Fault, number: int) -> None:
    dropper = Member(ensemble, "r1")
    dropper.insert("id")
    left = [number]

    def faults(session: int, kind: str, path: str) -> Fault | None:
        left[0] -= 1
        return fault if left[0] == 0 else None

    ensemble.faults = faults
    try:
        drop_replica(dropper.keeper, TABLE, "r1")
    except Exception as error:
        assert isinstance(error, KeeperConnectionLoss) or "KEEPER" in str(error), error  # noqa: PT017
        dropper.keeper.reconnect()
        drop_replica(dropper.keeper, TABLE, "r1")
    ensemble.faults = None
    assert not nodes(ensemble, TABLE.root)
