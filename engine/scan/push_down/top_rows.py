"""Makes the query by which a slot's server finds its first rows in an order of Spark's.

Spark orders the rows of all slots again, so that a slot may give any of the rows that are equal in this order. NaN is
the greatest number. Strings are ordered by their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.scan.push_down.columns import ScanColumns
from engine.scan.push_down.expressions import Node
from engine.scan.push_down.literals import UntranslatableError, quote_name
from parts.types import FloatType

_MOST_ROWS = 10_000


@dataclass(frozen=True)
class OrderTerm:
    """An expression to order by."""

    node: Node
    is_descending: bool
    is_nulls_first: bool


def make_top_query(
    order: Sequence[OrderTerm], limit: int, selected: Sequence[str], columns: ScanColumns, condition: str = ""
) -> str | None:
    """Returns a SELECT over ``slot`` of its first ``limit`` rows; ``None`` if Spark must find them.

    They are the first of those for which ``condition`` is true; empty: of all.
    """
    if not order or not selected or limit > _MOST_ROWS:
        return None
    try:
        terms = [text for term in order for text in _make_terms(term, columns)]
    except UntranslatableError:
        return None
    source = f"FROM slot WHERE {condition}" if condition else "FROM slot"
    return f"SELECT {', '.join(map(quote_name, selected))} {source} ORDER BY {', '.join(terms)} LIMIT {limit}"


def _make_terms(term: OrderTerm, columns: ScanColumns) -> list[str]:
    operand = columns.get_operand(term.node)
    direction = f"{'DESC' if term.is_descending else 'ASC'} NULLS {'FIRST' if term.is_nulls_first else 'LAST'}"
    nan = [f"isNaN({operand.sql}) {direction}"] if isinstance(operand.type, FloatType) else []
    return [*nan, f"{operand.sql} {direction}"]
