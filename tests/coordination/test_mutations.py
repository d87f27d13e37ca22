"""Mutations of replicated tables: numbers, what may be assigned and merged, what is done, killed and removed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from coordination.inserts.block_numbers import BlockLock, allocate_block_number, release_block_number
from coordination.inserts.quorum import QuorumPlan
from coordination.keeper.interface import KeeperConnectionLoss
from coordination.keeper.memory_keeper import Fault, MemoryEnsemble
from coordination.log.log_entry import LogEntry
from coordination.log.queue_rules import ActionKind, PoolLimits
from coordination.merges_mutations.merge_assignment import log_merges_and_mutations, make_mutate_part_entry
from coordination.merges_mutations.mutation_nodes import (
    advance_mutation_pointer,
    create_mutation,
    delete_finished_mutations,
    kill_mutation,
    read_mutation_pointer,
    read_mutation_pointers,
)
from coordination.merges_mutations.mutation_set import (
    MutationEntry,
    MutationSet,
    mutated_part_name,
    select_removable_mutations,
)
from coordination.nodes.replica_activation import ReplicaAddress
from coordination.replicas import log_pull
from parts.common.errors import PandoError, UnknownOutcomeError
from parts.common.part_name import PartName
from tests.coordination.members import TABLE, Member, at_request, fault_once
from tests.coordination.real_time import drop_partition


def part(name: str) -> PartName:
    return PartName.parse(name)


def mutation(id_: int, numbers: dict[str, int], metadata_version: int = 0) -> MutationEntry:
    return MutationEntry(f"{id_:010d}", 1.0, "r1", "DELETE WHERE a = 1", numbers, metadata_version)


def test_what_a_part_is_to_go_through() -> None:
    first, second, third = mutation(0, {"p": 2}), mutation(1, {"p": 4, "q": 1}), mutation(2, {"p": 6}, 3)
    known = MutationSet((first, second, third))
    assert known.list_next_mutations(part("p_0_0_0"), 3, 9) == [first, second, third]
    assert known.list_next_mutations(part("p_0_0_0"), 2, 9) == [first, second]  # the third is of a later definition
    assert known.list_next_mutations(part("p_0_0_0"), 3, 1) == [first]
    assert known.list_next_mutations(part("p_0_1_1_2"), 3, 9) == [second, third]
    assert known.list_next_mutations(part("p_3_3_0"), 3, 9) == [second, third]
    assert known.list_next_mutations(part("p_7_7_0"), 3, 9) == []
    assert known.list_next_mutations(part("q_2_2_0"), 3, 9) == []
    assert known.list_next_mutations(part("r_0_0_0"), 3, 9) == []
    assert mutated_part_name(part("p_0_1_1_2"), [second, third]) == part("p_0_1_1_6")
    assert known.between(part("p_0_1_1_2"), part("p_0_1_1_6")) == [second, third]
    versions = {
        name: known.find_version(part(name)) for name in ("p_0_0_0", "p_0_0_0_2", "p_3_3_0", "p_5_5_0", "p_9_9_0_9")
    }
    assert versions == {"p_0_0_0": 0, "p_0_0_0_2": 2, "p_3_3_0": 2, "p_5_5_0": 4, "p_9_9_0_9": 6}
    assert second.list_parts_to_change([part("p_0_0_0_2"), part("p_5_5_0"), part("q_0_0_0"), part("q_0_0_0_1")]) == [
        part("p_0_0_0_2"),
        part("q_0_0_0"),
    ]


def test_what_is_done() -> None:
    first, second = mutation(0, {"p": 2}), mutation(1, {"p": 4, "q": 1})
    known = MutationSet((first, second))
    ids = [first.mutation_id, second.mutation_id]
    assert known.find_finished_up_to("", {"p": [1]}, []) == ""
    assert known.find_finished_up_to("", {"p": [3]}, []) == ids[0]
    assert known.find_finished_up_to("", {"p": [5], "q": [2]}, []) == ids[1]
    assert known.find_finished_up_to("", {}, [part("p_0_0_0")]) == ""
    assert known.find_finished_up_to("", {}, [part("p_0_0_0_2"), part("q_0_0_0_1")]) == ids[0]
    assert known.find_finished_up_to(ids[0], {}, [part("q_0_0_0")]) == ids[0]
    assert known.list_last_numbers(ids[0]) == {"p": 4, "q": 1}
    assert known.unfinished(ids[1]) == []
    assert select_removable_mutations(ids, ids, 0) == [ids[0]]
    assert select_removable_mutations(ids, [ids[1], ids[1]], 0) == ids
    assert select_removable_mutations(ids, [ids[1], ids[1]], 1) == [ids[0]]
    assert select_removable_mutations(ids, ["", ids[1]], 0) == select_removable_mutations(ids, [], 0) == []


def test_what_is_written_is_read() -> None:
    one = mutation(7, {"p": 2, "q": 0}, 5)
    assert MutationEntry.parse(one.mutation_id, one.to_bytes()) == one
    entry = make_mutate_part_entry(part("p_0_0_0"), [one], "r1", 2.0, metadata_version=5)
    assert LogEntry.parse(entry.to_bytes()) == entry
    assert (entry.mutations, entry.alter_version) == ((one.mutation_id,), 5)
    with pytest.raises(PandoError, match="Cannot read mutation"):
        MutationEntry.parse("0000000000", b'{"version": 2}')


# --- with ZooKeeper ----------------------------------------------------------------------------------------------


def create(member: Member, partitions: tuple[str, ...] | None = None, **options: object) -> MutationEntry | None:
    columns = member.keeper.get(TABLE.columns)[1].version
    arguments: dict[str, object] = {"gate": member.gate, "first_number": lambda _: 0, "clock": lambda: 5.0, **options}
    return create_mutation(
        member.keeper, member.paths, "DELETE WHERE a = 1", partitions, 0, columns, **arguments  # type: ignore[arg-type]
    )  # fmt: skip


def made(mutation: MutationEntry | None) -> MutationEntry:
    assert mutation is not None
    return mutation


def members(count: int = 2) -> list[Member]:
    ensemble = MemoryEnsemble(clock=lambda: 100.0)
    return [Member(ensemble, f"r{number}") for number in range(1, count + 1)]


def locks(member: Member) -> list[str]:
    keeper = member.keeper
    return [name for p in keeper.children(TABLE.block_numbers) for name in keeper.children(TABLE.partition(p))]


def test_numbers_in_every_partition() -> None:
    one, two = members()
    one.insert("a", partition="p")
    two.insert("b", partition="q")
    two.insert("c", partition="q")
    first = made(create(one))
    assert (first.mutation_id, first.numbers) == ("0000000000", {"p": 1, "q": 2})
    second = made(create(two, ("q", "not there")))
    assert (second.mutation_id, second.numbers) == ("0000000001", {"q": 3})
    third = made(create(two, first_number=lambda partition: {"p": 9}.get(partition, 0)))
    assert third.numbers == {"p": 9, "q": 4}
    assert locks(one) == []
    assert (
        one.mutations.load(one.keeper).mutations == two.mutations.load(two.keeper).mutations == (first, second, third)
    )


def test_another_comes_first() -> None:
    """Their order must be that of the numbers in every partition."""
    one, two = members()
    one.insert("a", partition="p")
    begin: list[MutationEntry] = []

    def meanwhile(session: int, kind: str, path: str) -> None:
        if kind == "multi" and "block-" in path and session == one.keeper.session_id and not begin:
            begin.append(made(create(two)))

    def before_first_lock(session: int, kind: str, path: str) -> None:
        if kind == "read" and path == TABLE.block_numbers and session == one.keeper.session_id and not begin:
            begin.append(made(create(two)))

    for hook in (meanwhile, before_first_lock):
        begin.clear()
        one.ensemble.faults = hook
        assert create(one) is None
        assert begin
        assert locks(one) == []
    one.ensemble.faults = None
    assert made(create(one)).numbers["p"] > begin[0].numbers["p"]


def test_what_comes_between_number_and_node() -> None:
    """A partition, a definition, a drop that takes the number back: look again."""
    one, two = members()
    one.insert("a", partition="p")
    done: list[str] = []

    def on_multi(action: Callable[[], object]) -> Callable[[int, str, str], None]:
        def hook(session: int, kind: str, path: str) -> None:
            if kind == "multi" and path == TABLE.mutation_prefix and not done:
                done.append(path)
                action()

        return hook

    for action in (
        lambda: two.insert("b", partition="q"),
        lambda: two.keeper.set(TABLE.columns, b"other"),
        lambda: drop_partition(two.keeper, TABLE, "r2", "p"),
    ):
        done.clear()
        one.ensemble.faults = on_multi(action)
        assert create(one) is None
        assert done
        assert locks(one) == []


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.LOSE_REQUEST], ids=str)
def test_a_lost_answer(fault: Fault) -> None:
    one, two = members()
    one.insert("a")

    def hook(session: int, kind: str, path: str) -> Fault | None:
        return fault if kind == "multi" and path == TABLE.mutation_prefix else None

    one.ensemble.faults = hook
    with pytest.raises(UnknownOutcomeError, match="while the mutation was made"):
        create(one)
    one.keeper.reconnect()
    sync = one.keeper.sync

    def back(path: str) -> None:
        one.keeper.reconnect()
        sync(path)

    one.keeper.sync = back  # type: ignore[method-assign]
    found = create(one)
    assert (found is not None) == (fault is Fault.LOSE_ANSWER)
    known = two.mutations.load(two.keeper).mutations
    assert known[1:] == ((found,) if found is not None else ())


def test_an_old_replica_is_named() -> None:
    one, two = members()
    address = ReplicaAddress("r2", 1, features=("exchange", "parts", "alter"))
    two.keeper.set(two.paths.host, address.to_bytes())
    with pytest.raises(PandoError, match="A mutation is not possible yet: replica 'r2'") as caught:
        create(one)
    assert caught.value.code == 48


def assign(member: Member) -> list[PartName]:
    predicate = member.predicate()
    entries = [
        make_mutate_part_entry(source, chosen, member.name, 1.0, metadata_version=0)
        for source in predicate.snapshot
        if predicate.why_not_mergeable(source) is None
        and (chosen := predicate.mutations.list_next_mutations(source, 0, 9))
    ]
    if entries:
        assert log_merges_and_mutations(member.keeper, TABLE, predicate.log_version, entries)
    return [entry.created_parts[0] for entry in entries]


def advance(member: Member, finished: str = "") -> str:
    def parts() -> list[PartName]:
        member.pull()
        return [*member.queue.list_coming_parts(), *member.active]

    return advance_mutation_pointer(member.keeper, member.paths, member.mutations, finished, parts)


def test_from_the_mutation_to_the_end_of_it() -> None:
    one, two = members()
    old = one.insert("a")
    late = two.request("b")  # has its number, and is committed behind the mutation
    first = made(create(one))
    new = two.insert("c")
    for member in (one, two):
        member.pull()
        member.drain()
    assert (old, late.part, new) == (part("all_0_0_0"), part("all_1_1_0"), part("all_3_3_0"))
    assert assign(two) == [part("all_0_0_0_2")]
    assert assign(one) == []
    one.pull()
    assert one.drain() == [ActionKind.MUTATE]
    assert advance(one) == ""  # the block that has its number may still come
    assert two.commit(late).status.name == "COMMITTED"
    two.active.add(late.part)
    two.queue.add_active(late.part)
    assert advance(one) == ""
    predicate = one.predicate()
    assert "mutation versions" in str(predicate.why_not_together(part("all_0_0_0_2"), late.part))
    assert assign(two) == [part("all_1_1_0_2")]
    one.pull()
    one.drain()
    assert advance(one) == first.mutation_id
    assert read_mutation_pointers(one.keeper, TABLE) == {"r1": first.mutation_id, "r2": ""}
    assert delete_finished_mutations(one.keeper, TABLE, 0) == 0
    assert advance(two) == ""
    two.pull()
    two.drain()
    assert advance(two) == first.mutation_id == read_mutation_pointer(two.keeper, two.paths)
    assert one.active == two.active == {part("all_0_0_0_2"), part("all_1_1_0_2"), new}
    (run,) = one.predicate().list_mergeable_runs("all")
    assert len(run) == 3
    assert delete_finished_mutations(one.keeper, TABLE, 1) == 0
    assert delete_finished_mutations(one.keeper, TABLE, 0) == 1
    assert one.mutations.load(one.keeper).mutations == ()


@pytest.mark.parametrize("number", range(1, 12))
def test_a_block_that_is_committed_while_it_is_looked_whether_all_is_done(number: int) -> None:
    """Its number lies before the mutation: it is seen as a number in use or as a part, never as neither."""
    one, two = members()
    one.insert("a")
    late = two.request("late")
    made(create(one))
    assign(one)
    one.pull()
    one.drain()
    left = at_request(one.ensemble, one, number, lambda: two.commit(late))
    assert advance(one) == ""
    assert left[0] <= 0 or number > 4, "the block comes meanwhile"


def test_a_number_that_is_given_up_is_not_waited_for() -> None:
    (one,) = members(1)
    one.insert("a")
    lock = allocate_block_number(one.keeper, TABLE, "all")
    assert isinstance(lock, BlockLock)
    first = made(create(one))
    assign(one)
    one.pull()
    one.drain()
    assert advance(one) == ""
    release_block_number(one.keeper, lock)
    assert advance(one) == first.mutation_id


def test_kill() -> None:
    one, two = members()
    one.insert("a")
    first = made(create(one))
    assert two.mutations.load(two.keeper).get(first.mutation_id)
    assert kill_mutation(one.keeper, TABLE, first.mutation_id, one.gate)
    assert not kill_mutation(one.keeper, TABLE, first.mutation_id, one.gate)
    assert two.mutations.load(two.keeper).mutations == ()
    assert assign(one) == []
    for fault in (Fault.LOSE_ANSWER, Fault.LOSE_REQUEST):
        second = made(create(one))
        fault_once(one.ensemble, fault, "delete")
        sync = one.keeper.sync
        one.keeper.sync = lambda path, sync=sync: (one.keeper.reconnect(), sync(path))  # type: ignore
        assert kill_mutation(one.keeper, TABLE, second.mutation_id, one.gate)
        assert one.keeper.children(TABLE.mutations) == []


def test_a_definition_that_is_not_here_yet() -> None:
    one, two = members()
    source = one.insert("a")
    first = made(create(one))
    entry = make_mutate_part_entry(source, [first], "r1", 1.0, metadata_version=3)
    assert log_merges_and_mutations(one.keeper, TABLE, one.predicate().log_version, [entry])
    two.pull()
    two.drain()  # fetches the source
    one.pull()
    assert one.queue.take_next_action(one, PoolLimits(9, 9, 1 << 40, metadata_version=2)) is None
    (item,) = one.queue.list_entries()
    assert "version 3 of the table's definition" in item.postpone_reason
    action = one.queue.take_next_action(one, PoolLimits(9, 9, 1 << 40, metadata_version=3))
    assert action is not None
    assert action.kind is ActionKind.MUTATE


def test_who_lacks_the_source_fetches() -> None:
    one, two = members()
    one.insert("a")
    made(create(one))
    assign(one)
    one.pull()
    one.drain()
    log_pull.unlist_parts(one.keeper, one.paths, [part("all_0_0_0")])
    two.pull()
    assert ActionKind.FETCH in two.drain()
    assert two.active == {part("all_0_0_0_2")} or two.active == one.active


def test_what_awaits_its_quorum_is_not_mutated() -> None:
    one, two, _ = members(3)
    one.insert("a", QuorumPlan(2, True))
    made(create(two))
    two.pull()
    assert assign(one) == []
    two.drain()
    assert assign(one) == [part("all_0_0_0_1")]


def test_a_drop_takes_mutated_parts_too() -> None:
    one, two = members()
    one.insert("a")
    made(create(one))
    assign(one)
    two.pull()
    drop_partition(two.keeper, TABLE, "r2", "all")
    for member in (two, one):
        member.pull()
        member.drain()
        assert member.active == set()
        assert not member.queue.list_entries()


def test_the_connection_breaks_while_numbers_are_taken() -> None:
    one, _ = members()
    one.insert("a")
    fault_once(one.ensemble, Fault.LOSE_ANSWER)
    with pytest.raises(KeeperConnectionLoss):
        create(one)
