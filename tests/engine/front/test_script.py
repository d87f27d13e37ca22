"""Cutting scripts into statements."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from engine.client.backends import ClientAnswer, ClientQuery, LocalBackend
from engine.client.script import is_complete_statement, split_script
from engine.client.script_runner import RunnerOptions, ScriptRunner
from parts.common.errors import CancelledError, UserError
from sql.grammar.statements.statement import SetSettings, Use


def _texts(script: str) -> list[str]:
    return [statement.text for statement in split_script(script)]


def test_statements_end_at_semicolons_outside_quotes_and_comments() -> None:
    script = "SELECT ';' ; -- one; two\nSELECT `a;b` /* ; */ FROM t;;\n SELECT 3"
    assert _texts(script) == ["SELECT ';'", "SELECT `a;b` /* ; */ FROM t", "SELECT 3"]
    assert _texts(" ;; -- nothing\n") == []


def test_values_data_ends_at_a_semicolon() -> None:
    first, second = split_script("INSERT INTO t VALUES (1, 'a;b'), (2, 'c'); SELECT 1")
    assert first.text == "INSERT INTO t VALUES"
    assert first.data == b" (1, 'a;b'), (2, 'c')"
    assert not first.wants_data
    assert second.text == "SELECT 1"


def test_format_data_runs_to_the_end() -> None:
    [statement] = split_script("INSERT INTO t FORMAT CSV\n1,a;b\n2,ü\n")
    assert statement.data == "1,a;b\n2,ü\n".encode()
    assert statement.is_insert


def test_insert_without_data_wants_it() -> None:
    [statement] = split_script("INSERT INTO t FORMAT CSV")
    assert statement.wants_data
    [statement] = split_script("INSERT INTO t SELECT 1")
    assert not statement.wants_data


def test_vertical_mark() -> None:
    first, second = split_script("SELECT 1\\G SELECT 2;")
    assert (first.text, first.is_vertical) == ("SELECT 1", True)
    assert (second.text, second.is_vertical) == ("SELECT 2", False)


def test_outfile_is_taken_out() -> None:
    [statement] = split_script("SELECT 1 INTO OUTFILE 'x.csv' FORMAT CSV")
    assert statement.outfile == "x.csv"
    assert statement.text.split() == ["SELECT", "1", "FORMAT", "CSV"]


def test_what_only_the_server_can_judge_is_passed_on() -> None:
    [statement] = split_script("FROBNICATE everything")
    assert statement.text == "FROBNICATE everything"
    assert not statement.is_insert


def test_use_and_set_are_to_be_remembered() -> None:
    first, second, third = split_script("USE `my db`; SET max_threads = 4; SELECT 1")
    assert first.change == Use("my db")
    assert second.change == SetSettings({"max_threads": 4})
    assert third.change is None


def test_open_quote_is_a_syntax_error() -> None:
    with pytest.raises(UserError, match="closing"):
        list(split_script("SELECT 'abc"))


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("SELECT 1;", True),
        ("SELECT 1 ;  \n", True),
        ("SELECT 1\\G", True),
        ("SELECT 1", False),
        ("SELECT ';", False),
        ("SELECT 1 -- ;", False),
        ("SELECT /* ;", False),
        ("SELECT ';';", True),
    ],
)
def test_complete_input(text: str, complete: bool) -> None:
    assert is_complete_statement(text) is complete


# -- running --------------------------------------------------------------------------------------------------------


class _FailingBackend(LocalBackend):
    """Fails as the statement's text says."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    @contextlib.contextmanager
    def run(self, query: ClientQuery) -> Iterator[ClientAnswer]:
        self.ran.append(query.text)
        raise CancelledError if "cancel" in query.text else UserError("SYNTAX_ERROR", f"no {query.text}")
        yield


def test_every_ignored_error_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    backend = _FailingBackend()
    runner = ScriptRunner(backend, RunnerOptions(ignores_errors=True))
    assert runner.run_script("SELECT 1; SELECT 2") == 62
    shown = capsys.readouterr().err
    assert "no SELECT 1" in shown
    assert "no SELECT 2" in shown
    assert runner.run_script("SELECT 'cancelled'; SELECT 3") == 130
    assert backend.ran == ["SELECT 1", "SELECT 2", "SELECT 'cancelled'"]
