"""Evaluates numbers that a clause needs as constants."""

from __future__ import annotations

from parts.common.errors import UserError
from sql.compile.compiler_interfaces import ExpressionCompiling
from sql.grammar.syntax_tree import Node


def evaluate_row_count(node: Node, compiler: ExpressionCompiling, clause: str) -> int:
    """Returns the count of LIMIT or OFFSET, a constant expression. Raises ``UserError`` 36.

    Integral floats are allowed.
    """
    value = compiler.compile(node)
    if value.is_literal and isinstance(value.value, int) and not isinstance(value.value, bool) and value.value >= 0:
        return value.value
    folded = compiler.need_query().constant(value) if value.is_constant else None
    if isinstance(folded, float) and folded.is_integer() and folded < 1 << 64:
        folded = int(folded)
    if isinstance(folded, int) and folded >= 0:
        return int(folded)  # true is 1
    raise UserError("BAD_ARGUMENTS", f"{clause} must be a constant number of rows that is not negative")
