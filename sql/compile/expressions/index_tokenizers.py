"""Adds the tokenizer of a column's text index to token searches, whether the index is used or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from parts.table.table_description import SkipIndex
from sql.compile.names.column_names import canonical_text, result_column_name
from sql.compile.names.scope import Scope
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import Alias, Function, Identifier, Literal, Node, Select, transform
from sql.grammar.tokens import quote_string
from sql.relations import PartsRelation

SEARCHES = frozenset({"hasAnyTokens", "hasAnyToken", "hasAllTokens", "hasAllToken"})
_ARGUMENTS_WITHOUT_TOKENIZER = 2
_CLAUSES = ("with_aliases", "expressions", "prewhere", "where", "group_by", "having", "qualify", "order_by")


def add_index_tokenizers(select: Select, scope: Scope) -> Select:
    """Adds the index's tokenizer as third argument to searches that have none."""
    relations = [source.relation for source in scope.sources if isinstance(source.relation, PartsRelation)]
    indexes = [index for relation in relations for index in relation.description.indexes if index.kind == "text"]
    if not indexes:
        return select
    tokenizers = {
        canonical_text(parse_expression(index.key.expressions[0])): _tokenizer_text(index) for index in indexes
    }

    def bare(node: Node) -> Node:
        if not isinstance(node, Identifier):
            return node
        if node.parts[0] in scope.aliases and scope.find_column(node.parts) is None:
            return scope.aliases[node.parts[0]]
        return Identifier(node.parts[-1:])

    def change(node: Node) -> Node:
        if isinstance(node, Function) and node.name in SEARCHES and len(node.args) == _ARGUMENTS_WITHOUT_TOKENIZER:
            tokenizer = tokenizers.get(canonical_text(transform(node.args[0], bare)))
            if tokenizer is not None:
                return replace(node, args=(*node.args, Literal(tokenizer)))
        return node

    clauses: dict[str, Any] = {}
    for name in _CLAUSES:
        value = getattr(select, name)
        if isinstance(value, tuple):
            clauses[name] = tuple(transform(node, change, into_queries=False) for node in value)
        elif value is not None:
            clauses[name] = transform(value, change, into_queries=False)
    pairs = zip(select.expressions, clauses["expressions"], strict=True)
    clauses["expressions"] = tuple(new if new is old else _keep_name(old, new) for old, new in pairs)
    return replace(select, **clauses)


def _keep_name(old: Node, new: Node) -> Node:
    """Gives a changed output column its old name."""
    return new if isinstance(new, Alias) else Alias(new, result_column_name(old))


def _tokenizer_text(index: SkipIndex) -> str:
    name, *arguments = index.arguments
    if name == "splitByString":
        return f"{name}([{', '.join(quote_string(str(separator)) for separator in arguments)}])"
    return f"{name}({arguments[0]})" if arguments else str(name)
