"""``x IN set``: a list of constants, an array, a table or a subquery; for values and tuples.

NULL follows ``transform_null_in = 0``: a NULL on the left gives NULL, a NULL in the set matches nothing, and a tuple
that contains NULL is in no set.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.types import (
    ArrayType,
    BoolType,
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    IPv4Type,
    LowCardinalityType,
    NothingType,
    StringType,
    TupleType,
    make_nullable,
    strip_nullable,
)
from sql.compile.compiler_interfaces import ExpressionCompiling
from sql.compile.expressions.literal_lists import is_inlined, list_members, member_column, scan_of_list
from sql.compile.passes.view_expansion import expand_views
from sql.grammar.syntax_tree import Alias, Function, Identifier, LiteralList, NamedTable, Node, Select, Star, Subquery
from sql.typing.casts.casts import cast_to, convert_to_supertype
from sql.typing.casts.constant_texts import check_constant_text, convert_constant_text
from sql.typing.column_kernels.float_bits import floats_to_bits
from sql.typing.duckdb.sql_fragments import EMPTY, Fragment, fragment, join_fragments
from sql.typing.result_types import is_date_or_time, is_number, is_string, supertype
from sql.typing.typed_expressions import FLOAT64, INT64, UINT8, Typed, element_sql, literal


def compile_in(compiler: ExpressionCompiling, node: Function) -> Typed:
    """Compiles ``x IN set`` and its variants (NOT IN, GLOBAL IN). Raises ``UserError`` 42, 53."""
    if len(node.args) != 2:
        raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", "IN takes a value and a set")
    negated = node.name in ("notIn", "globalNotIn")
    left = compiler.compile(node.args[0]).plain
    if isinstance(strip_nullable(left.type), NothingType):
        return literal(None)
    text = fragment("false") if _has_null(left) else _compile_membership(compiler, left, node.args[1])
    if negated:
        text = fragment("(NOT {})", text)
    type_: DataType = make_nullable(UINT8) if left.type.is_nullable else UINT8
    if isinstance(left.type, LowCardinalityType):
        type_ = LowCardinalityType(type_)
    return Typed(text, type_, is_condition=True)


def _compile_membership(compiler: ExpressionCompiling, left: Typed, right: Node) -> Fragment:
    """Compiles ``left IN right`` without negation."""
    if isinstance(right, Alias):
        right = right.expression
    if isinstance(right, Identifier):
        named = _resolve_named_set(compiler, right)
        if named is not None:
            right = named
    if isinstance(right, Subquery):
        return _test_subquery(compiler, left, right)
    if isinstance(right, LiteralList) and right.is_of_tuples:
        among = _test_long_tuples(compiler, left, right)
        if among is not None:
            return among
        right = Function("tuple", list_members(right))
    if isinstance(right, LiteralList):
        if not isinstance(strip_nullable(left.type), TupleType) and not is_inlined(compiler, right):
            return _test_long_list(compiler, left, right)
        right = Function("array" if right.is_array else "tuple", list_members(right))
    values = _list_members(compiler, left, right)
    if isinstance(values, Fragment):
        return values
    tests = [text for text in (_convert_member(compiler, left, value) for value in values) if text is not None]
    if not tests:
        return (
            fragment("(CASE WHEN {} IS NULL THEN NULL ELSE false END)", left.sql)
            if left.type.is_nullable
            else fragment("false")
        )
    return fragment("({} IN ({}))", _left_side_sql(left), join_fragments(", ", tests))


def _left_side_sql(left: Typed) -> Fragment:
    """Returns the left side as DuckDB compares it with the results of :func:`_convert_member`."""
    if isinstance(strip_nullable(left.type), FloatType):  # ClickHouse compares Float32 with Float64 as Float64
        return floats_to_bits(convert_to_supertype(left, FLOAT64), FLOAT64)
    return floats_to_bits(left.sql, left.type)


def _test_long_list(compiler: ExpressionCompiling, left: Typed, right: LiteralList) -> Fragment:
    """Compiles a test against a list that is so long that it is a table of its own."""
    member, table = member_column(compiler, right)
    if is_string(member.type) and not is_string(strip_nullable(left.type)):
        for value in right.values:
            compiler.guard.step()
            check_constant_text(value.as_py(), left.type)
    tested = _convert_member(compiler, left, member)
    assert tested is not None
    return fragment("({} IN (SELECT {} FROM {}))", _left_side_sql(left), tested, table)


def _test_long_tuples(compiler: ExpressionCompiling, left: Typed, right: LiteralList) -> Fragment | None:
    """Compiles a test against a list of tuples that is a table of its own.

    Returns ``None`` where the tuples are compared one by one.
    """
    bare = strip_nullable(left.type)
    columns = right.values.flatten()
    if compiler.query is None or compiler.names.lambdas or not isinstance(bare, TupleType):
        return None
    if len(bare.elements) != len(columns):
        return None
    rows = pa.table(columns, names=[str(position) for position in range(len(columns))])
    types: list[DataType] = []
    for name, (_, element) in zip(rows.column_names, bare.elements, strict=True):
        goal, column = strip_nullable(element), rows[name]
        is_text = pa.types.is_string(column.type)
        if isinstance(goal, IntegerType) and not is_text:  # numbers that the type cannot hold match nothing
            low, high = max(goal.minimum, INT64.minimum), min(goal.maximum, INT64.maximum)
            rows = rows.filter(pc.and_(pc.greater_equal(column, low), pc.less_equal(column, high)))
            types.append(goal)
        elif is_text and isinstance(goal, StringType):
            types.append(goal)
        else:
            return None
    type_ = TupleType(tuple((None, given) for given in types))
    fields = list(type_.arrow)
    arrays = [column.combine_chunks().cast(field.type) for column, field in zip(rows.columns, fields, strict=True)]
    name, table = scan_of_list(compiler, pa.StructArray.from_arrays(arrays, fields=fields), type_)
    tested = _convert_member(compiler, left, Typed(name, type_))
    assert tested is not None
    return fragment("({} IN (SELECT {} FROM {}))", left.sql, tested, table)


def _resolve_named_set(compiler: ExpressionCompiling, right: Identifier) -> Node | None:
    """Returns the expression of an alias, or a query of all columns of a table; ``None`` for a column."""
    if len(right.parts) == 1 and right.parts[0] in compiler.scope.aliases:
        return compiler.scope.aliases[right.parts[0]]
    if compiler.resolve(right.parts) is not None:
        return None
    table = NamedTable(right.parts[0] if len(right.parts) > 1 else None, right.parts[-1])
    query = compiler.need_query()
    return Subquery(expand_views(Select((Star(),), source=table), query.catalog, query.guard))


def _list_members(compiler: ExpressionCompiling, left: Typed, right: Node) -> list[Typed] | Fragment:
    """Returns the members of a set that is written in place; for an array column, the whole test."""
    is_tuple = isinstance(strip_nullable(left.type), TupleType)
    if isinstance(right, Function) and right.name == "tuple":
        members = [compiler.compile(arg) for arg in right.args]
        # (a, b) IN (1, 2): the one tuple itself.
        if is_tuple and members and not any(isinstance(member.type, TupleType) for member in members):
            return [compiler.compile(right)]
        return members
    value = compiler.compile(right)
    if isinstance(value.type, ArrayType):
        is_in_arrays = isinstance(strip_nullable(left.type), ArrayType)
        if is_in_arrays and not isinstance(strip_nullable(value.type.inner), ArrayType):
            return [value]
        if value.elements is not None:
            return list(value.elements)
        element = supertype([strip_nullable(left.type), strip_nullable(value.type.inner)])
        return fragment(
            "list_contains({}, {})",
            convert_to_supertype(value, ArrayType(element)),
            convert_to_supertype(left, element),
        )
    if isinstance(value.type, TupleType) and not is_tuple and value.elements is not None:
        return list(value.elements)
    return [value]


def _convert_member(compiler: ExpressionCompiling, left: Typed, member: Typed) -> Fragment | None:
    """Converts a member so that DuckDB compares it with the left side (:func:`_left_side_sql`).

    Returns ``None`` if it can never be equal.
    """
    goal = strip_nullable(left.type)
    if not _may_be_in_set(goal, strip_nullable(member.type)):
        raise UserError("TYPE_MISMATCH", f"Cannot look for {left.type} in a set with {member.type}")
    if isinstance(goal, FloatType) and is_number(strip_nullable(member.type)):
        return floats_to_bits(convert_to_supertype(member, FLOAT64), FLOAT64)
    found = _convert_to_left(compiler, left, member)
    if found is None:
        return None
    if isinstance(goal, FloatType):  # a text is read in the left side's precision
        return floats_to_bits(convert_to_supertype(Typed(found, goal), FLOAT64), FLOAT64)
    return floats_to_bits(found, goal)


def _convert_to_left(compiler: ExpressionCompiling, left: Typed, member: Typed) -> Fragment | None:
    """Converts a member to the left side's type; ``None`` if it can never be equal.

    Raises ``UserError`` 53.
    """
    goal, source = strip_nullable(left.type), strip_nullable(member.type)
    if isinstance(source, NothingType):
        return None
    zone = compiler.environment.zone
    if goal == source or (is_number(goal) and is_number(source)):
        return member.number
    if isinstance(goal, TupleType) and isinstance(source, TupleType):
        if len(goal.elements) != len(source.elements):
            raise UserError(
                "TYPE_MISMATCH", f"Tuples of different sizes in IN: {left.type} on the left, {member.type} in the set"
            )
        if _has_null(member) or _is_out_of_range(member, goal):
            return None
        return (
            convert_to_supertype(member, goal, zone)
            if _has_lossless_conversion(goal, source)
            else _cast(member, goal, zone)
        )
    if isinstance(goal, ArrayType) and isinstance(source, ArrayType):
        return None if _is_out_of_range(member, goal) else convert_to_supertype(member, goal, zone)
    if isinstance(goal, EnumType) and isinstance(member.value, str):
        return _convert_element_name(member.value, goal)
    if is_string(source):
        return convert_constant_text(member, goal, zone)
    if is_date_or_time(goal) and is_date_or_time(source):
        return _cast(member, goal, zone)
    if isinstance(goal, EnumType) and is_number(source):
        return member.number
    if isinstance(goal, (DateType, Date32Type, DateTimeType, DateTime64Type, IPv4Type)) and is_number(source):
        return _cast(member, goal, zone)
    if isinstance(goal, StringType) and isinstance(source, IntegerType):
        return _cast(member, goal, zone)
    raise UserError("TYPE_MISMATCH", f"Cannot look for {left.type} in a set with {member.type}")


def _convert_element_name(text: str, type_: EnumType) -> Fragment | None:
    """Converts the name or the number of an element; a text that is neither is in no column of the type."""
    numbers = {str(number): number for _, number in type_.values} | dict(type_.values)
    return fragment("{}", numbers[text]) if text in numbers else None


def _may_be_in_set(goal: DataType, source: DataType) -> bool:
    """Returns ``False`` for types that ClickHouse keeps apart in IN, though DuckDB would compare them."""
    match source:
        case DecimalType():
            return not isinstance(goal, (IntegerType, FloatType, BoolType, EnumType, DateTime64Type))
        case BoolType():
            return isinstance(goal, (BoolType, IntegerType, FloatType, StringType))
        case FloatType():
            return not isinstance(goal, EnumType) and not is_date_or_time(goal)
        case DateTime64Type():
            return not isinstance(goal, (DateType, Date32Type, DateTimeType))
    return True


def _has_null(value: Typed) -> bool:
    """Tells whether a value is a tuple with NULL among its elements, which is in no set.

    ClickHouse treats a tuple of a single element like that element.
    """
    elements = (isinstance(value.type, TupleType) and value.elements) or ()
    return len(elements) > 1 and any(element.value is None for element in elements)


def _is_out_of_range(member: Typed, type_: DataType) -> bool:
    """Tells whether the member is, or contains, a number that the type cannot hold."""
    goal = strip_nullable(type_)
    if isinstance(goal, TupleType):
        return any(map(_is_out_of_range, member.elements or (), (inner for _, inner in goal.elements)))
    if isinstance(goal, ArrayType):
        return any(_is_out_of_range(element, goal.inner) for element in member.elements or ())
    if not isinstance(goal, IntegerType) or not isinstance(member.value, int):
        return False
    return not goal.minimum <= member.value <= goal.maximum


def _has_lossless_conversion(goal: TupleType, source: TupleType) -> bool:
    return all(
        strip_nullable(a) == strip_nullable(b) or (is_number(a) and is_number(b))
        for (_, a), (_, b) in zip(goal.elements, source.elements, strict=True)
    )


def _cast(value: Typed, goal: DataType, zone: str) -> Fragment:
    return cast_to(value, goal, zone)


def _test_subquery(compiler: ExpressionCompiling, left: Typed, right: Subquery) -> Fragment:
    """Compiles a test against a subquery of one or several columns. Raises ``UserError`` 53."""
    compiled = compiler.need_query().nested(right.query, compiler)
    types = [type_ for _, type_ in compiled.columns]
    zone = compiler.environment.zone
    bare = strip_nullable(left.type)
    parts = list(left.elements) if left.elements is not None and len(types) > 1 else None
    if parts is None and len(types) > 1:
        if not isinstance(bare, TupleType) or len(bare.elements) != len(types):
            raise UserError(
                "TYPE_MISMATCH", f"The subquery of IN has {len(types)} columns, but the left side is {left.type}"
            )
        parts = [Typed(element_sql(left.sql, position), inner) for position, (_, inner) in enumerate(bare.elements, 1)]
    lefts = parts or [left]
    if len(lefts) != len(types):
        raise UserError(
            "TYPE_MISMATCH", f"The subquery of IN has {len(types)} columns, but the left side has {len(lefts)}"
        )
    goals = [_common_type(a.type, b) for a, b in zip(lefts, types, strict=True)]
    columns = [
        floats_to_bits(convert_to_supertype(Typed(fragment("c{}", position), type_), goal, zone), goal)
        for position, (type_, goal) in enumerate(zip(types, goals, strict=True))
    ]
    values = [
        floats_to_bits(convert_to_supertype(part.plain, goal, zone), goal)
        for part, goal in zip(lefts, goals, strict=True)
    ]
    known = [f"c{position} IS NOT NULL" for position, type_ in enumerate(types) if type_.is_nullable]
    where = fragment(" WHERE {}", join_fragments(" AND ", known)) if known else EMPTY
    inner = fragment("SELECT {} FROM ({}){}", join_fragments(", ", columns), compiled.sql, where)
    tested = values[0] if len(values) == 1 else fragment("({})", join_fragments(", ", values))
    if len(values) > 1 and any(part.type.is_nullable for part in lefts):  # a tuple with NULL is in no set
        return fragment("coalesce(({} IN ({})), false)", tested, inner)
    if compiler.names.lambdas and compiler.stages is not None and len(values) == 1:
        members = fragment("(SELECT coalesce(list(c), []) FROM ({}) AS s(c))", inner)
        listed = compiler.stages.column(Typed(members, ArrayType(goals[0])), may_add=True)
        return fragment("list_contains({}, {})", listed.sql, tested)
    found = fragment("({} IN ({}))", tested, inner)
    if len(values) == 1 and left.type.is_nullable:  # NULL is unknown even where the set is empty
        return fragment("({} OR ({} IS NULL AND NULL))", found, tested)
    return found


def _common_type(left: DataType, right: DataType) -> DataType:
    a, b = strip_nullable(left), strip_nullable(right)
    if is_string(b) and not is_string(a):
        return a
    return supertype([a, b])
