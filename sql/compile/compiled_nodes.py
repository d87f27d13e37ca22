"""Cache of compiled expressions: each is compiled once, however often aliases lead to it.

A name may mean something else where a lambda binds it or while its own alias is being expanded. So every result is kept
with the names that were looked up for it, and is used only where none of them is bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sql.grammar.query_limits import LAMBDA_ELEMENTS, QueryGuard
from sql.grammar.syntax_tree import Node

if TYPE_CHECKING:
    from sql.typing.typed_expressions import Typed


@dataclass(slots=True)
class BoundNames:
    """The current bindings of names. The compilers of one SELECT (rows, groups) share one."""

    lambdas: list[dict[str, Typed]] = field(default_factory=list)
    """The arguments of the surrounding lambdas, the innermost last."""
    expanding: list[str] = field(default_factory=list)
    """The aliases whose expressions are being expanded."""
    branches: int = 0
    """The number of surrounding calls whose arguments are not computed for every row."""
    looked_up: list[set[str]] = field(default_factory=lambda: [set()])
    """The names looked up so far for each expression being compiled, the innermost last."""

    def binds_none(self, names: set[str]) -> bool:
        """Tells whether no lambda and no alias being expanded binds one of the names."""
        return names.isdisjoint(self.expanding) and all(names.isdisjoint(bound) for bound in self.lambdas)


@dataclass(frozen=True, slots=True)
class _Known:
    node: Node
    """Kept alive, so that no other node gets its ``id``."""
    value: Typed
    names: set[str]
    elements: int


class CompiledExpressionCache:
    """The compiled nodes of one compiler. Call ``clear`` when the scope changes."""

    def __init__(self, names: BoundNames, guard: QueryGuard) -> None:
        self._names = names
        self._guard = guard
        self._known: dict[int, _Known] = {}
        self._aliases: dict[int, _Known] = {}

    def clear(self) -> None:
        """Forgets all compiled nodes."""
        self._known.clear()
        self._aliases.clear()

    def node(self, node: Node, compile_it: Callable[[Node], Typed]) -> Typed:
        """Returns the value of a node; a known node costs nothing."""
        return self._compile_once(self._known, node, compile_it, 0)

    def alias(self, node: Node, compile_it: Callable[[Node], Typed]) -> Typed:
        """Returns the value of an alias's expression, counted anew at each use.

        Raises 36 when the expansion of aliases is too large, 168 for SQL that is too large.
        """
        return self._compile_once(self._aliases, node, compile_it, 1)

    def _compile_once(
        self, kept: dict[int, _Known], node: Node, compile_it: Callable[[Node], Typed], weight: int
    ) -> Typed:
        """Returns a cached value, or compiles and caches it; ``weight`` 1 counts each use."""
        names, guard = self._names, self._guard
        known = kept.get(id(node))
        if known is not None and names.binds_none(known.names):
            guard.expand(known.elements * weight, len(names.lambdas))
            names.looked_up[-1] |= known.names
            return known.value
        guard.step()
        before = guard.expanded
        guard.expand(1, len(names.lambdas))
        own: set[str] = set()
        names.looked_up.append(own)
        try:
            value = compile_it(node)
        finally:
            names.looked_up.pop()
            names.looked_up[-1] |= own
        guard.check_size(value.sql.size, len(names.lambdas))
        if names.binds_none(own):
            elements = guard.expanded - before
            kept[id(node)] = _Known(node, value, own, -(-elements // LAMBDA_ELEMENTS ** len(names.lambdas)))
        return value
