"""``*``, ``t.*``, ``COLUMNS('…')`` with EXCEPT, REPLACE and APPLY: written out as the columns they stand for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from parts.errors import UserError
from sql.compile.scope import Scope, Source
from sql.grammar.syntax_tree import Alias, Function, Identifier, Lambda, Node, Star, StarColumn, transform


def expand_stars(nodes: Sequence[Node], scope: Scope) -> list[Node]:
    """The select list without stars. ``count(*)`` and other aggregates lose theirs too."""
    result: list[Node] = []
    for node in nodes:
        if isinstance(node, Star):
            result.extend(_columns(node, scope))
        elif (
            isinstance(node, Function)
            and any(isinstance(arg, Star) for arg in node.args)
            and node.name.lower() != "count"
        ):
            args = tuple(
                column for arg in node.args for column in (_columns(arg, scope) if isinstance(arg, Star) else [arg])
            )
            result.append(replace(node, args=args))
        else:
            result.append(node)
    return result


def _columns(star: Star, scope: Scope) -> list[Node]:
    sources = [source for source in scope.sources if not star.qualifier or source.answers_to(star.qualifier)]
    if not sources:
        if star.qualifier:
            raise UserError("UNKNOWN_IDENTIFIER", f"No table {'.'.join(star.qualifier)!r} in FROM for its .*")
        raise UserError("BAD_ARGUMENTS", "An asterisk needs a FROM")
    chosen = _matching(star.pattern, sources)
    merged = [] if star.qualifier else list(dict.fromkeys(name for names in reversed(scope.using) for name in names))
    named = _named_before(scope)
    columns: list[tuple[str, Node]] = []
    for source in sources:
        for name, column in source.columns.items():
            if column.hidden and not (column.copied and star.qualifier):
                continue
            if chosen is None or name in chosen:
                is_merged = name in merged
                shown = name if is_merged or name not in named[source.number] else _qualified(source, name)
                columns.append((name, StarColumn(source.number, name, shown, is_merged)))
    # What USING merges comes first, that of the outer joins before that of the inner ones.
    columns.sort(key=lambda column: merged.index(column[0]) if column[0] in merged else len(merged))
    for kind, argument in star.modifiers:
        columns = _modified(columns, kind, argument)
    return [node for _, node in columns]


def _matching(pattern: str | None, sources: Sequence[Source]) -> set[str] | None:
    """The names that RE2 finds the pattern in, in linear time; ``None`` without a pattern."""
    if pattern is None:
        return None
    names = pa.array([name for source in sources for name in source.columns], pa.string())
    try:
        found = pc.match_substring_regex(names, pattern)
    except pa.ArrowInvalid as error:
        raise UserError(
            "CANNOT_COMPILE_REGEXP", f"Invalid regular expression {pattern!r} of COLUMNS: {error}"
        ) from None
    return set(names.filter(found).to_pylist())


def _named_before(scope: Scope) -> dict[int, set[str]]:
    """For every source the names that must be qualified in it: those that a source before it has, and with three
    sources and more all that are repeated."""
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


def _qualified(source: Source, name: str) -> str:
    return f"{source.alias or source.table}.{name}"


def _modified(columns: list[tuple[str, Node]], kind: str, argument: object) -> list[tuple[str, Node]]:
    if kind == "except":
        names = set(argument)  # type: ignore[call-overload]
        unknown = names - {name for name, _ in columns}
        if unknown:
            raise UserError("NOT_FOUND_COLUMN_IN_BLOCK", f"EXCEPT names no column of the asterisk: {sorted(unknown)}")
        return [(name, node) for name, node in columns if name not in names]
    if kind == "replace":
        changes = {item.name: item for item in argument if isinstance(item, Alias)}  # type: ignore[attr-defined]
        return [(name, changes.get(name, node)) for name, node in columns]
    return [(name, _applied(argument, node)) for name, node in columns]


def _applied(change: object, node: Node) -> Node:
    inner = node.expression if isinstance(node, Alias) else node
    if isinstance(change, Identifier):
        return Function(change.parts[-1], (inner,))
    if isinstance(change, Lambda):
        (name,) = change.parameters
        return transform(change.body, lambda part: inner if part == Identifier((name,)) else part)
    if isinstance(change, Function):
        return Function(change.name, (inner,), change.args)
    raise UserError("NOT_IMPLEMENTED", "APPLY takes a function name or a lambda")
