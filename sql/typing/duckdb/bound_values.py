"""Values that a template names several times."""

from __future__ import annotations

from collections.abc import Callable

from sql.typing.duckdb.sql_fragments import HIDES_NULL, SCANNABLE, WRITE_ONCE, Fragment, fragment


class BoundFragment(Fragment):
    """``sql``, or ``body`` of ``value`` where a scan makes that a column. ``keeps_null``: it is NULL for NULL."""

    __slots__ = ("body", "value")

    def __init__(
        self, sql: Fragment, value: Fragment, body: Callable[[Fragment], Fragment], *, keeps_null: bool = False
    ) -> None:
        traits = sql.traits & ~(HIDES_NULL if keeps_null else 0) | SCANNABLE
        super().__init__(sql.texts, sql.parts, sql.size, traits, sql.own_traits, sql.weight, sql.depth)
        self.value = value
        self.body = body


def bind_value(value: Fragment, name: str, body: Callable[[Fragment], Fragment]) -> Fragment:
    """``body`` of the value. A column or a literal is written wherever ``body`` names it, and costs nothing there;
    what is computed gets the name ``name`` in a lambda, so that it is computed, and planned, once.

    Whatever else ``body`` puts beside the value must not use ``name`` for something outside."""
    if not value.fragments and not value.traits & WRITE_ONCE:
        return body(value)
    sql = fragment("list_transform([{}], lambda {}: {})[1]", value, name, body(fragment("{}", name)))
    return BoundFragment(sql, value, body) if value.traits & SCANNABLE else sql
