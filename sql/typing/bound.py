"""Values that a template names several times."""

from __future__ import annotations

from collections.abc import Callable

from sql.typing.fragments import ONCE, Fragment, fragment


def bound(value: Fragment, name: str, body: Callable[[Fragment], Fragment]) -> Fragment:
    """``body`` of the value. A column or a literal is written wherever ``body`` names it, and costs nothing there;
    what is computed gets the name ``name`` in a lambda, so that it is computed, and planned, once.

    Whatever else ``body`` puts beside the value must not use ``name`` for something outside."""
    if not value.fragments and not value.traits & ONCE:
        return body(value)
    return fragment("list_transform([{}], lambda {}: {})[1]", value, name, body(fragment("{}", name)))
