"""The interpreter's description of a kind of statement, one object beside the function that runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.queries.context import Context, OwnerContext, require_owner
from engine.queries.session import QueryResult


@dataclass(frozen=True, slots=True)
class StatementKind:
    """A class of parsed statements (``sql.grammar.statements``), with its function and its rights."""

    statement: type
    run: Callable[[Any, Context], QueryResult]
    is_read_only: bool = False
    """Whether a read-only session may run it."""
    runs_in_owner: bool = False
    """Whether a worker sends it, as a whole, to the process that owns the tables."""


def define_owner_statement(
    statement: type, run: Callable[[Any, OwnerContext], QueryResult], *, is_read_only: bool = False
) -> StatementKind:
    """Defines a kind of statement that runs in the process that owns the tables."""
    return StatementKind(
        statement, lambda parsed, context: run(parsed, require_owner(context)), is_read_only, runs_in_owner=True
    )
