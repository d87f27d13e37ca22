"""Builds skip indexes from the INDEX clauses of a definition, by ClickHouse's rules for each type.

minmax and set store values, so their types must have an order and be groupable. bloom_filter stores hashes of values or
of array elements, ngrambf_v1 and tokenbf_v1 hashes of substrings, and text the substrings themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from parts.common.errors import UserError
from parts.table.table_description import Key, SkipIndex, TableSchema
from parts.types import (
    ArrayType,
    DecimalType,
    FixedStringType,
    MapType,
    StringType,
    TupleType,
    strip_low_cardinality,
    strip_nullable,
)
from sql.definitions.definition_text import render_index_type
from sql.definitions.text_indexes import find_element_type, parse_text_index_arguments
from sql.functions.determinism import is_changing
from sql.grammar.clause_types import IndexClause
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import Function, Identifier, Subquery, walk
from sql.grammar.tokens import not_implemented
from sql.run.block_expressions import compile_key

MAX_FILTER_BYTES = 1 << 24
"""Bytes of one filter. ClickHouse allows 64 times as much."""
_MOST_HASHES = 64
_DEFAULT_FALSE_POSITIVES = 0.025
_OTHER_KINDS = ("vector_similarity", "sparse_grams")


def build_indexes(clauses: Sequence[IndexClause], schema: TableSchema) -> tuple[SkipIndex, ...]:
    """Builds the indexes. Raises ``UserError`` 127, 80, 36, 42, 44, 47, 48."""
    names = [clause.name for clause in clauses]
    for name in names:
        if names.count(name) > 1:
            raise UserError("ILLEGAL_INDEX", f"Duplicated index name {name} is not allowed; use a different index name")
    indexes = tuple(_build_index(clause, schema) for clause in clauses)
    texts = [index.key.expressions[0] for index in indexes if index.kind == "text"]
    for text in texts:
        if texts.count(text) > 1:
            raise UserError("BAD_ARGUMENTS", f"Column `{text}` must not have more than one text index")
    return indexes


def _build_index(clause: IndexClause, schema: TableSchema) -> SkipIndex:
    where = f"when validating secondary index `{clause.name}`"
    _check_expression(clause)
    try:
        key = compile_key(clause.expression, schema.stored)
    except UserError as error:
        raise UserError(error.name, f"{error.message} ({where})") from error
    kind = clause.type.lower()
    check = _KINDS.get(kind)
    if check is None:
        raise _unknown_kind_error(clause, where)
    try:
        arguments = check(clause.arguments, key)
    except UserError as error:
        raise UserError(error.name, f"{error.message}: {where}") from None
    return SkipIndex(
        clause.name, key, kind, arguments, clause.granularity, clause.expression, render_index_type(clause)
    )


def _unknown_kind_error(clause: IndexClause, where: str) -> UserError:
    if clause.type.lower() in _OTHER_KINDS:
        return not_implemented(f"An index of type {clause.type} (the types are: {', '.join(_KINDS)})")
    if clause.type.lower() == "hypothesis":
        return UserError("ILLEGAL_INDEX", f"Index of type 'hypothesis' is no longer supported: {where}")
    known = ", ".join(_KINDS)
    return UserError("INCORRECT_QUERY", f"Unknown Index type '{clause.type}'. Available index types: {known}: {where}")


def _check_expression(clause: IndexClause) -> None:
    nodes = list(walk(parse_expression(clause.expression)))
    if any(isinstance(node, Subquery) for node in nodes):
        raise UserError("BAD_ARGUMENTS", f"Key expressions cannot contain subqueries (index {clause.name})")
    for node in nodes:
        if isinstance(node, Function):
            name = node.name.lower()
            if is_changing(name):
                raise UserError(
                    "BAD_ARGUMENTS",
                    f"Expression must be deterministic but it contains non-deterministic part `{node.name}()`: "
                    f"for secondary index '{clause.name}'",
                )
            if name == "arrayjoin":
                raise UserError("INCORRECT_QUERY", f"Secondary index '{clause.name}' cannot contain array joins")
    if not any(isinstance(node, Identifier) for node in nodes):
        raise UserError("INCORRECT_QUERY", f"Secondary index '{clause.name}' cannot contain constants")


# The types ------------------------------------------------------------------------------------------------------------

Arguments = Sequence[str]


def _minmax(_: Arguments, key: Key) -> tuple[float, ...]:
    """Ignores all arguments, as ClickHouse does."""
    _refuse_nested("minmax", key)
    return ()


def _set(arguments: Arguments, key: Key) -> tuple[float, ...]:
    if len(arguments) != 1:
        raise UserError("INCORRECT_QUERY", "Set index must have exactly one argument")
    if not arguments[0].isdecimal():
        raise UserError("INCORRECT_QUERY", "Set index argument must be positive integer")
    _refuse_nested("set", key)
    return (int(arguments[0]),)


def _bloom_filter(arguments: Arguments, key: Key) -> tuple[float, ...]:
    for type_ in key.types:
        bare = strip_nullable(type_)
        has_null = isinstance(bare, ArrayType) and strip_low_cardinality(bare.inner).is_nullable
        if has_null or isinstance(find_element_type(type_), (MapType, TupleType, ArrayType, DecimalType)):
            raise UserError("ILLEGAL_COLUMN", f"Unexpected type {type_} of bloom filter index")
    if len(arguments) > 1:
        raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", "BloomFilter index cannot have more than one parameter")
    try:
        share = float(arguments[0]) if arguments else _DEFAULT_FALSE_POSITIVES
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UserError("BAD_ARGUMENTS", "The BloomFilter false positive must be a double number between 0 and 1")
    return (share,)


def _ngrams(arguments: Arguments, key: Key) -> tuple[float, ...]:
    return _pieces("ngrambf", 4, arguments, key)


def _tokens(arguments: Arguments, key: Key) -> tuple[float, ...]:
    return _pieces("tokenbf", 3, arguments, key)


def _pieces(kind: str, count: int, arguments: Arguments, key: Key) -> tuple[float, ...]:
    """Returns the n-gram length (ngrambf only), bytes of a filter, number of hashes, seed."""
    if len(arguments) != count:
        raise UserError("BAD_ARGUMENTS", f"`{kind}` index must have exactly {count} arguments")
    if not all(isinstance(find_element_type(type_), (StringType, FixedStringType)) for type_ in key.types):
        raise UserError(
            "BAD_ARGUMENTS",
            "Ngram and token bloom filter indexes can only be used with column types `String`, `FixedString`, "
            "`LowCardinality(String)`, `LowCardinality(FixedString)`, `Array(String)` or `Array(FixedString)`",
        )
    if not all(argument.isdecimal() for argument in arguments):
        raise UserError("BAD_ARGUMENTS", "All parameters to *bf_v1 index must be unsigned integers")
    numbers = tuple(map(int, arguments))
    *length, size, hashes, _ = numbers
    if length and not 0 < length[0] <= 255:
        raise UserError("BAD_ARGUMENTS", "ngram length must be at least 1, and at most 255")
    if not size or size > MAX_FILTER_BYTES:
        raise UserError(
            "BAD_ARGUMENTS", f"The size of bloom filter cannot be zero or more than {MAX_FILTER_BYTES}, not {size}"
        )
    if not hashes or hashes > _MOST_HASHES:
        raise UserError(
            "BAD_ARGUMENTS",
            f"The number of hash functions for bloom filter cannot be zero or more than {_MOST_HASHES}, not {hashes}",
        )
    return numbers


def _refuse_nested(kind: str, key: Key) -> None:
    for type_ in key.types:
        if strip_nullable(type_).is_composite:
            raise not_implemented(f"A {kind} index over values of type {type_}")


_KINDS: dict[str, Callable[[Arguments, Key], tuple[float | str, ...]]] = {
    "minmax": _minmax,
    "set": _set,
    "bloom_filter": _bloom_filter,
    "ngrambf_v1": _ngrams,
    "tokenbf_v1": _tokens,
    "text": parse_text_index_arguments,
}
