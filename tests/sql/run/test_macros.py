"""DuckDB is given a macro, and those that it uses, before the first statement that names it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import duckdb
import pytest

from sql.compile.macros_and_kernels import KERNELS, MACROS
from sql.run.duckdb import database
from sql.typing.column_kernels import kernels


@pytest.fixture
def new_database(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], duckdb.DuckDBPyConnection]]:
    """Makes a database without macros, which is the process's from then on."""
    connections: list[duckdb.DuckDBPyConnection] = []

    def new() -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(":memory:")
        kernels.register(connection, KERNELS)
        connections.append(connection)
        monkeypatch.setattr(database, "_connection", lambda: connection)
        monkeypatch.setattr(database, "_created_macros", set())
        return connection

    yield new
    for connection in connections:
        connection.close()


@pytest.mark.long
def test_each_macro_alone(new_database: Callable[[], duckdb.DuckDBPyConnection]) -> None:
    for name in MACROS:
        connection = new_database()
        database.prepare_sql(f"SELECT {name}(")
        query = f"SELECT count(*) FROM duckdb_functions() WHERE function_name = '{name}'"
        assert connection.execute(query).fetchall() == [(1,)]


def test_several_threads_while_rows_are_read(new_database: Callable[[], duckdb.DuckDBPyConnection]) -> None:
    connection = new_database()
    rows = connection.cursor().sql("SELECT range FROM range(1000000)").to_arrow_reader(1000)
    read = rows.read_next_batch().num_rows
    errors: list[Exception] = []

    def prepare() -> None:
        try:
            database.prepare_sql(" ".join(MACROS))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=prepare) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert read + sum(batch.num_rows for batch in rows) == 1_000_000
    assert database._created_macros == set(MACROS)


def test_text_that_only_looks_like_one(new_database: Callable[[], duckdb.DuckDBPyConnection]) -> None:
    connection = new_database()
    sql = "SELECT 'pando_nothing(' || 'pando_'"
    assert connection.execute(database.prepare_sql(sql)).fetchall() == [("pando_nothing(pando_",)]
    assert not database._created_macros
