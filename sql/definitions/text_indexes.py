"""Parses the arguments of an index of type ``text``: its tokenizer, and layout options.

ClickHouse's layout options are accepted and have no effect.
"""

from __future__ import annotations

from collections.abc import Sequence

from parts.common.errors import UserError
from parts.table.table_description import Key
from parts.types import ArrayType, DataType, FixedStringType, StringType, strip_nullable
from sql.functions.strings.tokenizers import Arguments, parse_tokenizer
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import Function, Identifier, Literal, Node
from sql.grammar.tokens import not_implemented

_LAYOUT = frozenset(
    {"dictionary_block_size", "dictionary_block_frontcoding_compression", "posting_list_block_size",
     "posting_list_codec"}
)  # fmt: skip


def parse_text_index_arguments(texts: Sequence[str], key: Key) -> Arguments:
    """Returns the tokenizer with its own arguments. Raises ``UserError`` 7, 36, 48, 344."""
    given: dict[str, Node] = {}
    for text in texts:
        match parse_expression(text):
            case Function("equals", (Identifier((name,)), value)):
                given[name] = value
            case _:
                raise UserError(
                    "BAD_ARGUMENTS", "Cannot mix key-value pair and single argument as text index arguments"
                )
    tokenizer = given.pop("tokenizer", None)
    if tokenizer is None:
        raise UserError("BAD_ARGUMENTS", "Text index argument 'tokenizer' is required")
    arguments = parse_tokenizer(tokenizer)
    if "preprocessor" in given:
        raise not_implemented("A preprocessor of a text index (index the expression itself, such as lower(s))")
    if given.pop("support_phrase_search", None) is not None:
        raise UserError("SUPPORT_IS_DISABLED", "Text index argument 'support_phrase_search' is experimental")
    if unknown := given.keys() - _LAYOUT:
        raise UserError("BAD_ARGUMENTS", f"Unexpected text index arguments: {', '.join(sorted(unknown))}")
    for name, value in given.items():
        if isinstance(value, Literal) and value.value == 0 and name.endswith("_size"):
            raise UserError("BAD_ARGUMENTS", f"Text index argument '{name}' must be greater than 0, but got 0")
    if len(key.types) != 1:
        raise UserError("INCORRECT_NUMBER_OF_COLUMNS", "Text index must be created on a single column")
    if not isinstance(find_element_type(key.types[0]), (StringType, FixedStringType)):
        raise UserError(
            "BAD_ARGUMENTS",
            "Text index must be created on columns of type with base type of String or FixedString, "
            f"got: {key.types[0]}",
        )
    return arguments


def find_element_type(type_: DataType) -> DataType:
    """Returns the type without Nullable and LowCardinality; for an array its elements'."""
    bare = strip_nullable(type_)
    return strip_nullable(bare.inner) if isinstance(bare, ArrayType) else bare
