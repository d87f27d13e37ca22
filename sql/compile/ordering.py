"""ORDER BY of a query or a window, in DuckDB's terms."""

from __future__ import annotations

from parts.types import DataType, FloatType, UUIDType, strip_nullable
from sql.grammar.syntax_tree import OrderItem


def order_terms(reference: str, type_: DataType, item: OrderItem) -> list[str]:
    """ClickHouse puts NaN and then NULL last in both directions, or first with NULLS FIRST."""
    bare = strip_nullable(type_)
    direction = "DESC" if item.descending else "ASC"
    nulls = "FIRST" if item.nulls_first else "LAST"
    terms = []
    if isinstance(bare, FloatType) and (item.descending or item.nulls_first):
        if item.nulls_first:
            terms.append(f"({reference} IS NULL) DESC")
        else:
            terms.append(f"({reference} IS NULL) ASC")
        terms.append(f"coalesce(isnan({reference}), false) {'DESC' if item.nulls_first else 'ASC'}")
    if isinstance(bare, UUIDType):  # compared as two little-endian halves: the second half first
        terms.append(f"{reference}[9:16] {direction} NULLS {nulls}")
    terms.append(f"{reference} {direction} NULLS {nulls}")
    return terms
