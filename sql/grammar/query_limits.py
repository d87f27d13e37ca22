"""Limits of a query's depth and size, and checks of its deadline, while it is parsed and compiled.

Depth and size are counted as ClickHouse counts them. A bracket costs five levels of its parser, a subquery in brackets
twelve. A call is two levels of the tree (the call and its list of arguments), and two elements. ``MAX_LEVELS`` holds
whatever the settings say: the compiler recurses, and so does DuckDB.

Invariants

- Code that recurses on a user's text is inside :meth:`QueryGuard.nested`, or walks a tree that :func:`check_tree`
  passed.
- Between two checks of the deadline lie at most some hundred tokens or nodes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parts.common.errors import UserError
from parts.common.query_status import QueryStatus
from sql.grammar.syntax_tree import Function, children

if TYPE_CHECKING:
    from sql.grammar.syntax_tree import Node
    from sql.settings.supported_settings import (
        Settings,
    )

MAX_LEVELS = 1000
BRACKET_LEVELS = 5
QUERY_LEVELS = 7
CALL_LEVELS = 2
_RECURSION_LIMIT = 40_000
"""Python's recursion limit must not be reached within the limits here: a parser level takes twenty frames."""
_STEPS_BETWEEN_CHECKS = 256
_MIN_QUERY_CHARACTERS = 1 << 20
"""Characters that any compiled query may have; a longer query text may have more. DuckDB plans about a megabyte in a
second, and cannot be interrupted while it does."""
LAMBDA_ELEMENTS = 3
"""Factor by which the body of a lambda counts. DuckDB plans it twice (a lambda inside it four times), and the copies
take half as much memory again."""

sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSION_LIMIT))


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Limits of one query. The defaults are ClickHouse's; 0 in a setting means up to ``MAX_LEVELS``."""

    parser_depth: int = 1000
    ast_depth: int = 1000
    ast_elements: int = 50_000
    expanded_elements: int = 500_000

    @staticmethod
    def of(settings: Settings) -> QueryLimits:
        """Returns the limits that the settings ask for."""
        return QueryLimits(
            settings.max_parser_depth or MAX_LEVELS,
            settings.max_ast_depth or MAX_LEVELS,
            settings.max_ast_elements or sys.maxsize,
            settings.max_expanded_ast_elements or sys.maxsize,
        )


DEFAULT_LIMITS = QueryLimits()


class QueryGuard:
    """Counts depth and size of one query, and checks its deadline. Not thread-safe."""

    def __init__(self, limits: QueryLimits = DEFAULT_LIMITS, status: QueryStatus | None = None, text: str = "") -> None:
        self.limits = limits
        self.status = status if status is not None else QueryStatus()
        self.elements = 0
        self.expanded = 0
        """Elements of the tree with every alias written out."""
        self._most_text = _MIN_QUERY_CHARACTERS + 4 * len(text)
        self._steps = 0
        self._parser_levels = 0
        self._tree_levels = 0

    def step(self) -> None:
        """Counts a token or node. Raises what :meth:`QueryStatus.check` raises."""
        self._steps += 1
        if self._steps % _STEPS_BETWEEN_CHECKS == 0:
            self.status.check()

    @contextmanager
    def nested(self, parser_levels: int, tree_levels: int = 0) -> Iterator[None]:
        """Counts levels while something inside brackets or a call is parsed.

        Raises 306 (TOO_DEEP_RECURSION) and 167 (TOO_DEEP_AST).
        """
        self.deepen(parser_levels, tree_levels)
        try:
            yield
        finally:
            self._parser_levels -= parser_levels
            self._tree_levels -= tree_levels

    def deepen(self, parser_levels: int, tree_levels: int) -> None:
        """Adds levels that stay until the end of the query. Raises 306 and 167 as :meth:`nested` does."""
        self._parser_levels += parser_levels
        self._tree_levels += tree_levels
        if self._parser_levels > min(self.limits.parser_depth, MAX_LEVELS):
            raise too_deep_recursion(min(self.limits.parser_depth, MAX_LEVELS))
        if self._tree_levels > min(self.limits.ast_depth, MAX_LEVELS):
            raise _too_deep_tree_error(min(self.limits.ast_depth, MAX_LEVELS))

    def count(self, elements: int) -> None:
        """Counts elements of the tree. Raises 168 (TOO_BIG_AST)."""
        self.elements += elements
        if self.elements > self.limits.ast_elements:
            raise UserError("TOO_BIG_AST", f"AST is too big. Maximum: {self.limits.ast_elements} (max_ast_elements)")

    def expand(self, elements: int, lambdas: int = 0) -> None:
        """Counts an alias's elements each time it is used.

        An expression in ``lambdas`` counts as often as DuckDB plans it. Raises 36 (BAD_ARGUMENTS) as ClickHouse does.
        """
        self.expanded += elements * LAMBDA_ELEMENTS**lambdas
        if self.expanded > self.limits.expanded_elements:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Query tree is too big with its aliases written out and its lambdas planned. Maximum: "
                f"{self.limits.expanded_elements} (max_expanded_ast_elements)",
            )

    def check_size(self, characters: int, lambdas: int = 0) -> None:
        """Checks the size of the compiled query, or of a part inside ``lambdas``. Raises 168 (TOO_BIG_AST)."""
        if characters << lambdas > self._most_text:
            raise UserError(
                "TOO_BIG_AST",
                f"The query is too big with its aliases and functions written out: more than {self._most_text} "
                f"characters to plan; compute what it uses often in a subquery",
            )


def too_deep_recursion(limit: int) -> UserError:
    """Returns the error 306 (TOO_DEEP_RECURSION)."""
    return UserError(
        "TOO_DEEP_RECURSION",
        f"Maximum parse depth ({limit}) exceeded. Consider raising max_parser_depth (at most {MAX_LEVELS})",
    )


def _too_deep_tree_error(limit: int) -> UserError:
    return UserError("TOO_DEEP_AST", f"AST is too deep. Maximum: {limit} (max_ast_depth, at most {MAX_LEVELS})")


def check_tree(root: Node, guard: QueryGuard) -> None:
    """Raises 167 (TOO_DEEP_AST) or 168 (TOO_BIG_AST) for a tree past the limits."""
    most_levels = min(guard.limits.ast_depth, MAX_LEVELS)
    stack: list[tuple[Node, int]] = [(root, 1)]
    while stack:
        node, depth = stack.pop()
        guard.step()
        is_call = isinstance(node, Function)
        guard.count(CALL_LEVELS if is_call else 1)
        depth += CALL_LEVELS if is_call else 1
        if depth > most_levels:
            raise _too_deep_tree_error(most_levels)
        stack.extend([(child, depth) for child in children(node)])
