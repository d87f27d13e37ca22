"""From a CREATE TABLE to the description of the table's parts.

:func:`build_description` finds the engine (``engines.registry``), builds the columns, and lets the engine describe the
rest. ``definition_text`` writes the text that is kept on disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import pyarrow as pa

from parts.common.errors import UserError
from parts.common.safe_names import check_identifier
from parts.table.row_exists_column import RESERVED_COLUMN_NAMES
from parts.table.table_description import Column, TableDescription, TableSchema
from parts.types import (
    ArrayType,
    DataType,
    DecimalType,
    LowCardinalityType,
    MapType,
    NothingType,
    NullableType,
    TupleType,
    make_nullable,
    parse_aggregate_name,
    parse_type,
    strip_nullable,
)
from sql.definitions.column_defaults import compile_defaults
from sql.definitions.engines.registry import find_engine
from sql.definitions.engines.table_engine import ServerDefaults
from sql.formats.converters.array_casts import cast_array
from sql.formats.format_options import BadValueError, FormatOptions
from sql.grammar.clause_types import ColumnClause
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.statements.statement import CreateTable
from sql.grammar.syntax_tree import Literal
from sql.run.block_expressions import compile_expressions

if TYPE_CHECKING:
    from sql.run.block_expressions import CompiledExpression


_NO_DEFAULTS = ServerDefaults()


def build_description(create: CreateTable, defaults: ServerDefaults = _NO_DEFAULTS) -> TableDescription:
    """The description of the table's parts.

    ``create`` must have its columns (AS table and AS SELECT are resolved by the caller). The SETTINGS of the statement
    go over the defaults of the server.

    Raises ``UserError``: 42 ORDER BY missing, 36 keys that contradict each other, 47 unknown key column, 56 unknown
    engine, 115 unknown setting, 44 nullable key, 50 unknown type, 48 for what ClickHouse has and Pando has not.
    """
    engine = find_engine(create)
    engine.check(create)
    stores_rows = create.view is None or create.view.is_materialized
    columns = tuple(build_columns(create.columns, is_new=not create.attach, stores_rows=stores_rows))
    schema = compile_defaults(TableSchema(columns, create.history))
    if not create.attach:
        _refuse_reserved_names(schema)
    if not engine.is_view and not any(column.is_stored for column in schema.columns):
        raise UserError("BAD_ARGUMENTS", "A table needs at least one column that is stored (not ALIAS)")
    return engine.describe(create, schema, defaults)


def _refuse_reserved_names(schema: TableSchema) -> None:
    reserved = next((name for name in RESERVED_COLUMN_NAMES if name in schema), None)
    if reserved is not None:
        raise UserError(
            "ILLEGAL_COLUMN",
            f"Cannot create table with column '{reserved}' for MergeTree engines because it is reserved for "
            "persistent virtual column",
        )


# Columns --------------------------------------------------------------------------------------------------------------


def build_columns(clauses: Sequence[ColumnClause], *, is_new: bool = True, stores_rows: bool = True) -> list[Column]:
    """Columns with their types; a type left out is the type of the default expression, and ``DEFAULT NULL`` makes a
    type Nullable. Of a table that was made before (not ``is_new``) the types are as they are written. A view
    (not ``stores_rows``) may have columns of NULL alone."""
    types = {clause.name: _written_type(clause, is_new=is_new) for clause in clauses if clause.type}
    inferred = _infer_types(clauses, types, is_new=is_new)
    columns = []
    for clause in clauses:
        check_identifier("column", clause.name)
        type_ = inferred[clause.name]
        if stores_rows and _has_nothing(type_):
            raise _unusable(clause.name, type_)
        if clause.codec:
            _check_codec(clause, type_, is_new=is_new)
        columns.append(
            Column(
                clause.name,
                type_,
                clause.codec,
                clause.default_kind,
                clause.default_expression.strip(),
                clause.comment,
                ttl=clause.ttl,
                aggregate=parse_aggregate_name(clause.type),
            )
        )
    return columns


def _written_type(clause: ColumnClause, *, is_new: bool) -> DataType:
    type_ = parse_type(clause.type)
    if not is_new or clause.default_kind != "DEFAULT" or clause.is_not_null or type_.is_nullable:
        return type_
    default = parse_expression(clause.default_expression)
    if not isinstance(default, Literal) or default.value is not None:
        return type_
    nullable = make_nullable(type_)
    if nullable == type_:
        raise UserError(
            "ILLEGAL_TYPE_OF_ARGUMENT", f"Nested type {type_} cannot be inside Nullable type (DEFAULT NULL)"
        )
    return nullable


def _infer_types(clauses: Sequence[ColumnClause], known: dict[str, DataType], *, is_new: bool) -> dict[str, DataType]:
    """The types of all columns. Every default expression is compiled, so that an unknown name is found at CREATE.

    A default may read columns whose own type is inferred: rounds run until one adds nothing. Raises ``UserError`` 174
    for those of a new table that need each other.
    """
    types = dict(known)
    read: dict[str, tuple[str, ...]] = {}
    pending = [clause for clause in clauses if clause.default_kind]
    if not pending:
        return types
    for _ in range(len(pending) + 1):
        progress: list[ColumnClause] = []
        error: UserError | None = None
        schema = TableSchema(tuple(Column(name, type_) for name, type_ in types.items()))
        for clause in pending:
            try:
                (compiled,) = compile_expressions([clause.default_expression], schema)
            except UserError as failure:
                error = failure
                continue
            _check_constant(clause.name, compiled, types.get(clause.name), is_new=is_new)
            types.setdefault(clause.name, compiled.type)
            read[clause.name] = compiled.columns
            progress.append(clause)
        pending = [clause for clause in pending if clause not in progress]
        if not pending:
            if is_new:
                _refuse_circles(read)
            return types
        if not progress and error is not None:
            raise UserError(error.name, f"{error.message} (in the default of column {pending[0].name!r})")
    return types


def _refuse_circles(read: Mapping[str, Sequence[str]]) -> None:
    """``read``: the columns that each default reads."""
    try:
        TopologicalSorter(read).prepare()
    except CycleError as error:
        circle = " -> ".join(reversed(error.args[1]))
        raise UserError(
            "CYCLIC_ALIASES",
            f"Cyclic alias detected in column DEFAULT expressions: {circle}; a default may not read its own column, "
            "not by way of others either",
        ) from None


def _check_constant(name: str, default: CompiledExpression, type_: DataType | None, *, is_new: bool) -> None:
    """A default that reads no column must be a value of the column's type, or no INSERT could ever leave it out."""
    if type_ is None or default.columns:
        return
    if _has_nothing(type_):
        raise _unusable(name, type_)
    values = default.evaluate(pa.table({"_row": pa.nulls(1, pa.uint8())}))
    if is_new and values.null_count and not type_.is_nullable:
        code = "CANNOT_CONVERT_TYPE" if _has_nothing(default.type) else "CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN"
        raise UserError(code, f"Cannot convert NULL to {type_} (in the default of column {name!r})")
    try:
        cast_array(values, default.type, type_, FormatOptions())
    except BadValueError as error:
        raise UserError(error.name, f"{error.detail} (in the default of column {name!r})") from None


def _has_nothing(type_: DataType) -> bool:
    match type_:
        case NothingType():
            return True
        case NullableType(inner) | LowCardinalityType(inner) | ArrayType(inner):
            return _has_nothing(inner)
        case MapType(key, value):
            return _has_nothing(key) or _has_nothing(value)
        case TupleType(elements):
            return any(_has_nothing(inner) for _, inner in elements)
    return False


def _unusable(name: str, type_: DataType) -> UserError:
    return UserError(
        "DATA_TYPE_CANNOT_BE_USED_IN_TABLES",
        f"Data type {type_} of column {name!r} cannot be used in tables; name another",
    )


_MOST_DIGITS = 18
"""Of a Decimal of 8 bytes."""


def _check_codec(clause: ColumnClause, type_: DataType, *, is_new: bool) -> None:
    if clause.default_kind == "ALIAS":
        raise UserError("BAD_ARGUMENTS", f"Column {clause.name!r} is an ALIAS: it is not stored and can have no CODEC")
    from parts.format.codecs import parse_codec

    codec = parse_codec(clause.codec, type_)
    bare = strip_nullable(type_)
    if is_new and codec.transforms and isinstance(bare, DecimalType) and bare.precision > _MOST_DIGITS:
        raise UserError(
            "BAD_ARGUMENTS",
            f"CODEC({clause.codec}) of column {clause.name!r}: Delta and DoubleDelta are only applicable for data "
            f"types of size 1, 2, 4, 8 bytes. Given type {type_}",
        )


def write_out_column_types(create: CreateTable, schema: TableSchema) -> CreateTable:
    """The statement with every column's type written out, inferred ones too: what is kept on disk and shown."""
    columns = tuple(replace(clause, type=schema.column(clause.name).type_text) for clause in create.columns)
    return replace(create, columns=columns)
