"""Special forms: calls whose arguments are not compiled first, or not all of them."""

from __future__ import annotations

from collections.abc import Callable

from parts.common.errors import UserError
from parts.types import ArrayType, MapType, strip_nullable
from sql.compile.compiler_interfaces import ExpressionCompiling
from sql.compile.expressions.in_sets import compile_in
from sql.functions.maps_and_tuples.maps_and_tuples import make_tuple, map_entries
from sql.grammar.syntax_tree import Function, Subquery
from sql.typing.duckdb.sql_fragments import fragment
from sql.typing.typed_expressions import UINT8, Typed, literal

SpecialForm = Callable[[ExpressionCompiling, Function], Typed]


def _compile_exists(compiler: ExpressionCompiling, node: Function) -> Typed:
    if len(node.args) != 1 or not isinstance(node.args[0], Subquery):
        raise UserError("BAD_ARGUMENTS", "EXISTS takes one subquery in brackets")
    compiled = compiler.need_query().nested(node.args[0].query, compiler)
    return Typed(fragment("EXISTS ({})", compiled.sql), UINT8, is_condition=True)


def _compile_array_join(compiler: ExpressionCompiling, node: Function) -> Typed:
    """Compiles ``arrayJoin`` as a column of its own stage. Raises ``UserError`` 42, 43, 48."""
    if len(node.args) != 1:
        raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", f"arrayJoin takes one argument, {len(node.args)} are given")
    value = compiler.compile(node.args[0])
    type_ = strip_nullable(value.type)
    if isinstance(type_, MapType):
        value = map_entries(value, type_)
        type_ = value.type
    if not isinstance(type_, ArrayType):
        raise UserError(
            "ILLEGAL_TYPE_OF_ARGUMENT", f"Argument of arrayJoin must be an Array or a Map, not {value.type}"
        )
    if value.sql not in compiler.array_joins:
        if not compiler.allow_array_join or compiler.stages is None:
            raise UserError("NOT_IMPLEMENTED", "arrayJoin is not supported here")
        before = [name for name, _ in compiler.array_joins.values()]  # each of their rows gets all elements of this one
        name = compiler.stages.add(fragment("unnest({})", value.sql), "aj", before)
        compiler.array_joins[value.sql] = (name, type_.inner)
    name, inner = compiler.array_joins[value.sql]
    return Typed(name, inner)


def _compile_to_type_name(compiler: ExpressionCompiling, node: Function) -> Typed:
    if len(node.args) != 1:
        raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", "toTypeName takes one argument")
    return literal(compiler.compile(node.args[0]).type.name)


def _compile_tuple(compiler: ExpressionCompiling, node: Function) -> Typed:
    return make_tuple([compiler.compile(arg) for arg in node.args])


def _refuse_quantified(compiler: ExpressionCompiling, node: Function) -> Typed:
    raise UserError(
        "NOT_IMPLEMENTED", "Comparisons with ANY or ALL of a subquery are not supported: use IN, min or max"
    )


def _refuse_grouping(compiler: ExpressionCompiling, node: Function) -> Typed:
    raise UserError("NOT_IMPLEMENTED", "The function grouping is not supported")


SPECIAL_FORMS: dict[str, SpecialForm] = {
    "exists": _compile_exists,
    **dict.fromkeys(("in", "notIn", "globalIn", "globalNotIn", "nullIn"), compile_in),
    "arrayJoin": _compile_array_join,
    "toTypeName": _compile_to_type_name,
    "tuple": _compile_tuple,
    "_any": _refuse_quantified,
    "_all": _refuse_quantified,
    "grouping": _refuse_grouping,
}
