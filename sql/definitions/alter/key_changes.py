"""Checks and applies changes to keys of tables with parts: MODIFY ORDER BY, SAMPLE BY, column types.

Parts are not sorted again. So an expression that is added to the sorting key may read only columns that the same ALTER
adds, without a DEFAULT: the rows that are there have one value of it, and are in the order of the new key too. The
primary key stays what it was.
"""

from __future__ import annotations

from dataclasses import replace

from parts.common.errors import UserError
from parts.table.table_description import Key, TableDescription, TableSchema
from parts.types import DataType, DateTime64Type, DateTimeType, EnumType, IntegerType, strip_low_cardinality
from sql.definitions.column_defaults import keeps_enum_numbers
from sql.definitions.key_checks import check_sampling
from sql.definitions.table_description import build_columns
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.statements.alter_commands import KeyChange, ModifyOrderBy
from sql.grammar.statements.statement import CreateTable
from sql.grammar.syntax_tree import Literal
from sql.run.block_expressions import compile_key


def apply_key_change(create: CreateTable, change: KeyChange) -> CreateTable:
    """Applies MODIFY ORDER BY or MODIFY SAMPLE BY. Raises 36 if there is no sampling key to remove."""
    history = create.history.change_keys()
    if isinstance(change, ModifyOrderBy):
        primary_key = create.primary_key or create.order_by
        return replace(create, order_by=change.expression, primary_key=primary_key, history=history)
    if not change.expression and not create.sample_by:
        raise UserError("BAD_ARGUMENTS", "Table doesn't have SAMPLE BY, cannot remove")
    return replace(create, sample_by=change.expression, history=history)


def check_changed_keys(old: TableDescription, create: CreateTable) -> None:
    """Checks the keys of ``create``, the table after ALTER.

    Raises 36 for a sorting key by which its parts are not sorted, 59 for a sampling key that is no unsigned number.
    """
    if not old.has_parts or create.history.version == old.metadata_version:
        return
    if create.history.keys == create.history.version:
        schema = TableSchema(tuple(build_columns(create.columns)), create.history)
        _check_added(old, schema, compile_key(create.order_by, schema.stored))
        key = compile_key(create.sample_by, schema.stored)
        if set(key.expressions) <= set(old.primary_key.expressions):  # else it is refused where it is compiled
            check_sampling(key)
    _check_defaults(old, create)


def check_key_column_type(table: TableDescription, name: str, type_: DataType) -> None:
    """Raises 524 for a type that may change the order or the partition of a key column's values."""
    old = table.schema.column(name).type
    for key, what in (
        (table.sorting_key, "sorting key"),
        (table.partition_key, "partition key"),
        (table.sampling_key, "sampling key"),
    ):
        if name not in key.columns or _is_extended(old, type_):
            continue
        is_plain = all(reads == (name,) == (expression,) for expression, reads in _list_expressions(key, name))
        if not (is_plain and _is_stored_alike(old, type_)):
            raise _forbidden_type_error(name, what)


def _list_expressions(key: Key, name: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(text, reads) for text, reads in zip(key.expressions, key.reads, strict=True) if name in reads]


def _is_extended(old: DataType, new: DataType) -> bool:
    """Returns whether an Enum only gained values, so that functions of the others stay as they are."""
    return isinstance(old, EnumType) and isinstance(new, EnumType) and old.bits == new.bits and (
        set(old.values) <= set(new.values)
    )  # fmt: skip


def _is_stored_alike(old: DataType, new: DataType) -> bool:
    """Returns whether values keep their bytes and order.

    They do with or without LowCardinality, for times of another zone, and for an Enum and its numbers.
    """
    old, new = (strip_low_cardinality(type_) for type_ in (old, new))
    if isinstance(old, EnumType):
        is_renamed = isinstance(new, EnumType) and old.bits == new.bits and keeps_enum_numbers(old, new)
        return is_renamed or new == IntegerType(old.bits, signed=True)
    if isinstance(old, DateTimeType | DateTime64Type):
        return type(new) is type(old) and replace(new, timezone=None) == replace(old, timezone=None)
    return new == old


def _forbidden_type_error(name: str, what: str) -> UserError:
    return UserError(
        "ALTER_OF_COLUMN_IS_FORBIDDEN",
        f"Trying to ALTER the type of column `{name}`, which is used by the {what} of the table; only a new table can "
        "have another",
    )


def _check_added(old: TableDescription, schema: TableSchema, key: Key) -> None:
    before = list(old.sorting_key.expressions)
    for expression, reads in zip(key.expressions, key.reads, strict=True):
        if before and before[0] == expression:
            del before[0]
            continue
        if not reads:
            raise UserError("ILLEGAL_COLUMN", f"Sorting key cannot contain constants: {expression}")
        for name in reads:
            if schema.history.get_name_in_part(old.metadata_version, name) is not None:
                raise UserError(
                    "BAD_ARGUMENTS",
                    f"Existing column {name} is used in the expression {expression} that was added to the sorting key. "
                    "You can add expressions that use only the newly added columns",
                )
            if schema.column(name).default_kind:
                raise UserError(
                    "BAD_ARGUMENTS",
                    f"Newly added column {name} has a default expression, so adding expressions that use it to the "
                    "sorting key is forbidden",
                )


def _check_defaults(old: TableDescription, create: CreateTable) -> None:
    """Checks defaults of columns that were added to the sorting key.

    Rows inserted before are sorted by the default that the column has in them.
    """
    late = set(old.sorting_key.columns) & create.history.added.keys()
    for column in create.columns:
        default = column.default_expression
        if column.name not in late or default == old.schema.column(column.name).default_expression:
            continue
        if default and not isinstance(parse_expression(default), Literal):
            raise UserError(
                "BAD_ARGUMENTS",
                f"Column {column.name} came into the sorting key after rows had been inserted, which another default "
                "would give another place",
            )
