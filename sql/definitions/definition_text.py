"""Renders definitions as canonical text, for ``.sql`` metadata files and SHOW CREATE TABLE.

Parsing the text again gives the same statement, and rendering that gives the same text.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from parts.common.errors import UserError
from parts.types import format_type, parse_aggregate_name, parse_type
from sql.compile.names.column_names import canonical_text
from sql.grammar.clause_types import (
    ColumnClause,
    ConstraintClause,
    IndexClause,
    TableRef,
)
from sql.grammar.common_clauses import render_settings
from sql.grammar.password_hiding import hide_passwords
from sql.grammar.queries.query_formatter import normalize_expression
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.statements.statement import (
    CreateTable,
    EngineClause,
)
from sql.grammar.syntax_tree import Function
from sql.grammar.tokens import quote_identifier, quote_identifier_if_needed, quote_string


def render_create(create: CreateTable, *, in_one_line: bool = False) -> str:
    """Renders CREATE TABLE (or ATTACH TABLE) as ClickHouse lays it out, one clause a line."""
    exists = "IF NOT EXISTS " if create.if_not_exists else ""
    kind = "TEMPORARY TABLE" if create.is_temporary else "TABLE"
    if create.view is not None:
        kind = "MATERIALIZED VIEW" if create.view.is_materialized else "VIEW"
    lines = [f"{'ATTACH' if create.attach else 'CREATE'} {kind} {exists}{render_table(create.table)}"]
    if create.view is not None:
        lines[0] += f" UUID {quote_string(create.view.uuid)}" if create.view.uuid and create.attach else ""
        lines[0] += f" TO {render_table(create.view.target)}" if create.view.target is not None else ""
    if create.columns:
        elements = [*map(render_column, create.columns), *map(render_index, create.indexes)]
        elements += map(render_constraint, create.constraints)
        if in_one_line:
            lines.append(f"({', '.join(elements)})")
        else:
            lines += ["(", ",\n".join(f"    {element}" for element in elements), ")"]
    if create.as_table is not None:
        lines.append(f"AS {render_table(create.as_table)}")
    if create.engine is not None:
        lines.append(f"ENGINE = {render_engine(create.engine)}")
    lines += _storage_lines(create)
    if create.comment:
        lines.append(f"COMMENT {quote_string(create.comment)}")
    if create.as_select:
        lines.append(f"{'EMPTY ' if create.is_empty else ''}AS {create.as_select}")
    return (" " if in_one_line else "\n").join(lines)


def render_shown_create(create: CreateTable, *, in_one_line: bool = False) -> str:
    """Renders the statement as SHOW CREATE shows it, with all expressions in normal form.

    The kept text has expressions as they were given.
    """
    columns = tuple(
        replace(c, default_expression=render_shown_expression(c.default_expression)) for c in create.columns
    )
    indexes = tuple(replace(i, expression=render_shown_expression(i.expression)) for i in create.indexes)
    constraints = tuple(replace(c, expression=render_shown_expression(c.expression)) for c in create.constraints)
    text = render_create(
        replace(
            create,
            columns=columns,
            indexes=indexes,
            constraints=constraints,
            partition_by=render_shown_expression(create.partition_by),
            primary_key=render_shown_expression(create.primary_key),
            order_by=render_shown_expression(create.order_by),
            sample_by=render_shown_expression(create.sample_by),
        ),
        in_one_line=in_one_line,
    )
    return hide_passwords(text)


def render_shown_expression(text: str) -> str:
    """Renders an expression in normal form, but keeps brackets around the whole.

    :func:`normalize_expression` would drop them.
    """
    if not text:
        return ""
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        inner = text[1:-1]
        with suppress(UserError):  # ``(a) + (b)``, ``(a, b)``
            if parse_expression(inner) == parse_expression(text):
                return f"({normalize_expression(inner)})"
    return normalize_expression(text)


def render_engine_full(create: CreateTable) -> str:
    """Renders the engine with its keys, TTL and settings in one line."""
    engine = [render_engine(create.engine)] if create.engine is not None else []
    return " ".join([*engine, *_storage_lines(create)])


def _storage_lines(create: CreateTable) -> list[str]:
    lines = []
    for clause, text in (
        ("PARTITION BY", create.partition_by),
        ("PRIMARY KEY", create.primary_key),
        ("ORDER BY", create.order_by),
        ("SAMPLE BY", create.sample_by),
    ):
        if text:
            lines.append(f"{clause} {text}")
    if create.ttl:
        lines.append(f"TTL {create.ttl}")
    if create.settings:
        lines.append(f"SETTINGS {render_settings(create.settings)}")
    return lines


def render_table(table: TableRef) -> str:
    """Renders a table's name, with its database if it has one."""
    name = quote_identifier_if_needed(table.table)
    return name if table.database is None else f"{quote_identifier_if_needed(table.database)}.{name}"


def render_column(column: ColumnClause) -> str:
    """Renders a column's clause."""
    pieces = [quote_identifier(column.name)]
    if column.type:
        pieces.append(_canonical_type(column.type))
    if column.default_kind:
        pieces.append(f"{column.default_kind} {column.default_expression}")
    if column.comment:
        pieces.append(f"COMMENT {quote_string(column.comment)}")
    if column.codec:
        pieces.append(f"CODEC({column.codec})")
    if column.ttl:
        pieces.append(f"TTL {column.ttl}")
    return " ".join(pieces)


def render_index(index: IndexClause) -> str:
    """Renders an INDEX clause."""
    return (
        f"INDEX {quote_identifier_if_needed(index.name)} {index.expression} TYPE {render_index_type(index)} "
        f"GRANULARITY {index.granularity}"
    )


def render_constraint(constraint: ConstraintClause) -> str:
    """Renders a CONSTRAINT clause."""
    kind = "ASSUME" if constraint.is_assumed else "CHECK"
    return f"CONSTRAINT {quote_identifier_if_needed(constraint.name)} {kind} {constraint.expression}"


def render_index_type(index: IndexClause) -> str:
    """Renders an index's type with its arguments."""
    arguments = map(_named_argument, index.arguments) if index.type.lower() == "text" else index.arguments
    return f"{index.type}({', '.join(arguments)})" if index.arguments else index.type


def _named_argument(text: str) -> str:
    match parse_expression(text):
        case Function("equals", (name, value)):
            return f"{canonical_text(name)} = {canonical_text(value)}"
    return text


def _canonical_type(text: str) -> str:
    try:
        return format_type(parse_type(text), parse_aggregate_name(text))
    except UserError:
        return text  # refused where the description is built


def render_engine(engine: EngineClause) -> str:
    """Renders an engine with its arguments."""
    name = quote_identifier_if_needed(engine.name)  # ``Null`` must be quoted
    return f"{name}({', '.join(engine.arguments)})" if engine.arguments else name
