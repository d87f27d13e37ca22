"""What every Keeper must do. Subclasses give ``connect``; each test works below a path of its own."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable

import pytest

from coordination.inserts.block_numbers import allocate_block_number
from coordination.inserts.partition_nodes import next_numbers, raise_next_first_number
from coordination.keeper.interface import (
    BadVersion,
    Check,
    Children,
    Create,
    Delete,
    Get,
    Keeper,
    KeeperError,
    KeeperSessionExpired,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Read,
    RequestTooLarge,
    SessionState,
    SetData,
    check_not_exists,
)
from coordination.nodes.paths import TablePaths

Connect = Callable[[], Keeper]


class KeeperContract:
    @pytest.fixture
    def keeper(self, connect: Connect) -> Keeper:
        return connect()

    @pytest.fixture
    def base(self, keeper: Keeper) -> str:
        path = f"/contract-{uuid.uuid4().hex[:12]}"
        keeper.create(path)
        return path

    def test_session_is_connected_and_has_an_id(self, keeper: Keeper) -> None:
        assert keeper.state is SessionState.CONNECTED
        assert keeper.session_id != 0

    def test_sessions_differ(self, connect: Connect) -> None:
        assert connect().session_id != connect().session_id

    def test_create_get_set(self, keeper: Keeper, base: str) -> None:
        assert keeper.create(f"{base}/a", b"one") == f"{base}/a"
        data, stat = keeper.get(f"{base}/a")
        assert (data, stat.version, stat.data_length, stat.ephemeral_owner) == (b"one", 0, 3, 0)
        changed = keeper.set(f"{base}/a", b"three", 0)
        assert changed.version == 1
        assert changed.modified_zxid > changed.created_zxid == stat.created_zxid
        assert keeper.get(f"{base}/a")[0] == b"three"

    def test_request_that_would_break_the_connection_is_not_sent(self, keeper: Keeper, base: str) -> None:
        session, large = keeper.session_id, b"x" * (1024 * 1024)
        for send in (
            lambda: keeper.create(f"{base}/a", large),
            lambda: keeper.set(base, large),
            lambda: keeper.multi([Create(f"{base}/a{i}", large[: 600 * 1024]) for i in range(2)]),
            lambda: keeper.multi([Delete(f"{base}/{'n' * 100}{i}") for i in range(10_000)]),
        ):
            with pytest.raises(RequestTooLarge, match="not sent") as caught:
                send()
            assert caught.value.code == 290
        keeper.multi([Create(f"{base}/a{i}", large[: 500 * 1024]) for i in range(2)])
        assert (keeper.state, keeper.session_id) == (SessionState.CONNECTED, session)

    def test_missing_nodes(self, keeper: Keeper, base: str) -> None:
        assert keeper.exists(f"{base}/none") is None
        with pytest.raises(NoNode):
            keeper.get(f"{base}/none")
        with pytest.raises(NoNode):
            keeper.children(f"{base}/none")
        with pytest.raises(NoNode):
            keeper.set(f"{base}/none", b"")
        with pytest.raises(NoNode):
            keeper.delete(f"{base}/none")
        with pytest.raises(NoNode):
            keeper.create(f"{base}/none/child")

    def test_definite_failures_name_the_path(self, keeper: Keeper, base: str) -> None:
        keeper.create(f"{base}/a")
        with pytest.raises(NodeExists, match=f"{base}/a") as caught:
            keeper.create(f"{base}/a")
        assert caught.value.path == f"{base}/a"
        with pytest.raises(BadVersion):
            keeper.set(f"{base}/a", b"", 7)
        with pytest.raises(BadVersion):
            keeper.delete(f"{base}/a", 7)
        with pytest.raises(NotEmpty):
            keeper.delete(base)

    def test_children_are_sorted_and_counted(self, keeper: Keeper, base: str) -> None:
        for name in ("b", "a", "c"):
            keeper.create(f"{base}/{name}")
        assert keeper.children(base) == ["a", "b", "c"]
        stat = keeper.exists(base)
        assert stat is not None
        assert (stat.children_count, stat.children_version) == (3, 3)
        keeper.delete(f"{base}/b")
        stat = keeper.exists(base)
        assert stat is not None
        assert (stat.children_count, stat.children_version) == (2, 4)

    def test_sequence_counts_all_creates_and_never_goes_back(self, keeper: Keeper, base: str) -> None:
        assert keeper.create(f"{base}/n-", sequential=True) == f"{base}/n-0000000000"
        keeper.create(f"{base}/other")
        assert keeper.create(f"{base}/n-", sequential=True) == f"{base}/n-0000000002"
        keeper.delete(f"{base}/n-0000000002")
        assert keeper.create(f"{base}/m-", sequential=True) == f"{base}/m-0000000003"

    def test_next_block_number_is_known_without_taking_it(self, keeper: Keeper, base: str) -> None:
        table = TablePaths(f"{base}/t")
        keeper.create(table.root)
        keeper.create(table.block_numbers)
        keeper.create(table.partition("2"))
        keeper.create(table.partition("3", 100))
        for partition, numbers in (("2", 3), ("3_100", 1)):
            for number in range(numbers):
                path = keeper.create(f"{table.block_numbers}/{partition}/block-", sequential=True)
                if number != 1:
                    keeper.delete(path)
        keeper.multi([op for path in [f"{table.partition('2')}/skip"] for op in (Create(path), Delete(path))])
        assert next_numbers(keeper, table, ["1", "2", "3"]) == {"1": 0, "2": 4, "3": 101}
        raise_next_first_number(keeper, table, 7)
        raise_next_first_number(keeper, table, 5)
        assert next_numbers(keeper, table, ["1", "2"]) == {"1": 7, "2": 4}
        assert allocate_block_number(keeper, table, "2").number == 4  # type: ignore[union-attr]
        assert allocate_block_number(keeper, table, "1").number == 7  # type: ignore[union-attr]
        assert next_numbers(keeper, table, ["1", "2"]) == {"1": 8, "2": 5}

    def test_failed_multi_takes_no_sequence_number(self, keeper: Keeper, base: str) -> None:
        with pytest.raises(MultiFailed):
            keeper.multi([Create(f"{base}/n-", sequential=True), Check(f"{base}/none")])
        assert keeper.create(f"{base}/n-", sequential=True) == f"{base}/n-0000000000"

    def test_skipping_numbers_by_create_and_delete(self, keeper: Keeper, base: str) -> None:
        keeper.multi([op for _ in range(5) for op in (Create(f"{base}/skip"), Delete(f"{base}/skip"))])
        assert keeper.create(f"{base}/n-", sequential=True) == f"{base}/n-0000000005"

    def test_multi_applies_all_and_returns_results(self, keeper: Keeper, base: str) -> None:
        keeper.create(f"{base}/old")
        results = keeper.multi(
            [
                Create(f"{base}/n-", b"x", sequential=True),
                Check(f"{base}/old", 0),
                SetData(f"{base}/old", b"new", 0),
                Delete(f"{base}/old", 1),
            ]
        )
        assert results[0] == f"{base}/n-0000000001"
        assert results[1] is None
        assert results[2].version == 1  # type: ignore[union-attr]
        assert results[3] is None
        assert keeper.children(base) == ["n-0000000001"]

    def test_a_multi_can_ask_which_number_is_next(self, keeper: Keeper, base: str) -> None:
        keeper.delete(keeper.create(f"{base}/n-", sequential=True))
        for number, answers in ((0, False), (2, False), (1, True)):
            ops = [Create(f"{base}/n-", ephemeral=True, sequential=True), Delete(f"{base}/n-{number:010d}")]
            if answers:
                keeper.multi([*ops, Delete(base)])
            else:
                with pytest.raises(MultiFailed) as caught:
                    keeper.multi(ops)
                assert isinstance(caught.value.cause, NoNode)
        assert keeper.exists(base) is None

    def test_multi_is_all_or_nothing_and_names_the_operation(self, keeper: Keeper, base: str) -> None:
        keeper.create(f"{base}/there")
        ops = [Create(f"{base}/new"), Create(f"{base}/there"), Create(f"{base}/late")]
        with pytest.raises(MultiFailed) as caught:
            keeper.multi(ops)
        assert caught.value.index == 1
        assert caught.value.op == ops[1]
        assert isinstance(caught.value.cause, NodeExists)
        assert caught.value.cause.path == f"{base}/there"
        assert keeper.children(base) == ["there"]

    @pytest.mark.parametrize(
        ("op", "cause"),
        [
            (lambda base: Check(f"{base}/none"), NoNode),
            (lambda base: Check(f"{base}/there", 3), BadVersion),
            (lambda base: SetData(f"{base}/there", b"", 3), BadVersion),
            (lambda base: Delete(f"{base}/none"), NoNode),
            (lambda base: Delete(base), NotEmpty),
            (lambda base: Create(f"{base}/none/child"), NoNode),
        ],
    )
    def test_multi_causes(
        self, keeper: Keeper, base: str, op: Callable[[str], Check], cause: type[KeeperError]
    ) -> None:
        keeper.create(f"{base}/there")
        with pytest.raises(MultiFailed) as caught:
            keeper.multi([Create(f"{base}/new"), op(base)])
        assert isinstance(caught.value.cause, cause)
        assert caught.value.index == 1

    def test_check_not_exists(self, keeper: Keeper, base: str) -> None:
        keeper.multi([*check_not_exists(f"{base}/id"), Create(f"{base}/lock")])
        assert keeper.children(base) == ["lock"]
        keeper.create(f"{base}/id")
        with pytest.raises(MultiFailed) as caught:
            keeper.multi([*check_not_exists(f"{base}/id"), Create(f"{base}/other")])
        assert caught.value.index == 0
        assert keeper.children(base) == ["id", "lock"]

    def test_empty_multi(self, keeper: Keeper) -> None:
        assert keeper.multi([]) == []

    def test_many_reads_pipelined(self, keeper: Keeper, base: str) -> None:
        keeper.multi([Create(f"{base}/n-", str(i).encode(), sequential=True) for i in range(350)])
        paths = [f"{base}/{name}" for name in keeper.children(base)] + [f"{base}/none"]
        answers = keeper.get_many(paths)
        assert [answer[0] for answer in answers[:-1] if answer] == [str(i).encode() for i in range(350)]
        assert answers[-1] is None
        stats = keeper.exists_many(paths)
        assert stats[-1] is None
        assert all(stats[:-1])
        assert keeper.children_many([base, f"{base}/none"])[1] is None
        assert len(keeper.children_many([base])[0] or ()) == 350
        assert keeper.get_many([]) == []
        assert keeper.children_many([*paths, base])[:-1] == [*([[]] * 350), None]
        assert keeper.children_many([*paths, base])[-1] == keeper.children(base)
        keeper.set(paths[0], "ä".encode() * 1000)
        assert (keeper.get_many(paths)[0] or ())[0] == "ä".encode() * 1000
        assert [answer[1] for answer in keeper.get_many(paths) if answer] == keeper.exists_many(paths)[:-1]

    @pytest.mark.parametrize("count", [1, 3, 600])
    def test_reads_of_both_kinds_are_answered_in_their_order(self, keeper: Keeper, base: str, count: int) -> None:
        for name in ("b", "a"):
            keeper.create(f"{base}/{name}", name.encode())
        reads: list[Read] = [Get(f"{base}/a"), Children(base), Get(f"{base}/none"), Children(f"{base}/none")]
        a, names, *missing = keeper.read_many(reads * count)[-4:]
        assert a == keeper.get(f"{base}/a")
        assert names == ["a", "b"]
        assert missing == [None, None]
        assert keeper.read_many([]) == []

    def test_ephemeral_nodes_go_with_their_session(self, connect: Connect, keeper: Keeper, base: str) -> None:
        other = connect()
        other.create(f"{base}/e", ephemeral=True)
        stat = keeper.exists(f"{base}/e")
        assert stat is not None
        assert stat.ephemeral_owner == other.session_id
        with pytest.raises(KeeperError):
            other.create(f"{base}/e/child")
        other.close()
        keeper.sync(base)
        assert keeper.exists(f"{base}/e") is None

    def test_calls_after_close(self, connect: Connect) -> None:
        keeper = connect()
        keeper.close()
        keeper.close()
        assert keeper.session_id == 0
        assert keeper.state is SessionState.EXPIRED
        with pytest.raises(KeeperSessionExpired):
            keeper.create("/x")
        with pytest.raises(KeeperSessionExpired):
            keeper.exists("/x")

    def test_data_watch_fires_once_with_the_path(self, keeper: Keeper, connect: Connect, base: str) -> None:
        seen, fired = _recorder()
        keeper.create(f"{base}/a")
        keeper.get(f"{base}/a", seen)
        other = connect()
        other.set(f"{base}/a", b"1")
        assert fired.wait(5)
        other.set(f"{base}/a", b"2")
        keeper.sync(base)
        assert seen.paths == [f"{base}/a"]

    def test_exists_watch_sees_creation_and_deletion(self, keeper: Keeper, connect: Connect, base: str) -> None:
        other = connect()
        seen, fired = _recorder()
        assert keeper.exists(f"{base}/a", seen) is None
        other.create(f"{base}/a")
        assert fired.wait(5)
        seen, fired = _recorder()
        assert keeper.exists(f"{base}/a", seen) is not None
        other.delete(f"{base}/a")
        assert fired.wait(5)

    def test_children_watch(self, keeper: Keeper, connect: Connect, base: str) -> None:
        seen, fired = _recorder()
        keeper.children(base, seen)
        connect().multi([Create(f"{base}/a"), Create(f"{base}/b")])
        assert fired.wait(5)
        assert seen.paths == [base]

    def test_create_parents_and_delete_tree(self, keeper: Keeper, base: str) -> None:
        keeper.create_parents(f"{base}/a/b/c")
        keeper.create_parents(f"{base}/a/b/c")
        for i in range(120):
            keeper.create(f"{base}/a/b/c/{i}")
        keeper.delete_tree(f"{base}/a")
        assert keeper.children(base) == []
        keeper.delete_tree(f"{base}/a")

    def test_one_writer_wins(self, connect: Connect, base: str) -> None:
        """Eight sessions race to move a counter by expected versions: no step is lost."""
        keepers = [connect() for _ in range(4)]
        keepers[0].create(f"{base}/n", b"0")

        def add_ten(keeper: Keeper) -> None:
            done = 0
            while done < 10:
                data, stat = keeper.get(f"{base}/n")
                try:
                    keeper.multi([SetData(f"{base}/n", str(int(data) + 1).encode(), stat.version)])
                    done += 1
                except MultiFailed:
                    continue

        threads = [threading.Thread(target=add_ten, args=(keeper,)) for keeper in keepers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert keepers[0].get(f"{base}/n")[0] == b"40"


class _Recorder:
    def __init__(self, event: threading.Event) -> None:
        self.paths: list[str] = []
        self._event = event

    def __call__(self, path: str) -> None:
        self.paths.append(path)
        self._event.set()


def _recorder() -> tuple[_Recorder, threading.Event]:
    event = threading.Event()
    return _Recorder(event), event
