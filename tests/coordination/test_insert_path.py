"""The INSERT path, tables and replicas, one scenario a test; known bugs of other systems give tests their names."""

from __future__ import annotations

from functools import partial

import pytest

from coordination.inserts.block_numbers import BlockLock, DuplicateBlock, allocate_block_number, read_committing_numbers
from coordination.inserts.insert_commit import InsertStatus, begin_insert
from coordination.keeper.interface import KeeperUnavailable
from coordination.keeper.memory_keeper import Fault, MemoryEnsemble
from coordination.nodes.replica_activation import ReplicaAddress
from coordination.replicas.clone import needs_clone
from coordination.replicas.table_nodes import CreateOutcome, SharedDefinition, drop_replica, record_identity
from parts.common.errors import PandoError, UnavailableError, UserError
from parts.common.part_name import PartName
from tests.coordination.members import DEFINITION, TABLE, Member, fault_once
from tests.coordination.real_time import activate, create_table_or_replica, drop_partition, resolve_insert


def test_an_insert_takes_two_round_trips(ensemble: MemoryEnsemble, members: list[Member]) -> None:
    members[0].insert("first")
    before = ensemble.requests
    members[0].insert("second")
    assert ensemble.requests - before == 2


def test_duplicate_is_found_before_anything_is_written(members: list[Member]) -> None:
    part = members[0].insert("id")
    again = begin_insert(members[1].keeper, TABLE, "all", "id", owner="r2")
    assert again == DuplicateBlock("id", str(part))
    assert read_committing_numbers(members[0].keeper, TABLE, ["all"]) == {"all": []}


def test_of_two_inserts_of_one_block_at_once_one_is_the_duplicate(members: list[Member]) -> None:
    first, second = members[0].request("id"), members[1].request("id")
    assert members[0].commit(first).status is InsertStatus.COMMITTED
    result = members[1].commit(second)
    assert (result.status, result.duplicate_of) == (InsertStatus.DUPLICATE, str(first.part))
    assert read_committing_numbers(members[0].keeper, TABLE, ["all"]) == {"all": []}


def test_acknowledgement_lost_after_commit_is_not_rolled_back(ensemble: MemoryEnsemble, members: list[Member]) -> None:
    request = members[0].request()
    fault_once(ensemble, Fault.LOSE_ANSWER)
    assert members[0].commit(request).status is InsertStatus.UNKNOWN
    members[0].keeper.reconnect()
    assert resolve_insert(members[0].keeper, request).status is InsertStatus.COMMITTED


def test_request_lost_before_commit_is_fenced_and_retried(ensemble: MemoryEnsemble, members: list[Member]) -> None:
    request = members[0].request()
    fault_once(ensemble, Fault.LOSE_REQUEST)
    assert members[0].commit(request).status is InsertStatus.UNKNOWN
    members[0].keeper.reconnect()
    assert resolve_insert(members[0].keeper, request).status is InsertStatus.RETRY
    # Should the lost request arrive after all, it must fail.
    assert members[0].commit(request).status is InsertStatus.RETRY
    members[0].insert()


def test_committed_then_session_expired_is_still_committed(ensemble: MemoryEnsemble, members: list[Member]) -> None:
    request = members[0].request()
    fault_once(ensemble, Fault.EXPIRE_AFTER)
    assert members[0].commit(request).status is InsertStatus.UNKNOWN
    members[0].keeper.reconnect()
    assert resolve_insert(members[0].keeper, request).status is InsertStatus.COMMITTED


def test_resolution_after_reconnecting_to_a_lagging_server_does_not_read_the_past(
    ensemble: MemoryEnsemble, members: list[Member]
) -> None:
    request = members[0].request()
    fault_once(ensemble, Fault.LOSE_ANSWER)
    assert members[0].commit(request).status is InsertStatus.UNKNOWN
    members[0].keeper.reconnect(lagging=True)
    assert members[0].keeper.exists(request.lock.path) is not None
    assert resolve_insert(members[0].keeper, request).status is InsertStatus.COMMITTED


def test_committed_and_dropped_while_disconnected_is_not_inserted_again(
    ensemble: MemoryEnsemble, members: list[Member]
) -> None:
    request = members[0].request()
    fault_once(ensemble, Fault.LOSE_ANSWER)
    members[0].commit(request)
    drop_partition(members[1].keeper, TABLE, "r2", "all")
    members[0].keeper.reconnect()
    members[0].keeper.delete(members[0].paths.part(str(request.part)))
    assert resolve_insert(members[0].keeper, request).status is InsertStatus.COMMITTED


def test_session_expired_between_number_and_commit(members: list[Member]) -> None:
    request = members[0].request()
    members[0].expire()
    members[0].keeper.reconnect()
    assert members[0].commit(request).status is InsertStatus.RETRY


def test_away_is_a_definite_failure(members: list[Member]) -> None:
    request = members[0].request()
    members[0].keeper.disconnect()
    with pytest.raises(KeeperUnavailable):
        members[0].commit(request)


def test_block_counter_made_anew_does_not_collide_with_surviving_parts(members: list[Member]) -> None:
    survivor = PartName("all", 0, 1234, 3)
    lock = allocate_block_number(members[0].keeper, TABLE, "all", "id", minimum=survivor.max_block + 1)
    assert isinstance(lock, BlockLock)
    assert lock.number == 1235
    following = allocate_block_number(members[0].keeper, TABLE, "all", "other")
    assert isinstance(following, BlockLock)
    assert following.number == 1236


def test_insert_into_a_dropped_table(members: list[Member]) -> None:
    for member in members:
        drop_replica(member.keeper, TABLE, member.name)
    with pytest.raises(UnavailableError, match="TABLE_IS_DROPPED"):
        begin_insert(members[0].keeper, TABLE, "all", "id", owner="r1")


# --- tables and replicas -------------------------------------------------------------------------------------------


def test_create_outcomes(ensemble: MemoryEnsemble) -> None:
    first, second = Member(ensemble, "r1"), Member(ensemble, "r2")
    assert (first.outcome, second.outcome) == (CreateOutcome.FIRST_REPLICA, CreateOutcome.NEW_REPLICA)


def test_create_takes_over_no_replica_that_is_only_down(ensemble: MemoryEnsemble, members: list[Member]) -> None:
    members[1].expire()
    for identity in ("", "text other:/place"):
        with pytest.raises(UserError, match="REPLICA_ALREADY_EXISTS") as caught:
            create_table_or_replica(ensemble.connect(), TABLE, "r2", DEFINITION, identity=identity)
        assert caught.value.code == 253
        assert "SYSTEM DROP REPLICA 'r2' FROM ZKPATH" in caught.value.message


def test_create_goes_on_where_it_broke_off_on_the_same_directory(ensemble: MemoryEnsemble) -> None:
    """Before the first activation a directory that was removed comes back with another random text; then never."""
    create = partial(create_table_or_replica, ensemble.connect(), TABLE, "r1", DEFINITION)
    assert create(identity="one host:/place") is CreateOutcome.FIRST_REPLICA
    assert create(identity="two host:/place") is CreateOutcome.ADOPTED
    with pytest.raises(UserError, match="REPLICA_ALREADY_EXISTS"):
        create(identity="one host:/elsewhere")
    keeper = ensemble.connect()
    activate(keeper, TABLE.replica("r1"), ReplicaAddress("h", 1), "one host:/place", wait_seconds=0)
    for identity in ("two host:/place", "other host:/place"):
        with pytest.raises(UserError, match="REPLICA_ALREADY_EXISTS"):
            create(identity=identity)
    record_identity(keeper, TABLE.replica("r1"), "one host:/place")
    assert create(identity="one host:/place") is CreateOutcome.ADOPTED
    keeper.expire()
    assert create(identity="one moved:/place") is CreateOutcome.ADOPTED


def test_active_replica_of_the_same_name_is_253(ensemble: MemoryEnsemble, members: list[Member]) -> None:
    with pytest.raises(UserError, match="REPLICA_ALREADY_EXISTS") as caught:
        create_table_or_replica(ensemble.connect(), TABLE, "r1", DEFINITION)
    assert caught.value.code == 253
    with pytest.raises(UserError, match="active on another server"):
        activate(ensemble.connect(), TABLE.replica("r1"), ReplicaAddress("h", 1), "other data", wait_seconds=0)


def test_own_former_session_is_waited_for(ensemble: MemoryEnsemble, members: list[Member]) -> None:
    with pytest.raises(UnavailableError, match="former session"):
        activate(ensemble.connect(), TABLE.replica("r1"), ReplicaAddress("r1", 1), "r1", wait_seconds=0)


def test_namesake_that_comes_in_between_is_not_taken_over(ensemble: MemoryEnsemble, members: list[Member]) -> None:
    """Between the look at the former session's node and its removal another server makes one of its own."""
    keeper, other, replica = ensemble.connect(), ensemble.connect(), TABLE.replica("r1")
    looks: list[str] = []

    def faults(session: int, kind: str, path: str) -> None:
        if session == keeper.session_id and path == replica.is_active and kind == "read":
            looks.append(path)
            if len(looks) == 2:
                other.delete(replica.is_active)
                other.create(replica.is_active, b"other", ephemeral=True)

    ensemble.faults = faults
    with pytest.raises(UserError, match="active on another server"):
        activate(keeper, replica, ReplicaAddress("r1", 1), "r1", wait_seconds=5.0, takes_over=True)
    assert len(looks) > 2
    assert other.get(replica.is_active)[0] == b"other"


def test_activation_raises_the_epoch(members: list[Member]) -> None:
    before = members[0].activation
    members[0].restart()
    assert members[0].activation.host_version == before.host_version + 1
    assert members[0].activation.session_id != before.session_id


def test_lost_answer_of_an_activation_is_taken_up(ensemble: MemoryEnsemble, members: list[Member]) -> None:
    member = members[0]
    member.expire()
    member.keeper.reconnect()
    fault_once(ensemble, Fault.LOSE_ANSWER)
    with pytest.raises(PandoError):
        activate(member.keeper, member.paths, ReplicaAddress("r1", 1), "r1", wait_seconds=0)
    member.keeper.reconnect()
    activation = activate(member.keeper, member.paths, ReplicaAddress("r1", 1), "r1", wait_seconds=0)
    assert activation.session_id == member.keeper.session_id


@pytest.mark.parametrize(
    ("definition", "named"),
    [
        (
            SharedDefinition('{"sorting_key":"b","partition_key":"p"}', "a UInt8\nb String"),
            "sorting_key: 'a' in ZooKeeper",
        ),
        (SharedDefinition('{"sorting_key":"a","partition_key":"p"}', "a UInt8\nb UInt8"), "b UInt8"),
    ],
)
def test_other_definition_is_342_and_names_the_difference(
    ensemble: MemoryEnsemble, members: list[Member], definition: SharedDefinition, named: str
) -> None:
    with pytest.raises(UserError, match=named) as caught:
        create_table_or_replica(ensemble.connect(), TABLE, "r9", definition)
    assert caught.value.code == 342


def test_half_dropped_table_and_replica_are_swept(ensemble: MemoryEnsemble, members: list[Member]) -> None:
    keeper = members[0].keeper
    members[1].expire()
    keeper.delete(TABLE.replica("r2").host)
    members[1].keeper.reconnect()
    assert create_table_or_replica(members[1].keeper, TABLE, "r2", DEFINITION) is CreateOutcome.NEW_REPLICA
    keeper.delete_tree(TABLE.replicas)
    assert create_table_or_replica(ensemble.connect(), TABLE, "r1", DEFINITION) is CreateOutcome.FIRST_REPLICA


def test_lost_answer_of_the_creating_multi(ensemble: MemoryEnsemble) -> None:
    keeper = ensemble.connect()
    ensemble.connect().create_parents(TABLE.parent)
    fault_once(ensemble, Fault.LOSE_ANSWER)
    with pytest.raises(KeeperUnavailable):
        create_table_or_replica(keeper, TABLE, "r1", DEFINITION)
    keeper.reconnect()
    assert create_table_or_replica(keeper, TABLE, "r1", DEFINITION) is CreateOutcome.ADOPTED
    assert not needs_clone(keeper, TABLE.replica("r1"))
