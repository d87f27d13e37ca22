"""What a new key may not be: an expression that differs from run to run, a constant, one that is there twice.

Tables that were made with such a key before are loaded as they are.
"""

from __future__ import annotations

from typing import Protocol

from parts.common.errors import UserError
from parts.table.table_description import Key, TableDescription
from parts.types import ArrayType, DataType, IntegerType, TupleType
from sql.functions.determinism import find_changing_function
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import Function, Identifier, Node, walk
from sql.settings.merge_tree_settings import MergeTreeSettings


class Keyed(Protocol):
    """A definition of a table, as far as its keys go."""

    @property
    def description(self) -> TableDescription: ...

    @property
    def settings(self) -> MergeTreeSettings: ...


def check_new_keys(definition: Keyed, former: Keyed | None = None, *, may_repeat: bool = False) -> None:
    """Raises 36 and 44 for an expression of the sorting or partition key that ``former`` has not and that is not for a
    key, 59 for a new table's sampling key that is no unsigned number. ``may_repeat``: the sorting key may have an
    expression twice."""
    new, old = definition.description, former.description if former else None
    takes_null = definition.settings.allow_nullable_key
    _check(new.sorting_key, old.sorting_key if old else None, "Sorting key", takes_null=takes_null)
    _check(new.partition_key, old.partition_key if old else None, "Partition key", takes_null=takes_null)
    if old is None:
        check_sampling(new.sampling_key)
    expressions = new.sorting_key.expressions
    if len(set(expressions)) < len(expressions) and not may_repeat and not old:
        twice = next(text for text in expressions if expressions.count(text) > 1)
        raise UserError(
            "BAD_ARGUMENTS",
            f"The sorting key has the expression {twice} twice; "
            "the table's setting allow_suspicious_indices = 1 takes it",
        )


def check_sampling(key: Key) -> None:
    """Raises 59 (ILLEGAL_TYPE_OF_COLUMN_FOR_FILTER): SAMPLE takes a share of the range of an unsigned number."""
    for type_ in key.types:
        if not isinstance(type_, IntegerType) or type_.signed:
            raise UserError(
                "ILLEGAL_TYPE_OF_COLUMN_FOR_FILTER",
                f"Invalid sampling column type in storage parameters: {type_}. Must be one unsigned integer type",
            )


def _check(key: Key, old: Key | None, what: str, *, takes_null: bool) -> None:
    for text, type_ in zip(key.expressions, key.types, strict=True):
        if old is not None and text in old.expressions:
            continue
        if isinstance(type_, ArrayType) and _has_null(type_) and not takes_null:
            raise UserError(
                "ILLEGAL_COLUMN",
                f"{what} contains nullable columns, but merge tree setting `allow_nullable_key` is disabled: {text} "
                f"has type {type_}",
            )
        if name := find_changing_function(text):
            raise UserError(
                "BAD_ARGUMENTS",
                f"Expression must be deterministic but it contains non-deterministic part `{name}()`: for {what}",
            )
        nodes = walk(parse_expression(text))
        if not any(isinstance(node, Identifier) or _is_made(node) for node in nodes):
            raise UserError("ILLEGAL_COLUMN", f"{what} cannot contain constants: {text}")


def _has_null(type_: DataType) -> bool:
    match type_:
        case ArrayType(inner):
            return _has_null(inner)
        case TupleType(elements):
            return any(_has_null(inner) for _, inner in elements)
    return type_.is_nullable


def _is_made(node: Node) -> bool:
    return isinstance(node, Function) and node.name == "materialize"
