"""Transactions of inserts into a table of one server, in SQL."""

from __future__ import annotations

import dataclasses
import errno
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.queries.session import Session
from parts.common.errors import PandoError, UnavailableError
from parts.format.hashed_file import replace_sync
from parts.read.part_reader import Part
from parts.store.exchange_journal import ExchangeJournal
from parts.store.exchange_record import ExchangeRecord
from sql.grammar.tokens import quote_string
from tests.engine.conftest import Local
from tests.portions import one_in


@pytest.fixture
def table(local: Local) -> Local:
    local.run("CREATE TABLE t (p UInt8, k UInt32) ENGINE = MergeTree PARTITION BY p ORDER BY k")
    return local


def rows(local: Local) -> list[tuple[object, ...]]:
    return local.run("SELECT p, k FROM t ORDER BY p, k")


def insert(local: Local, values: str, transaction: str = "x", **settings: str) -> None:
    given = {"insert_transaction": transaction, **settings}
    text = ", ".join(f"{name} = '{value}'" for name, value in given.items())
    local.run(f"INSERT INTO t SETTINGS {text} VALUES {values}")


def refused(local: Local, sql: str) -> PandoError:
    with pytest.raises(PandoError) as error:
        local.run(sql)
    return error.value


def test_rows_are_seen_all_at_once_and_a_commit_can_be_repeated(table: Local) -> None:
    insert(table, "(1, 1), (2, 2)")
    insert(table, "(1, 3)")
    assert rows(table) == []
    assert table.run("COMMIT TRANSACTION 'x' ON t") == [("committed", 3, 3)]
    assert rows(table) == [(1, 1), (1, 3), (2, 2)]
    assert table.run("COMMIT TRANSACTION 'x' ON TABLE default.t ROWS 3") == [("committed before", 3, 0)]
    table.restart()
    assert table.run("COMMIT TRANSACTION 'x' ON t") == [("committed before", 3, 0)]
    assert rows(table) == [(1, 1), (1, 3), (2, 2)]
    assert refused(table, "INSERT INTO t SETTINGS insert_transaction = 'x' VALUES (1, 9)").code == 649
    assert refused(table, "ROLLBACK TRANSACTION 'x' ON t").code == 649


def test_equal_rows_of_several_inserts_and_transactions_are_all_there(table: Local) -> None:
    for transaction in ("x", "y"):
        insert(table, "(1, 1)", transaction)
        insert(table, "(1, 1)", transaction)
        table.run(f"COMMIT TRANSACTION '{transaction}' ON t")
    assert rows(table) == [(1, 1)] * 4


def test_a_repeated_insert_is_kept_once_and_other_rows_under_its_token_are_refused(table: Local) -> None:
    for _ in range(2):
        insert(table, "(1, 1), (2, 2)", insert_deduplication_token="block 1")
    sql = (
        "INSERT INTO t SETTINGS insert_transaction = 'x', insert_deduplication_token = 'block 1' VALUES (1, 1), (2, 3)"
    )
    assert refused(table, sql).code == 389
    assert table.run("COMMIT TRANSACTION 'x' ON t") == [("committed", 2, 2)]
    assert rows(table) == [(1, 1), (2, 2)]


def test_only_the_named_attempts_count(table: Local) -> None:
    insert(table, "(1, 1)", insert_transaction_attempt="0:1")
    insert(table, "(1, 1)", insert_transaction_attempt="0:2")
    insert(table, "(1, 2)", insert_transaction_attempt="1:1")
    error = refused(table, "COMMIT TRANSACTION 'x' ON t ATTEMPTS '0:2', '1:1' ROWS 3")
    assert error.code == 649
    assert "holds 2 rows" in error.message
    assert table.run("COMMIT TRANSACTION 'x' ON t ATTEMPTS '0:2', '1:1', '2:1' ROWS 2") == [("committed", 2, 2)]
    assert rows(table) == [(1, 1), (1, 2)]
    assert not list((table.path / "data/default/t/staged").rglob("*/*"))


@pytest.mark.parametrize(
    ("how", "expected"),
    [("", [(1, 1), (1, 7), (2, 2)]), ("OVERWRITE", [(1, 7)]), ("OVERWRITE TABLE", [(1, 7)]),
     ("OVERWRITE PARTITIONS", [(1, 7), (2, 2)])],
)  # fmt: skip
def test_overwriting(table: Local, how: str, expected: list[tuple[int, int]]) -> None:
    table.run("INSERT INTO t VALUES (1, 1), (2, 2)")
    insert(table, "(1, 7)")
    table.run(f"COMMIT TRANSACTION 'x' ON t {how}")
    assert rows(table) == expected
    table.restart()
    assert rows(table) == expected


def test_overwriting_with_nothing_empties_the_table(table: Local) -> None:
    table.run("INSERT INTO t VALUES (1, 1)")
    assert table.run("COMMIT TRANSACTION 'x' ON t OVERWRITE") == [("committed", 0, 0)]
    assert rows(table) == []
    table.run("INSERT INTO t VALUES (1, 1)")
    assert rows(table) == [(1, 1)]


def test_the_system_table_shows_what_is_open_and_what_was_decided(table: Local) -> None:
    insert(table, "(1, 1), (2, 2)", "open")
    insert(table, "(1, 3)", "open")
    insert(table, "(1, 4), (1, 5)", "committed")
    insert(table, "(1, 6)", "aborted")
    table.run("COMMIT TRANSACTION 'committed' ON t")
    table.run("ROLLBACK TRANSACTION 'aborted' ON t")
    for _ in range(2):
        found = table.run(
            "SELECT database, table, id, toString(state), reason, rows, staged_parts, staged_bytes > 0, replicas, "
            "abs(now() - create_time) < 600, modification_time >= create_time FROM system.transactions ORDER BY state"
        )
        assert found == [
            ("default", "t", "open", "open", "", 3, 3, 1, [], 1, 1),
            ("default", "t", "committed", "committed", "", 2, 0, 0, [], 1, 1),
            ("default", "t", "aborted", "aborted", "it was rolled back", 0, 0, 0, [], 1, 1),
        ]
        table.restart()


def test_inserts_beside_a_commit_are_in_it_or_refused(table: Local) -> None:
    """Each client inserts until it is refused."""
    stored: list[int] = []

    def work(client: int) -> None:
        for number in itertools.count():
            key = client * 1_000_000 + number
            try:
                table.engine.execute(f"INSERT INTO t SETTINGS insert_transaction = 'x' VALUES (1, {key})", Session())
            except PandoError as error:
                assert error.code == 649  # noqa: PT017  (an error ends the thread, and is raised below)
                return
            stored.append(key)

    with ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(work, number) for number in range(4)]
        while len(stored) < 20:
            assert not any(client.done() for client in clients)
        table.run("COMMIT TRANSACTION 'x' ON t")
        for client in clients:
            client.result()
    assert rows(table) == [(1, key) for key in sorted(stored)]


def test_what_is_rolled_back_is_gone(table: Local) -> None:
    insert(table, "(1, 1)")
    table.run("ROLLBACK TRANSACTION 'x' ON t")
    table.run("ROLLBACK TRANSACTION 'x' ON t")
    table.run("ROLLBACK TRANSACTION 'never begun' ON t")
    assert (
        "rolled back"
        in refused(table, "INSERT INTO t SETTINGS insert_transaction = 'never begun' VALUES (1, 1)").message
    )
    assert "rolled back" in refused(table, "COMMIT TRANSACTION 'x' ON t").message
    assert refused(table, "INSERT INTO t SETTINGS insert_transaction = 'x' VALUES (1, 9)").code == 649
    assert rows(table) == []


def test_an_application_commits_a_version_once(table: Local) -> None:
    for transaction, version, status in (("a", 5, "committed"), ("b", 5, "skipped"), ("c", 6, "committed")):
        insert(table, f"(1, {version})", transaction)
        sql = f"COMMIT TRANSACTION '{transaction}' ON t APPLICATION 'daily' VERSION {version}"
        assert str(table.value(sql)).startswith(status)
        table.restart()
    assert table.value("COMMIT TRANSACTION 'c' ON t APPLICATION 'daily' VERSION 6") == "committed before"
    assert rows(table) == [(1, 5), (1, 6)]


@pytest.mark.parametrize("point", ["stage.after_move", "transaction.before_exchange"])
def test_an_error_leaves_nothing_and_a_repeat_completes(
    table: Local, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_there(name: str) -> None:
        if name == point:
            raise OSError("failed as asked")

    there = table.engine.catalog.table("default", "t")
    monkeypatch.setattr(there, "services", dataclasses.replace(there.services, failpoint=fail_there))
    if point.startswith("stage"):
        with pytest.raises(OSError, match="as asked"):
            insert(table, "(1, 1)", insert_deduplication_token="a")
        monkeypatch.undo()
    insert(table, "(1, 1)", insert_deduplication_token="a")
    if not point.startswith("stage"):
        with pytest.raises(OSError, match="as asked"):
            table.run("COMMIT TRANSACTION 'x' ON t")
        monkeypatch.undo()
    assert rows(table) == []
    table.run("COMMIT TRANSACTION 'x' ON t ROWS 1")
    assert rows(table) == [(1, 1)]


def test_staged_rows_survive_a_restart(table: Local) -> None:
    insert(table, "(1, 1)")
    table.restart()
    assert rows(table) == []
    assert table.run("COMMIT TRANSACTION 'x' ON t ROWS 1") == [("committed", 1, 1)]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("COMMIT", 48), ("ROLLBACK", 48), ("COMMIT TRANSACTION", 48), ("BEGIN TRANSACTION", 48),
        ("COMMIT TRANSACTION '' ON t", 36), ("COMMIT TRANSACTION 'x' ON u", 60), ("COMMIT TRANSACTION 'x'", 62),
        ("COMMIT TRANSACTION 'x' ON t ROWS -1", 62), ("COMMIT TRANSACTION 'x' ON t APPLICATION 'a'", 62),
        ("COMMIT TRANSACTION 'x' ON system.tables", 164), (f"COMMIT TRANSACTION '{'x' * 1001}' ON t", 36),
        ("COMMIT TRANSACTION 'x' ON t ROWS 1", 649), (f"COMMIT TRANSACTION 'x' ON t ROWS {'9' * 5000}", 62),
        ("COMMIT TRANSACTION 'x' ON nowhere.t", 81), ("ROLLBACK TRANSACTION 'x' ON nowhere.t", 81),
    ],
)  # fmt: skip
def test_bad_commits(table: Local, sql: str, code: int) -> None:
    assert refused(table, sql).code == code


def test_a_table_keeps_working_beside_an_exchange_cut_short(table: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """A start finds the record of an exchange, and carries it out."""
    table.run("INSERT INTO t VALUES (1, 1)")
    insert(table, "(1, 7), (2, 8)")
    store = table.engine.catalog.table("default", "t").store
    cut: list[Path] = []

    def stop_after_the_record(_: object, record: ExchangeRecord, *__: object) -> None:
        record.write(record.path(store.path, "cut"))
        cut.append(store.path)
        raise OSError("the power is gone")

    with monkeypatch.context() as patch:
        patch.setattr(ExchangeJournal, "run_exchange", stop_after_the_record)
        with pytest.raises(OSError, match="power"):
            table.run("COMMIT TRANSACTION 'x' ON t OVERWRITE")
    assert cut
    table.restart()
    assert rows(table) == [(1, 7), (2, 8)]
    assert table.run("COMMIT TRANSACTION 'x' ON t OVERWRITE") == [("committed before", 2, 0)]


def failing_disk(calls: Iterator[int], broken: Callable[[int], bool]) -> Callable[[int], None]:
    def sync(descriptor: int) -> None:
        if broken(next(calls)):
            raise OSError(errno.EIO, "fsync failed as asked")

    return sync


@pytest.mark.parametrize("is_repaired", one_in(2, [True, False]))
@pytest.mark.parametrize("ends", ["repeat", "rollback", "restart"])
def test_a_commit_whose_disk_fails_at_any_fsync(table: Local, ends: str, is_repaired: bool) -> None:
    """``is_repaired``: only one fsync fails. Otherwise what was done cannot be undone while the disk is broken: then
    the transaction is as good as open, or a start finds it decided."""
    for number in range(1, 30):
        table.run("TRUNCATE TABLE t")
        table.run("INSERT INTO t VALUES (1, 1), (2, 2)")
        name = f"{number}"
        insert(table, "(1, 7), (2, 8)", name)
        calls, commit = itertools.count(1), f"COMMIT TRANSACTION '{name}' ON t OVERWRITE"
        with replace_sync(
            failing_disk(calls, lambda call, at=number: call == at if is_repaired else call >= at)  # type: ignore[misc]
        ):
            try:
                table.run(commit)
            except UnavailableError:
                assert rows(table) == [(1, 1), (2, 2)]
            else:
                assert rows(table) == [(1, 7), (2, 8)]
                if next(calls) <= number:
                    return
                continue
        if ends == "restart":
            table.restart()
            assert rows(table) in ([(1, 1), (2, 2)], [(1, 7), (2, 8)])
        if ends == "rollback":
            table.run(f"ROLLBACK TRANSACTION '{name}' ON t")
            table.restart()
            assert rows(table) == [(1, 1), (2, 2)]
        else:
            assert str(table.run(commit)[0][0]).startswith("committed")
            assert rows(table) == [(1, 7), (2, 8)]
            table.restart()
            assert rows(table) == [(1, 7), (2, 8)]
    raise AssertionError("a COMMIT with very many fsyncs")


def test_ids_of_any_kind_name_nothing_on_the_disk_but_their_transaction(table: Local) -> None:
    ids = ["..", "/", "a/../../b", "nul\0x", "日本", "%s{}", "a'b", "x" * 1000]
    for identity in ids:
        text = quote_string(identity)
        table.run(f"INSERT INTO t SETTINGS insert_transaction = {text}, insert_transaction_attempt = {text}, "
                  f"insert_deduplication_token = {text} VALUES (1, 1)")  # fmt: skip
        sql = f"COMMIT TRANSACTION {text} ON t ATTEMPTS {text} APPLICATION {text} VERSION 1"
        assert table.run(sql) == [("committed", 1, 1)]
    table.restart()
    assert rows(table) == [(1, 1)] * len(ids)


@pytest.mark.parametrize("ends", ["repeat", "rollback"])
def test_a_commit_that_can_neither_be_made_nor_taken_back_for_a_while(
    table: Local, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(table, "(1, 7), (2, 8), (3, 9)")
    moved: list[Path] = []
    original = Part.rename_directory

    def fail_after_the_first(part: Part, path: Path) -> None:
        if moved:
            raise OSError(errno.EIO, "failed as asked")
        moved.append(path)
        original(part, path)

    with monkeypatch.context() as patch:
        patch.setattr(Part, "rename_directory", fail_after_the_first)
        for sql in ("COMMIT TRANSACTION 'x' ON t", "ROLLBACK TRANSACTION 'x' ON t", "INSERT INTO t VALUES (4, 1)"):
            with pytest.raises(UnavailableError, match="as asked"):
                table.run(sql)
            assert rows(table) == []
    if ends == "repeat":
        assert table.run("COMMIT TRANSACTION 'x' ON t") == [("committed", 3, 3)]
    else:
        table.run("ROLLBACK TRANSACTION 'x' ON t")
    table.restart()
    assert rows(table) == ([(1, 7), (2, 8), (3, 9)] if ends == "repeat" else [])


def test_a_wall_clock_that_steps_ahead_ends_nothing(table: Local) -> None:
    """Ages count from when this server first saw a thing as it is, in monotonic time."""
    merge_tree, services, now = table.engine.catalog.table("default", "t"), table.engine.services, [1000.0]
    services.monotonic = lambda: now[0]
    insert(table, "(1, 1)")
    insert(table, "(1, 2)", "y")
    table.run("COMMIT TRANSACTION 'y' ON t")
    wall = services.clock
    services.clock = lambda: wall() + 30 * 86_400
    for _ in range(2):
        merge_tree.clean_up_step()
        now[0] += 3_600
    insert(table, "(1, 3)")
    now[0] += 86_000
    merge_tree.clean_up_step()
    now[0] += 86_000
    merge_tree.clean_up_step()  # it was seen since the second INSERT, and not for a day
    assert table.run("COMMIT TRANSACTION 'y' ON t") == [("committed before", 1, 0)]
    assert table.run("COMMIT TRANSACTION 'x' ON t") == [("committed", 2, 2)]


def test_what_is_left_open_ends_after_a_day_though_the_clock_went_back(table: Local) -> None:
    merge_tree, services, now = table.engine.catalog.table("default", "t"), table.engine.services, [1000.0]
    services.monotonic = lambda: now[0]
    insert(table, "(1, 1)")
    insert(table, "(1, 2)", "y")
    table.run("COMMIT TRANSACTION 'y' ON t")
    services.clock = lambda: 0.0
    merge_tree.clean_up_step()
    now[0] += 86_500
    merge_tree.clean_up_step()
    assert "nothing was inserted" in refused(table, "COMMIT TRANSACTION 'x' ON t").message
    now[0] += 7 * 86_400
    merge_tree.clean_up_step()
    now[0] += 7 * 86_401
    merge_tree.clean_up_step()
    assert table.run("SELECT count() FROM system.transactions WHERE table = 't'") == [(0,)]
