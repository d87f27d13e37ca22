"""Expressions that use one computed value several times."""

from __future__ import annotations

from collections.abc import Callable

from sql.typing.duckdb.sql_fragments import HIDES_NULL, SCANNABLE, WRITE_ONCE, Fragment, fragment


class BoundFragment(Fragment):
    """An expression ``sql`` that uses one computed ``value`` several times.

    Where a scan computes ``value`` as a column, ``body`` of that column replaces ``sql``. ``keeps_null``: the
    expression is NULL where the value is.
    """

    __slots__ = ("body", "value")

    def __init__(
        self, sql: Fragment, value: Fragment, body: Callable[[Fragment], Fragment], *, keeps_null: bool = False
    ) -> None:
        traits = sql.traits & ~(HIDES_NULL if keeps_null else 0) | SCANNABLE
        super().__init__(sql.texts, sql.parts, sql.size, traits, sql.own_traits, sql.weight, sql.depth)
        self.value = value
        self.body = body


def bind_value(value: Fragment, name: str, body: Callable[[Fragment], Fragment]) -> Fragment:
    """Returns ``body`` of the value, which is computed and planned only once.

    A column or a literal is written wherever ``body`` names it, and costs nothing there. A computed value gets the name
    ``name`` in a lambda. The SQL that ``body`` adds must not use ``name`` for anything else.
    """
    if not value.fragments and not value.traits & WRITE_ONCE:
        return body(value)
    sql = fragment("list_transform([{}], lambda {}: {})[1]", value, name, body(fragment("{}", name)))
    return BoundFragment(sql, value, body) if value.traits & SCANNABLE else sql
