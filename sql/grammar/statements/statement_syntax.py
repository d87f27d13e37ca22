"""The grammar's description of a kind of statement, one object beside the function that parses it.

Its other half, what runs the statement and who may run it, is ``engine.interpreter.statement_kind``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sql.grammar.statements.statement import ParsedStatement, Statement
from sql.grammar.tokens import TokenStream


@dataclass(frozen=True, slots=True)
class StatementSyntax:
    """Statements that begin with one of the keywords. No other syntax has the same keyword."""

    keywords: tuple[str, ...]
    parse: Callable[[TokenStream], Statement | ParsedStatement]
    """Reads a statement from its keyword on. Returns a ``ParsedStatement`` if it read the clauses of output as well."""
