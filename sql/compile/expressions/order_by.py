"""Compiles ORDER BY of a query or a window."""

from __future__ import annotations

from parts.types import DataType, FloatType, strip_nullable
from sql.grammar.syntax_tree import OrderItem
from sql.typing.duckdb.sql_fragments import Fragment, Piece, fragment
from sql.typing.order_keys import order_key


def compile_order_terms(reference: Piece, type_: DataType, item: OrderItem) -> list[Fragment]:
    """Compiles one ORDER BY term into DuckDB's terms.

    ClickHouse puts NaN and then NULL last in both directions, or first with NULLS FIRST.
    """
    bare = strip_nullable(type_)
    direction = "DESC" if item.descending else "ASC"
    nulls = "FIRST" if item.nulls_first else "LAST"
    terms = []
    if isinstance(bare, FloatType) and (item.descending or item.nulls_first):
        if item.nulls_first:
            terms.append(fragment("({} IS NULL) DESC", reference))
        else:
            terms.append(fragment("({} IS NULL) ASC", reference))
        terms.append(fragment("coalesce(isnan({}), false) {}", reference, "DESC" if item.nulls_first else "ASC"))
    key = order_key(fragment("{}", reference), type_, nulls_least=item.descending != bool(item.nulls_first))
    terms.append(fragment("{} {} NULLS {}", key, direction, nulls))
    return terms
