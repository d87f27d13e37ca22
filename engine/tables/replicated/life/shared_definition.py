"""The part of a table's definition that all replicas must share, as its texts in ZooKeeper.

The columns of a table that was never altered are one line each, for people, as are its skip indexes, constraints and
TTL. After an ALTER the first line is JSON: the history of the columns (``parts.table.schema_history``). It also holds
the texts of ``indexes``, ``constraints``, ``ttl`` and (once the keys changed) ``key_clauses``. Each further line is a
column as a JSON list: name, type, kind and text of the default, codec, comment, and TTL if it has one. Every replica
makes its own definition of these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from coordination.replicas.table_nodes import SharedDefinition
from parts.common.errors import CorruptionError, UserError
from parts.merge.last_writer import LastWriter
from parts.table.schema_history import SchemaHistory
from parts.table.table_description import Column, Constraint, Key, SkipIndex, TableDescription
from sql.definitions.definition_text import render_index_type
from sql.grammar.clause_types import ColumnClause, ConstraintClause, IndexClause
from sql.grammar.statements.statement import CreateTable
from sql.grammar.table_elements.constraints import parse_constraint
from sql.grammar.table_elements.indexes import parse_index
from sql.grammar.tokens import TokenStream, quote_identifier_if_needed

METADATA_VERSION = 1


def make_shared_definition(description: TableDescription) -> SharedDefinition:
    """Returns the texts of a definition. They are canonical: equal definitions give equal texts."""
    metadata = {
        "version": METADATA_VERSION,
        "merge_mode": description.merge_mode.name,
        "partition_key": list(description.partition_key.expressions),
        "sorting_key": list(description.sorting_key.expressions),
        "primary_key": list(description.primary_key.expressions),
        "sampling_key": list(description.sampling_key.expressions),
        "index_granularity": description.settings.index_granularity,
    }
    if roles := description.merge_mode.role_columns:
        metadata["merge_columns"] = [list(role) for role in roles]
    if description.settings.enable_block_number_column:
        metadata["enable_block_number_column"] = True
    if isinstance(description.merge_mode, LastWriter):
        metadata["last_writer_wins"] = True
        metadata |= {"conflict_order": order} if (order := description.merge_mode.order_text) else {}
    return SharedDefinition(json.dumps(metadata, sort_keys=True), _columns_text(description))


@dataclass(frozen=True, slots=True)
class AlteredColumns:
    """The definition of an altered table, as ZooKeeper has it."""

    columns: tuple[ColumnClause, ...]
    indexes: tuple[IndexClause, ...]
    history: SchemaHistory
    ttl: str = ""
    constraints: tuple[ConstraintClause, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    """The keys as CREATE TABLE writes them; empty if they never changed."""

    def over(self, create: CreateTable) -> CreateTable:
        """Returns the CREATE statement with the altered clauses."""
        return replace(
            create, columns=self.columns, indexes=self.indexes, history=self.history, ttl=self.ttl,
            constraints=self.constraints,
            order_by=self.keys.get("order_by", create.order_by),
            primary_key=self.keys.get("primary_key", create.primary_key),
            sample_by=self.keys.get("sample_by", create.sample_by),
        )  # fmt: skip

    def equals(self, description: TableDescription) -> bool:
        """Tells whether the description has the same columns, indexes, constraints, keys and TTL."""
        columns = [*map(_column_line, self.columns)] == [*map(_column_line, description.schema.columns)]
        indexes = [*map(_index_text, self.indexes)] == [*map(_index_text, description.indexes)]
        constraints = [*map(_constraint_text, self.constraints)] == [*map(_constraint_text, description.constraints)]
        keys = not self.keys or self.keys == _keys(description)
        return columns and indexes and constraints and keys and self.ttl == description.ttl.text


def _columns_text(description: TableDescription) -> str:
    schema, ttl = description.schema, description.ttl.text
    indexes = [*map(_index_text, description.indexes)]
    constraints = [*map(_constraint_text, description.constraints)]
    if not schema.history.version:
        others = [f"INDEX {text}" for text in indexes] + [f"CONSTRAINT {text}" for text in constraints]
        others += [f"TTL {ttl}"] if ttl else []
        return "\n".join([*map(_column_line, schema.columns), *others])
    columns = [
        [c.name, c.type_text, c.default_kind, c.default_expression, c.codec, c.comment, *([c.ttl] if c.ttl else [])]
        for c in schema.columns
    ]
    keys = _keys(description) if schema.history.keys else {}
    clauses = {"indexes": indexes, "constraints": constraints, "ttl": ttl, "key_clauses": keys}
    history = schema.history.to_json() | {name: clause for name, clause in clauses.items() if clause}
    return "\n".join(json.dumps(line, sort_keys=True) for line in (history, *columns))


def _keys(description: TableDescription) -> dict[str, str]:
    return {
        "order_by": _key_text(description.sorting_key),
        "primary_key": _key_text(description.primary_key),
        "sample_by": _key_text(description.sampling_key) if description.sampling_key else "",
    }


def _key_text(key: Key) -> str:
    if len(key.expressions) == 1:
        return key.expressions[0]
    return f"({', '.join(key.expressions)})" if key else "tuple()"


def _column_line(column: Column | ColumnClause) -> str:
    type_ = column.type_text if isinstance(column, Column) else column.type
    default = f" {column.default_kind} {column.default_expression}" if column.default_kind else ""
    codec = f" CODEC({column.codec})" if column.codec else ""
    ttl = f" TTL {column.ttl}" if column.ttl else ""
    return f"{json.dumps(column.name)} {type_}{default}{codec}{ttl}"


def _index_text(index: SkipIndex | IndexClause) -> str:
    type_ = index.type_text if isinstance(index, SkipIndex) else render_index_type(index)
    name = quote_identifier_if_needed(index.name)
    return f"{name} {index.expression} TYPE {type_} GRANULARITY {index.granularity}"


def _constraint_text(constraint: Constraint | ConstraintClause) -> str:
    kind = "ASSUME" if constraint.is_assumed else "CHECK"
    return f"{quote_identifier_if_needed(constraint.name)} {kind} {constraint.expression}"


def parse_altered_columns(text: str) -> AlteredColumns | None:
    """Parses the text of an altered table; returns ``None`` for one never altered.

    Raises ``CorruptionError``.
    """
    if not text.startswith("{"):
        return None
    try:
        history, *columns = [json.loads(line) for line in text.splitlines()]
        clauses = [
            ColumnClause(name, type_, kind, expression, codec, comment, ttl="".join(ttl))
            for name, type_, kind, expression, codec, comment, *ttl in columns
        ]
        indexes = tuple(parse_index(TokenStream(index)) for index in history.get("indexes", ()))
        ttl = str(history.get("ttl", ""))
        constraints = tuple(parse_constraint(TokenStream(text)) for text in history.get("constraints", ()))
        keys = {name: str(text) for name, text in history.get("key_clauses", {}).items()}
        return AlteredColumns(tuple(clauses), indexes, SchemaHistory.from_json(history), ttl, constraints, keys)
    except (ValueError, KeyError, TypeError, AttributeError, UserError) as error:
        raise CorruptionError(
            f"Cannot read the columns {text[:200]!r} in ZooKeeper: {error}", name="CORRUPTED_DATA"
        ) from error
