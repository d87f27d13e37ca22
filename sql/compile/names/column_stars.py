"""Expands ``*``, ``t.*`` and ``COLUMNS('…')``, with EXCEPT, REPLACE and APPLY, to columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from sql.compile.names.column_names import result_column_name
from sql.compile.names.scope import Scope, Source
from sql.grammar.syntax_tree import (
    Alias,
    Function,
    Identifier,
    Lambda,
    Node,
    OrderItem,
    Select,
    Star,
    StarColumn,
    transform,
    walk,
)


def expand_stars_in_calls(select: Select, scope: Scope) -> Select:
    """Expands the asterisks in calls, but for ``count(*)``, and those with APPLY."""
    clauses: dict[str, Any] = {}
    for name in _CLAUSES:
        value = getattr(select, name)
        given = value if isinstance(value, tuple) else (value,) if value is not None else ()
        if any(_needs_expansion(node, name) for node in given):
            changed = tuple(
                transform(node, lambda part: _expand_in_call(part, scope), into_queries=False) for node in given
            )
            changed = tuple(expand_stars(changed, scope)) if name in _LISTS else changed
            clauses[name] = changed if isinstance(value, tuple) else changed[0]
    return replace(select, **clauses) if clauses else select


_LISTS = ("expressions", "group_by", "order_by")
_CLAUSES = (*_LISTS, "prewhere", "where", "having", "qualify")


def _needs_expansion(node: Node, clause: str) -> bool:
    if isinstance(node, Star) and clause == "expressions":
        return any(kind == "apply" for kind, _ in node.modifiers)
    return any(isinstance(part, Star) for part in walk(node, into_queries=False))


def _expand_in_call(node: Node, scope: Scope) -> Node:
    if not isinstance(node, Function) or node.name.lower() == "count":
        return node
    return replace(node, args=tuple(expand_stars(node.args, scope)))


def expand_stars(nodes: Sequence[Node], scope: Scope) -> list[Node]:
    """Replaces asterisks among the nodes by columns. Raises ``UserError`` 36, 47."""
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Star):
            result.extend(_expand_star(node, scope))
        elif isinstance(node, OrderItem) and isinstance(node.expression, Star):  # from ORDER BY (*)
            result.extend(replace(node, expression=column) for column in _expand_star(node.expression, scope))
        else:
            result.append(node)
    return result


def _expand_star(star: Star, scope: Scope) -> list[Node]:
    columns = [(_column_name(node), node) for node in star.columns] or _table_columns(star, scope)
    for kind, argument in star.modifiers:
        columns = _apply_modifier(columns, kind, argument)
        if kind == "apply":  # later modifiers see the names of the calls
            columns = [(result_column_name(node), node) for _, node in columns]
    return [node for _, node in columns]


def _column_name(node: Node) -> str:
    match node:
        case Alias(_, name) | Identifier((*_, name)):
            return name
    raise UserError("BAD_ARGUMENTS", "COLUMNS takes names of columns, or a regular expression of them")


def _table_columns(star: Star, scope: Scope) -> list[tuple[str, Node]]:
    """Returns the columns of ``*`` or ``t.*``, with their names. Raises ``UserError`` 36, 47."""
    sources = scope.named(star.qualifier)
    if not sources:
        if star.qualifier:
            raise UserError("UNKNOWN_IDENTIFIER", f"No table {'.'.join(star.qualifier)!r} in FROM for its .*")
        raise UserError("BAD_ARGUMENTS", "An asterisk needs a FROM")
    chosen = _match_names(star.pattern, [name for source in sources for name in source.columns])
    merged = [] if star.qualifier else list(dict.fromkeys(name for names in reversed(scope.using) for name in names))
    named = _names_to_qualify(scope)
    columns: list[tuple[str, Node]] = []
    for source in sources:
        for name, column in source.columns.items():
            if column.hidden and not (column.copied and star.qualifier):
                continue
            if chosen is None or name in chosen:
                is_merged = name in merged
                shown = name if is_merged or name not in named[source.number] else _qualify(source, name)
                columns.append((name, StarColumn(source.number, name, shown, is_merged)))
    # Columns merged by USING come first, those of outer joins before those of inner joins.
    columns.sort(key=lambda column: merged.index(column[0]) if column[0] in merged else len(merged))
    return columns


def _match_names(pattern: str | None, names: Iterable[str]) -> set[str] | None:
    """Returns the names that match the pattern, in linear time (RE2); ``None`` without a pattern.

    Raises ``UserError`` 427.
    """
    if pattern is None:
        return None
    known = pa.array(names, pa.string())
    try:
        found = pc.match_substring_regex(known, pattern)
    except pa.ArrowInvalid as error:
        raise UserError(
            "CANNOT_COMPILE_REGEXP", f"Invalid regular expression {pattern!r} of COLUMNS: {error}"
        ) from None
    return set(known.filter(found).to_pylist())


def _names_to_qualify(scope: Scope) -> dict[int, set[str]]:
    """Returns for every source the names that must be qualified in it.

    These are the names that an earlier source has, and with three sources or more all repeated names.
    """
    own = [
        (source.number, {name for name, column in source.columns.items() if not column.hidden or column.copied})
        for source in scope.sources
    ]
    if len(own) > 2:
        counts = Counter(name for _, names in own for name in names)
        repeated = {name for name, count in counts.items() if count > 1}
        return {number: names & repeated for number, names in own}
    before: set[str] = set()
    result: dict[int, set[str]] = {}
    for number, names in own:
        result[number] = names & before
        before |= names
    return result


def _qualify(source: Source, name: str) -> str:
    return f"{source.alias or source.table}.{name}"


def _apply_modifier(columns: list[tuple[str, Node]], kind: str, argument: Any) -> list[tuple[str, Node]]:
    known = {name for name, _ in columns}
    if kind.startswith("except"):
        names = set(_match_names(argument, known) or ()) if kind == "except matching" else set(argument)
        _check_strict(kind, names - known)
        return [(name, node) for name, node in columns if name not in names]
    if kind.startswith("replace"):
        changes = {item.name: item for item in argument if isinstance(item, Alias)}
        _check_strict(kind, changes.keys() - known)
        return [(name, changes.get(name, node)) for name, node in columns]
    return [(name, _apply_change(argument, node)) for name, node in columns]


def _check_strict(kind: str, unknown: set[str]) -> None:
    if kind.endswith("strict") and unknown:
        shown = ", ".join(sorted(unknown))
        raise UserError("BAD_ARGUMENTS", f"{kind.upper()} names what is no column of the asterisk: {shown}")


def _apply_change(change: object, node: Node) -> Node:
    inner = node.expression if isinstance(node, Alias) else node
    if isinstance(change, Identifier):
        return Function(change.parts[-1], (inner,))
    if isinstance(change, Lambda):
        (name,) = change.parameters
        return transform(change.body, lambda part: inner if part == Identifier((name,)) else part)
    if isinstance(change, Function):
        return Function(change.name, (inner,), change.args)
    raise UserError("NOT_IMPLEMENTED", "APPLY takes a function name or a lambda")
