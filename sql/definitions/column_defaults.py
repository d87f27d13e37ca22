"""Completes a block for insertion, and computes values that parts of older definitions lack.

Given columns are checked and cast; nulls of columns that are not Nullable take the default; omitted columns get their
DEFAULT expression or the type's default; MATERIALIZED columns come last. A default waits for the columns that it reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.blocks.default_values import column_default, type_default
from parts.common.errors import UserError
from parts.table.nested_columns import check_array_sizes, find_sibling, make_default_arrays
from parts.table.table_description import Column, TableSchema
from parts.types import (
    ArrayType,
    DataType,
    DateTime64Type,
    DateTimeType,
    EnumType,
    NullableType,
    StringType,
    parse_type,
    strip_nullable,
)
from sql.definitions.cast_defaults import cast_default
from sql.definitions.text_check import check_text
from sql.formats.converters.array_casts import cast_array, check_range
from sql.formats.converters.null_filling import MISSING, fill_nulls, fill_where
from sql.formats.format_options import BadValueError, FormatOptions
from sql.grammar.tokens import quote_string
from sql.run.block_expressions import compile_expressions
from sql.settings.supported_settings import (
    DEFAULT_SETTINGS,
    Settings,
)
from sql.typing.casts.text_casts import is_null_if_misspelled


def list_insert_columns(
    schema: TableSchema,
    columns: Sequence[str] = (),
    except_columns: Sequence[str] = (),
    settings: Settings = DEFAULT_SETTINGS,
) -> tuple[Column, ...]:
    """Returns the columns of an INSERT's data, in their order: those named, or all ordinary ones.

    Raises ``UserError`` 16 for an unknown name, 15 for a repeated one, 44 for an ALIAS or MATERIALIZED column.
    """
    for name in except_columns:
        schema.column(name)
    if not columns:
        chosen = [c for c in schema.columns if c.default_kind not in ("MATERIALIZED", "ALIAS")]
        return tuple(column for column in chosen if column.name not in except_columns)
    if len(set(columns)) < len(columns):
        raise UserError("DUPLICATE_COLUMN", f"A column is given twice in the column list: {', '.join(columns)}")
    return tuple(_check_writable(schema.column(name), settings) for name in columns)


def _check_writable(column: Column, settings: Settings) -> Column:
    may_be_given = settings.insert_allow_materialized_columns and column.default_kind == "MATERIALIZED"
    if column.default_kind in ("MATERIALIZED", "ALIAS") and not may_be_given:
        raise UserError(
            "ILLEGAL_COLUMN",
            f"Cannot insert column {column.name}: it is {column.default_kind} and computed by the table; leave it out",
        )
    return column


def complete_block(
    block: pa.Table,
    schema: TableSchema,
    *,
    settings: Settings = DEFAULT_SETTINGS,
    first_row: int = 1,
    of_data: Collection[str] | None = None,
) -> pa.Table:
    """Returns the stored columns of the table, in its order, for a block with some of them.

    ``of_data``: the columns that a format's data may have, whether this block has them or not; all by default. The
    others, and nulls of a query, take :func:`column_default` where there is no DEFAULT.
    A null in a column that is not Nullable means "the default" (see :mod:`sql.formats`); with
    ``input_format_null_as_default = 0`` it is refused (53).
    """
    options = FormatOptions.of(settings)
    done: dict[str, pa.ChunkedArray] = {}
    to_fill: dict[str, _Gaps] = {}
    given = dict(zip(block.column_names, block.columns, strict=True))
    for name, values in given.items():
        if name.startswith(MISSING):
            continue
        column = _check_writable(schema.column(name), settings)
        check_text(values, column, first_row)
        if values.null_count and not column.type.is_nullable:
            if not options.null_as_default:
                raise _null_error(values, column, first_row)
            to_fill[name] = _Gaps(values, None)
        elif MISSING + name in given:
            to_fill[name] = _Gaps(values, given[MISSING + name])
        else:
            done[name] = values
    missing = [column for column in schema.columns if column.is_stored and column.name not in done]
    by_data = schema.names if of_data is None else of_data
    _fill(missing, to_fill, done, schema, block.num_rows, options, by_data)
    arrays = [_to_storage(done[column.name], column.type) for column in schema.stored.columns]
    complete = pa.Table.from_arrays(arrays, schema=schema.stored.arrow)
    check_array_sizes(complete, schema.nested)
    return complete


@dataclass(frozen=True, slots=True)
class _Gaps:
    """A column in which some rows take the default: those of ``mask``, or its nulls."""

    values: pa.ChunkedArray
    mask: pa.ChunkedArray | None


def _fill_gaps(given: _Gaps | None, defaults: pa.ChunkedArray) -> pa.ChunkedArray:
    if given is None:
        return defaults
    return fill_nulls(given.values, defaults) if given.mask is None else fill_where(given.values, given.mask, defaults)


def _null_error(values: pa.ChunkedArray, column: Column, first_row: int) -> UserError:
    row = first_row + int(pc.index(pc.is_null(values), pa.scalar(True)).as_py())
    return UserError(
        "TYPE_MISMATCH",
        f"Cannot insert NULL into column {column.name} of type {column.type}: (at row {row}, column {column.name}); "
        "set input_format_null_as_default = 1 to insert the default",
    )


def _to_storage(values: pa.ChunkedArray, type_: DataType) -> pa.ChunkedArray:
    return values if values.type == type_.arrow else values.cast(type_.arrow)


def _fill(
    missing: list[Column],
    to_fill: dict[str, _Gaps],
    done: dict[str, pa.ChunkedArray],
    schema: TableSchema,
    rows: int,
    options: FormatOptions,
    by_data: Collection[str],
) -> None:
    """Adds the missing columns to ``done``; one whose expression reads another waits for it."""
    pending = [column for column in missing if _has_expression(column, options)]
    for column in missing:
        if not _has_expression(column, options):
            like = find_sibling(column.name, column.type, done) if column.name not in to_fill else None
            if like is not None and isinstance(column.type, ArrayType):
                done[column.name] = pa.chunked_array(
                    [make_default_arrays(column.type, chunk) for chunk in done[like].chunks], column.type.arrow
                )
            else:
                default = type_default if column.name in by_data else column_default
                done[column.name] = _fill_gaps(to_fill.get(column.name), default(column.type, rows))
    for _ in range(len(pending)):
        ready = None
        for column in pending:
            values = _evaluate(column, done, schema, rows, options)
            if values is not None:
                ready = column
                done[column.name] = _fill_gaps(to_fill.get(column.name), values)
                break
        if ready is None:
            names = ", ".join(column.name for column in pending)
            raise UserError("BAD_ARGUMENTS", f"Default expressions need each other: {names}")
        pending.remove(ready)


def _has_expression(column: Column, options: FormatOptions) -> bool:
    if column.default_kind == "MATERIALIZED":
        return True
    return column.default_kind == "DEFAULT" and options.defaults_for_omitted_fields


def _evaluate(
    column: Column, done: dict[str, pa.ChunkedArray], schema: TableSchema, rows: int, options: FormatOptions
) -> pa.ChunkedArray | None:
    """Returns the default of every row; ``None`` while a column that it reads is missing."""
    (compiled,) = compile_expressions([column.default_expression], schema, options.timezone)
    inputs: dict[str, pa.ChunkedArray] = {}
    for name in compiled.columns:
        source = schema.column(name)
        if name in done:
            inputs[name] = done[name]
        elif source.default_kind == "ALIAS":
            computed = _evaluate(source, done, schema, rows, options)
            if computed is None:
                return None
            inputs[name] = computed
        else:
            return None
    if not inputs:  # a block without columns would have no number of rows
        inputs["_row"] = pa.chunked_array([pa.nulls(rows, pa.uint8())])
    values = compiled.evaluate(pa.table(inputs))
    try:
        cast = cast_default(values, compiled.type, column.type, options)
    except BadValueError as error:
        raise UserError(error.name, f"{error.detail} (the default of column {column.name})") from None
    if cast.null_count and not column.type.is_nullable:
        cast = fill_nulls(pa.chunked_array([cast]), type_default(column.type, rows)).combine_chunks()
    return pa.chunked_array([cast])


@dataclass(frozen=True)
class CompiledDefault:
    """Computes ``column`` for parts written before it was added: a ``table_description.ColumnDefault``."""

    column: Column
    schema: TableSchema

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The stored columns that the default reads."""
        return tuple(dict.fromkeys(self._stored_columns(self.column)))

    def _stored_columns(self, column: Column) -> Iterator[str]:
        from sql.run.block_expressions import compile_expressions

        (compiled,) = compile_expressions([column.default_expression], self.schema)
        for name in compiled.columns:
            source = self.schema.column(name)
            if source.is_stored:
                yield name
            else:
                yield from self._stored_columns(source)

    def evaluate(self, block: pa.Table, rows: int) -> pa.ChunkedArray:
        """Returns the column's values for the rows of a block of :attr:`columns`."""
        inputs = {name: block.column(name) for name in block.column_names}
        values = _evaluate(self.column, inputs, self.schema, rows, FormatOptions.of(DEFAULT_SETTINGS))
        assert values is not None, f"{self.column.name} reads more than {self.columns}"
        return _to_storage(values, self.column.type)


@dataclass(frozen=True)
class CompiledConversion:
    """Converts ``column``'s values from a former type: a ``table_description.ColumnConversion``.

    It goes through the types between, without those that were changed back (``retyped``: as in ``SchemaHistory``).
    """

    column: Column
    retyped: tuple[tuple[int, str, str], ...] = ()

    @cached_property
    def _steps(self) -> list[tuple[int, Column]]:
        return [
            (version, Column(self.column.name, parse_type(type_), default_expression=instead))
            for version, type_, instead in self.retyped
        ]

    def __call__(self, values: pa.ChunkedArray, type_: DataType, version: int) -> pa.ChunkedArray:
        way: list[Column] = []
        for column in (column for changed, column in self._steps if changed > version):
            types = [type_, *(step.type for step in way)]
            way = way[: types.index(column.type)] if column.type in types else [*way, column]
        for column in way:
            values, type_ = _convert(values, type_, column), column.type
        return values if type_ == self.column.type else _convert(values, type_, self.column)


def _convert(values: pa.ChunkedArray, type_: DataType, column: Column) -> pa.ChunkedArray:
    """Converts values to the column's type; where it has no NULL, NULL becomes its default."""
    if keeps_enum_numbers(type_, column.type):
        return values.cast(column.type.arrow)
    what = f"while converting column {column.name} from {type_} to {column.type}"
    if values.null_count and not column.type.is_nullable:
        if not column.default_expression:
            raise UserError("CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN", f"Cannot convert NULL ({what})")
        return _convert_with_default(values, type_, column)
    try:
        converted = cast_array(values, type_, column.type, FormatOptions.of(DEFAULT_SETTINGS))
        converted = check_range(converted, column.type)
    except BadValueError as error:
        if isinstance(column.type, NullableType) and isinstance(strip_nullable(type_), StringType):
            return _cast_or_null(values, type_, column.type)
        raise UserError(error.name, f"{error.detail} ({what})") from None
    return _to_storage(pa.chunked_array([converted]), column.type)


def _convert_with_default(values: pa.ChunkedArray, type_: DataType, column: Column) -> pa.ChunkedArray:
    there = values.is_valid()
    converted = _convert(values.filter(there), type_, column)
    default = _evaluate(column, {}, TableSchema((column,)), 1, FormatOptions.of(DEFAULT_SETTINGS))
    assert default is not None
    both = pa.chunked_array([*converted.chunks, *_to_storage(default, column.type).chunks], converted.type)
    places = np.where(there.to_numpy(), np.cumsum(there.to_numpy()) - 1, len(converted))
    return (both.unify_dictionaries() if pa.types.is_dictionary(both.type) else both).take(pa.array(places))


def _cast_or_null(values: pa.ChunkedArray, type_: DataType, target: DataType) -> pa.ChunkedArray:
    """Converts strings; one that is no value of the type becomes NULL."""
    text = f"accurateCastOrNull(text, {quote_string(strip_nullable(target).name)})"
    (cast,) = compile_expressions([text], TableSchema((Column("text", type_),)))
    return _to_storage(cast.evaluate(pa.table({"text": values})), target)


def keeps_enum_numbers(old: DataType, new: DataType) -> bool:
    """Returns whether the new Enum has all old numbers, perhaps renamed; no name may change its number."""
    if not isinstance(old, EnumType) or not isinstance(new, EnumType):
        return False
    names = dict(new.values)
    kept = {number for _, number in old.values} <= {*names.values()}
    return kept and all(names.get(name, number) == number for name, number in old.values)


def compile_defaults(schema: TableSchema) -> TableSchema:
    """Returns the schema with what parts need for columns that they lack or have with another type."""
    columns = tuple(
        replace(
            column,
            default=CompiledDefault(column, schema) if column.default_kind in ("DEFAULT", "MATERIALIZED") else None,
            convert=CompiledConversion(column, schema.history.retyped.get(column.name, ())),
        )
        for column in schema.columns
    )
    return replace(schema, columns=columns)


# Casting results ------------------------------------------------------------------------------------------------------


def cast_block(
    block: pa.Table | pa.RecordBatch,
    types: Sequence[DataType],
    columns: Sequence[Column],
    *,
    settings: Settings = DEFAULT_SETTINGS,
    first_row: int = 1,
) -> pa.Table:
    """Casts a SELECT's rows (``block``, of ``types``) to columns of a table, by position.

    Raises ``UserError`` 20 (NUMBER_OF_COLUMNS_DOESNT_MATCH), 53 for types that do not convert, 6, 27 or 321 for bad
    values.
    """
    if len(types) != len(columns):
        raise UserError(
            "NUMBER_OF_COLUMNS_DOESNT_MATCH",
            f"Number of columns doesn't match: the query gives {len(types)}, the INSERT takes {len(columns)} "
            f"({', '.join(column.name for column in columns)})",
        )
    options = FormatOptions.of(settings)
    arrays = []
    for index, (type_, column) in enumerate(zip(types, columns, strict=True)):
        values = block.column(index)
        try:
            try:
                arrays.append(check_range(cast_array(values, type_, column.type, options), column.type))
            except BadValueError:
                if not _may_become_null(type_, column):
                    raise
                arrays.append(_cast_texts(values, column.type, options.timezone))
        except BadValueError as error:
            raise error.to_user_error(first_row, column.name, column.type) from None
        except UserError as error:
            raise UserError(error.name, f"{error.message} (column {column.name})") from None
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def _may_become_null(type_: DataType, column: Column) -> bool:
    """Returns whether a string that is no value of the column becomes NULL. Not for Bool and Enum."""
    goal = strip_nullable(column.type)
    return column.type.is_nullable and isinstance(strip_nullable(type_), StringType) and is_null_if_misspelled(goal)


def _cast_texts(values: pa.Array | pa.ChunkedArray, target: DataType, zone: str) -> pa.Array:
    """Casts strings to a Nullable type; invalid ones become NULL. ``zone`` is for times without one."""
    goal = strip_nullable(target)
    if isinstance(goal, DateTimeType | DateTime64Type) and goal.timezone is None:
        goal = replace(goal, timezone=zone)
    texts = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    plain = texts.cast(pa.string())
    text = f"CAST(text, {quote_string(f'Nullable({goal.name})')})"
    (cast,) = compile_expressions([text], TableSchema((Column("text", NullableType(StringType())),)))
    return _to_storage(cast.evaluate(pa.table({"text": plain})), target).combine_chunks()
