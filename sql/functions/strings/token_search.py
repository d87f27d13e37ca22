"""``tokens``, ``hasAnyTokens`` and ``hasAllTokens``, which cut texts as text indexes do.

The default tokenizer is ``splitByNonAlpha``. For a column with a text index,
``sql.compile.expressions.index_tokenizers`` adds the index's tokenizer to the call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial, reduce

import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import UserError
from parts.skip_indexes.tokenizers import tokenize_string
from parts.types import ArrayType, FixedStringType
from sql.functions.registry import Call, define, function
from sql.functions.strings.basic_strings import string_argument
from sql.functions.strings.string_kernels import NO_TOKEN, WORDS, byte_class_runs, token_test
from sql.functions.strings.tokenizers import Arguments, parse_tokenizer
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import Function, Literal
from sql.typing.column_kernels.scannable import Scannable
from sql.typing.duckdb.bound_values import bind_value
from sql.typing.duckdb.sql_fragments import Fragment, fragment, join_fragments
from sql.typing.result_types import is_string
from sql.typing.typed_expressions import STRING, UINT8, Typed, string_literal

_WORD = re.compile(r"[a-zA-Z0-9\x80-\U0010FFFF]+")
_BETWEEN_WORDS = r"[^a-zA-Z0-9\x{80}-\x{10FFFF}]+"
_WORDS_ALONE: Arguments = ("splitByNonAlpha",)


@function("tokens", (1, 3))
def tokens(call: Call) -> Typed:
    """Compiles ``tokens(text[, tokenizer[, parameter]])``. Raises ``UserError`` 36, 43, 44, 48."""
    if len(call.args) == 1:
        arguments: Arguments = _WORDS_ALONE
    else:
        name = call.constant_text(1)
        given = () if len(call.args) == 2 else (_argument_tree(call, 2),)
        arguments = parse_tokenizer(Function(name, given) if given else Literal(name))
    value = string_argument(call, 0)
    sql = _compile_tokens(value, arguments)
    if arguments == _WORDS_ALONE:
        sql = Scannable(sql, value, byte_class_runs(~NO_TOKEN, 0), WORDS, worth_at=2)
    return Typed(sql, ArrayType(STRING))


def _argument_tree(call: Call, position: int) -> Function | Literal:
    """Returns a constant argument as a syntax tree. Raises ``UserError`` 44."""
    argument = call.args[position]
    if argument.elements is not None:
        return Function("array", tuple(Literal(element.value) for element in argument.elements))
    if not argument.is_literal:
        raise UserError("ILLEGAL_COLUMN", f"Argument {position + 1} of function {call.name} must be a constant")
    return Literal(argument.value)


def _compile_tokens(value: Fragment, arguments: Arguments) -> Fragment:
    match arguments:
        case ("ngrams", length):
            template = "list_transform(range(1, length({0}) - {1} + 2), lambda i: substring({0}, i, {1}))"
            return bind_value(value, "whole", lambda whole: fragment(template, whole, int(length)))
        case ("array",):
            template = "(CASE WHEN {0} = '' THEN CAST([] AS VARCHAR[]) ELSE [{0}] END)"
            return bind_value(value, "whole", lambda whole: fragment(template, whole))
        case ("splitByString", *separators):
            pattern = "|".join(re.escape(str(separator)) for separator in separators)
        case _:
            pattern = _BETWEEN_WORDS
    return fragment("list_filter(regexp_split_to_array({}, {}), lambda w: w <> '')", value, string_literal(pattern))


def _build_search(needs_all: bool) -> Callable[[Call], Typed]:
    return lambda call: _compile_search(call, needs_all)


def _compile_search(call: Call, needs_all: bool) -> Typed:
    """Compiles ``hasAnyTokens`` or ``hasAllTokens``. Raises ``UserError`` 36, 43, 44, 48."""
    arguments = _WORDS_ALONE if len(call.args) == 2 else parse_tokenizer(parse_expression(call.constant_text(2)))
    wanted = _wanted_tokens(call, arguments)
    type_ = call.args[0].type
    if isinstance(type_, ArrayType):
        if not is_string(type_.inner):
            raise call.wrong_type(0, "String, FixedString, Array(String) or Array(FixedString)")
        element = fragment("decode(x)") if isinstance(type_.inner, FixedStringType) else fragment("x")
        each = fragment("list_transform({}, lambda x: {})", call.args[0].sql, _compile_tokens(element, arguments))
        return Typed(_compile_has(fragment("flatten({})", each), wanted, needs_all), UINT8, is_condition=True)
    value = string_argument(call, 0)
    sql = _compile_has(_compile_tokens(value, arguments), wanted, needs_all)
    if arguments == _WORDS_ALONE and wanted and all(map(_WORD.fullmatch, wanted)):
        sql = Scannable(sql, value, partial(_test_tokens, wanted, needs_all), pa.bool_())
    return Typed(sql, UINT8, is_condition=True)


def _compile_has(tokens_sql: Fragment, wanted: Sequence[str], needs_all: bool) -> Fragment:
    needles = join_fragments(", ", [string_literal(one) for one in wanted])
    name = "list_has_all" if needs_all and wanted else "list_has_any"
    return fragment(name + "({}, CAST([{}] AS VARCHAR[]))", tokens_sql, needles)


def _test_tokens(wanted: Sequence[str], needs_all: bool, texts: pa.Array) -> pa.Array:
    tests = [token_test(one)(texts) for one in wanted]
    return reduce(pc.and_ if needs_all else pc.or_, tests)


def _wanted_tokens(call: Call, arguments: Arguments) -> list[str]:
    """Returns the tokens to look for: a text is cut into them, an array lists them.

    Raises ``UserError`` 43, 44.
    """
    needle = call.args[1]
    if isinstance(needle.value, str):
        return [token.decode() for token in tokenize_string(arguments, needle.value)]
    if not is_string(needle.type) and not isinstance(needle.type, ArrayType):
        raise call.wrong_type(1, "const String or const Array(String)")
    if needle.elements is None:
        raise UserError(
            "ILLEGAL_COLUMN", f"Argument 2 of function {call.name} must be a constant String or Array(String)"
        )
    found = [element.value for element in needle.elements]
    if not all(isinstance(one, str) for one in found):
        raise call.wrong_type(1, "const String or const Array(String)")
    return list(dict.fromkeys(found))


define("hasAnyTokens hasAnyToken", _build_search(False), (2, 3))
define("hasAllTokens hasAllToken", _build_search(True), (2, 3))
