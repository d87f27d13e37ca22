"""Every statement that the grammar knows can be run, and says what it may do."""

from __future__ import annotations

from typing import get_args

from engine.interpreter.dispatch import STATEMENTS
from sql.grammar.statements.statement import Statement


def test_every_class_of_statement_has_a_kind() -> None:
    assert set(get_args(Statement)) == set(STATEMENTS)


def test_what_a_read_only_session_may_run_is_not_sent_to_the_owner_of_the_tables() -> None:
    both = {kind.statement.__name__ for kind in STATEMENTS.values() if kind.is_read_only and kind.runs_in_owner}
    assert both == {"KillQuery"}  # it looks for the query in all processes
