"""Refuses new keys that are not deterministic, are constant, or have an expression twice.

Existing tables with such a key are loaded as they are.
"""

from __future__ import annotations

from typing import Protocol

from parts.common.errors import UserError
from parts.table.table_description import Key, TableDescription
from parts.types import ArrayType, DataType, IntegerType, TupleType
from parts.types.simple_aggregate_function import format_type
from sql.functions.determinism import find_changing_function
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import Function, Identifier, Node, walk
from sql.settings.merge_tree_settings import MergeTreeSettings


class Keyed(Protocol):
    """A table's definition, as far as its keys go."""

    @property
    def description(self) -> TableDescription:
        """The table's columns, keys and settings."""

    @property
    def settings(self) -> MergeTreeSettings:
        """The table's MergeTree settings."""


def check_new_keys(
    definition: Keyed, former: Keyed | None = None, *, may_repeat: bool = False, may_aggregate: bool = False
) -> None:
    """Checks the keys of a new or altered table.

    Only expressions that ``former`` lacks are checked. Raises 36 and 44 for one that may not be in a sorting or
    partition key, and 59 for a new table's sampling key that is no unsigned number. Raises 549 for a column of the
    sorting key that merges would change, unless ``may_aggregate``. With ``may_repeat`` the sorting key may have an
    expression twice.
    """
    new, old = definition.description, former.description if former else None
    takes_null = definition.settings.allow_nullable_key
    _check(new.sorting_key, old.sorting_key if old else None, "Sorting key", takes_null=takes_null)
    _check(new.partition_key, old.partition_key if old else None, "Partition key", takes_null=takes_null)
    if not may_aggregate:
        _check_aggregated(new, old)
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


def _check_aggregated(new: TableDescription, old: TableDescription | None) -> None:
    before = _aggregated_keys(old) if old is not None else {}
    for name, function in _aggregated_keys(new).items():
        if name not in before:
            raise UserError(
                "DATA_TYPE_CANNOT_BE_USED_IN_KEY",
                f"Column with type {function} is not allowed in key expression: {name}; the setting "
                "allow_suspicious_primary_key = 1 takes it",
            )


def _aggregated_keys(description: TableDescription) -> dict[str, str]:
    """The columns of SimpleAggregateFunction that are expressions of the sorting key, with their types."""
    aggregated = {
        column.name: format_type(column.type, column.aggregate)
        for column in description.schema.columns
        if column.aggregate
    }
    return {name: aggregated[name] for name in description.sorting_key.expressions if name in aggregated}


def check_sampling(key: Key) -> None:
    """Raises 59 (ILLEGAL_TYPE_OF_COLUMN_FOR_FILTER) for a sampling key that is no unsigned number.

    SAMPLE takes a share of that number's range.
    """
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
        if not any(isinstance(node, Identifier) or _is_materialize_call(node) for node in nodes):
            raise UserError("ILLEGAL_COLUMN", f"{what} cannot contain constants: {text}")


def _has_null(type_: DataType) -> bool:
    match type_:
        case ArrayType(inner):
            return _has_null(inner)
        case TupleType(elements):
            return any(_has_null(inner) for _, inner in elements)
    return type_.is_nullable


def _is_materialize_call(node: Node) -> bool:
    return isinstance(node, Function) and node.name == "materialize"
