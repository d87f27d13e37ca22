"""Every statement that the grammar knows can be run, and says what it may do."""

from __future__ import annotations

from typing import get_args

import pytest

from engine.interpreter.dispatch import STATEMENTS
from engine.queries.context import Context
from engine.queries.session import Session
from parts.common.errors import UserError
from sql.grammar import statement_parser
from sql.grammar.statements.statement import Statement
from sql.settings.supported_settings import DEFAULT_SETTINGS


def test_every_class_of_statement_has_a_kind() -> None:
    assert set(get_args(Statement)) == set(STATEMENTS)


def test_what_a_read_only_session_may_run_is_not_sent_to_the_owner_of_the_tables() -> None:
    both = {kind.statement.__name__ for kind in STATEMENTS.values() if kind.is_read_only and kind.runs_in_owner}
    assert both == {
        "KillQuery",  # it looks for the query in all processes
        "ShowCreateLink",  # which is in ZooKeeper
        "ShowCreateLinkGroup",
    }


def test_what_is_sent_to_the_owner_of_the_tables_runs_nowhere_else() -> None:
    elsewhere = Context(None, Session(), DEFAULT_SETTINGS, "")  # type: ignore[arg-type]
    for kind in STATEMENTS.values():
        if kind.runs_in_owner:
            with pytest.raises(AssertionError, match="a worker sends the statement"):
                kind.run(None, elsewhere)


def test_no_keyword_begins_two_kinds_of_statements() -> None:
    syntaxes = [syntax for module in statement_parser._MODULES for syntax in module.SYNTAX]
    keywords = [keyword for syntax in syntaxes for keyword in syntax.keywords]
    assert len(set(keywords)) == len(keywords)
    assert {*keywords, "EXPLAIN"} == set(statement_parser._SYNTAX)


def test_a_word_that_begins_no_statement_is_answered_with_those_that_do() -> None:
    with pytest.raises(UserError, match=r"SELECT.*INSERT.*ROLLBACK.*EXPLAIN") as raised:
        statement_parser.parse_statement("HELLO")
    assert raised.value.code == 62
