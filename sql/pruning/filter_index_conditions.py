"""Conditions for filter indexes: values or substrings that a run of granules must contain.

A term is understood when it can be true only of rows whose key has certain values or substrings. Such terms are ``=``,
IN, ``has…`` of an array and the value of a map. Of strings they are LIKE, ``startsWith``, ``endsWith``, ``hasToken``
and ``multiSearchAny``. That all of them are there never proves the term true.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from parts.skip_indexes.bloom_filters import StoredFilters, hash_for_index
from parts.skip_indexes.text_index import StoredPostings
from parts.skip_indexes.tokenizers import tokenize_array
from parts.table.table_description import SkipIndex, TableSchema
from parts.types import (
    ArrayType,
    DataType,
    FixedStringType,
    IPv4Type,
    IPv6Type,
    MapType,
    StringType,
    UUIDType,
    strip_nullable,
)
from sql.compile.expressions.literal_lists import list_members
from sql.compile.names.scope import Source
from sql.functions.registry import Environment
from sql.grammar.syntax_tree import Function, Identifier, Literal, LiteralList, Node
from sql.pruning.condition_builder import ConditionBuilder, KeyExpression, parse_key_expressions
from sql.pruning.conditions import Condition, KeyFacts, Unknown
from sql.pruning.evaluator import Evaluator
from sql.pruning.key_constants import UnsupportedTermError
from sql.pruning.key_ranges import Mask

Piece = tuple[str, bool, bool]
"""A substring, and whether the text that contains it may go on to its left and to its right."""
Group = tuple[Any, ...]
"""Hashes, or for a text index tokens, that must all be present."""
_MOST_GROUPS = 1024
_IN_WORD = re.compile(r"[A-Za-z0-9]|[^\x00-\x7f]")
_WORDS = re.compile(r"(?:[A-Za-z0-9]|[^\x00-\x7f])+")
_CAST_TYPES = (UUIDType, IPv4Type, IPv6Type)
_ARRAY_SEARCHES = frozenset({"has", "hasAny", "hasAll"})
_TEXT_SEARCHES = frozenset({"like", "startsWith", "endsWith", "hasToken", "multiSearchAny"})
_MAP_SEARCHES = {"mapContains": "mapKeys", "mapContainsKey": "mapKeys", "mapContainsValue": "mapValues"}


@dataclass(frozen=True)
class ContainsAnyGroup(Condition):
    """All hashes, or tokens, of at least one group are present."""

    key: int
    groups: tuple[Group, ...]

    def evaluate(self, keys: Mapping[int, KeyFacts], size: int) -> tuple[Mask, Mask]:
        filters = keys.get(self.key)
        if not isinstance(filters, (StoredFilters, StoredPostings)):
            return np.ones(size, bool), np.ones(size, bool)
        found = np.zeros(size, bool)
        for group in self.groups:
            there = np.ones(size, bool)
            for one in group:
                there &= filters.may_contain(one)
            found |= there
        return found, np.ones(size, bool)

    def can_exclude(self, *, negated: bool = False) -> bool:
        return not negated and all(self.groups)

    @property
    def key_numbers(self) -> frozenset[int]:
        return frozenset((self.key,))


def build_membership_condition(index: SkipIndex, number: int, values: Sequence[pa.Scalar]) -> Condition:
    """Builds the condition that key ``number`` is one of the values."""
    groups = [_make_group(index, pa.array([value], value.type)) for value in values]
    return _require_any_group(number, groups)


def _require_any_group(number: int, groups: Sequence[Group]) -> Condition:
    """Builds the condition that one group is present.

    An empty group, such as of a string too short for an n-gram, may be anywhere.
    """
    return ContainsAnyGroup(number, tuple(groups)) if len(groups) <= _MOST_GROUPS else Unknown()


def _make_group(index: SkipIndex, array: pa.Array) -> Group:
    if index.kind == "text":
        return tuple(dict.fromkeys(tokenize_array(index.arguments, array)))
    return tuple(dict.fromkeys(hash_for_index(index, array).numbers.tolist()))


class FilterConditionBuilder(ConditionBuilder):
    """Builds conditions for one index that stores filters (bloom filter, n-grams, tokens, text)."""

    def __init__(
        self,
        index: SkipIndex,
        source: Source,
        schema: TableSchema,
        environment: Environment,
        evaluation: Evaluator,
    ) -> None:
        keys = parse_key_expressions(index.key.expressions, index.key.types)
        super().__init__(source, schema, keys, environment, evaluation)
        self._index = index
        self._has_texts = index.kind != "bloom_filter"
        self._has_words = index.kind == "tokenbf_v1" or index.arguments == ("splitByNonAlpha",)

    def _atom(self, node: Function) -> Condition:
        if node.name in _MAP_SEARCHES and len(node.args) == 2:
            of_map = Function(_MAP_SEARCHES[node.name], (node.args[0],))
            node = Function("has", (of_map, node.args[1]))
        if len(node.args) == 2 and (node.name in _ARRAY_SEARCHES or (self._has_texts and node.name in _TEXT_SEARCHES)):
            for number, key in enumerate(self._keys):
                if node.args[0] == key.node:
                    return self._search(number, key, node.name, node.args[1])
            return Unknown()
        return super()._atom(node)

    # The terms of any condition

    def _against_key(self, number: int, key: KeyExpression, left: Node, right: Node, name: str) -> Condition | None:
        return self._match_any(number, key, left, (right,)) if name == "equals" else None

    def _set_of_key(self, number: int, key: KeyExpression, left: Node, members: Sequence[Node]) -> Condition | None:
        return self._match_any(number, key, left, members)

    def _prefix(self, node: Function) -> Condition:
        return Unknown()

    def _match_any(self, number: int, key: KeyExpression, left: Node, values: Sequence[Node]) -> Condition | None:
        if len(values) > _MOST_GROUPS:
            return None
        if left == key.node:
            if isinstance(strip_nullable(key.type), ArrayType):
                return _require_any_group(number, [self._hash_array(key, value) for value in values])
            return _require_any_group(number, [self._hash_value(key.type, value) for value in values])
        match left:
            case Function("arrayElement", (container, place)):
                return self._match_element(number, key, container, place, values)
        return None

    def _match_element(
        self, number: int, key: KeyExpression, container: Node, place: Node, values: Sequence[Node]
    ) -> Condition | None:
        """Builds a term for ``array[i]`` or ``map[k]``, which is the default where the element is missing."""
        type_ = strip_nullable(key.type)
        if not isinstance(type_, ArrayType):
            return None
        of_values = Function("mapValues", (container,))
        if key.node in (container, of_values):
            groups = []
            for value in values:
                scalar = self._value(value, type_.inner)
                if scalar == _default_scalar(type_.inner):
                    return Unknown()
                groups.append(_make_group(self._index, pa.array([scalar], scalar.type)))
            return _require_any_group(number, groups)
        if key.node == Function("mapKeys", (container,)) and isinstance(container, Identifier):
            of_map = strip_nullable(self._schema.column(container.parts[0]).type)
            if isinstance(of_map, MapType) and all(
                self._value(value, of_map.value) != _default_scalar(of_map.value) for value in values
            ):
                return _require_any_group(number, [self._hash_value(type_.inner, place)])
        return None

    # Searches in arrays and in texts

    def _search(self, number: int, key: KeyExpression, name: str, wanted: Node) -> Condition:
        type_ = strip_nullable(key.type)
        if name in _ARRAY_SEARCHES:
            if not isinstance(type_, ArrayType):
                return Unknown()
            if name == "has":
                return _require_any_group(number, [self._hash_value(type_.inner, wanted)])
            groups = [self._hash_value(type_.inner, value) for value in list_elements(wanted)]
            if name == "hasAny":
                return _require_any_group(number, groups) if groups else Unknown()
            return _require_any_group(number, [tuple(dict.fromkeys(one for group in groups for one in group))])
        if not isinstance(type_, StringType) and not (
            isinstance(type_, FixedStringType) and self._index.kind != "text"
        ):
            return Unknown()
        if name == "multiSearchAny":
            texts = [read_string_literal(value) for value in list_elements(wanted)]
            return (
                _require_any_group(number, [self._hash_pieces([(text, True, True)]) for text in texts])
                if texts
                else Unknown()
            )
        return _require_any_group(number, [self._hash_pieces(find_required_pieces(name, read_string_literal(wanted)))])

    def _hash_pieces(self, pieces: Sequence[Piece]) -> Group:
        """Returns the hashes of substrings of the key.

        A word at an open end may be part of a longer word, so it is left out.
        """
        texts = []
        for text, is_open_left, is_open_right in pieces:
            if self._has_words:
                words = [
                    word.group()
                    for word in _WORDS.finditer(text)
                    if not (is_open_left and word.start() == 0) and not (is_open_right and word.end() == len(text))
                ]
                texts += words
            else:
                texts.append(text)
        return _make_group(self._index, pa.array(texts, pa.string()))

    # Values

    def _hash_array(self, key: KeyExpression, node: Node) -> Group:
        type_ = strip_nullable(key.type)
        assert isinstance(type_, ArrayType)
        groups = [self._hash_value(type_.inner, value) for value in list_elements(node)]
        return tuple(dict.fromkeys(one for group in groups for one in group))

    def _hash_value(self, type_: DataType, node: Node) -> Group:
        value = self._value(node, type_)
        return _make_group(self._index, pa.array([value], value.type))

    def _value(self, node: Node, type_: DataType) -> pa.Scalar:
        bare = strip_nullable(type_)
        if isinstance(bare, _CAST_TYPES) and isinstance(node, Literal) and isinstance(node.value, str):
            cast = Function("CAST", (node, Literal(bare.name)))
            compiled = self._evaluation.expression(cast, TableSchema(()), self._environment.zone)
            return compiled.evaluate(pa.table({"_row": pa.nulls(1, pa.uint8())}))[0]
        if isinstance(bare, FixedStringType) and self._index.kind != "text":
            text = read_string_literal(node).encode()
            if len(text) > bare.length:
                raise UnsupportedTermError
            return pa.scalar(text.ljust(bare.length, b"\0"), bare.arrow)
        return self._constants.value(node, bare)


def _default_scalar(type_: DataType) -> pa.Scalar:
    bare = strip_nullable(type_)
    return pa.scalar(bare.default, bare.arrow)


def list_elements(node: Node) -> Sequence[Node]:
    """Returns the elements of a literal array or tuple. Raises ``UnsupportedTermError`` for anything else."""
    if isinstance(node, LiteralList) and not node.is_of_tuples and len(node.values) <= _MOST_GROUPS:
        return list_members(node)
    if isinstance(node, Function) and node.name in ("array", "tuple"):
        return node.args
    raise UnsupportedTermError


def read_string_literal(node: Node) -> str:
    """Returns the value of a string literal. Raises ``UnsupportedTermError`` for anything else."""
    if isinstance(node, Literal) and isinstance(node.value, str):
        return node.value
    raise UnsupportedTermError


def find_required_pieces(name: str, text: str) -> list[Piece]:
    """Returns the substrings that every match of the search contains.

    Each says whether the matched text may go on to its left and to its right.
    """
    if name == "startsWith":
        return [(text, False, True)]
    if name == "endsWith":
        return [(text, True, False)]
    if name == "hasToken":
        return [(text, False, False)]
    runs = re.split(r"((?:[^%_\\]|\\.)+)", text, flags=re.DOTALL)
    last = len(runs) - 1
    found = []
    for place in range(1, last, 2):
        is_open_left, is_open_right = bool(runs[place - 1]), bool(runs[place + 1])
        found.append((_unescape_pattern(runs[place]), is_open_left, is_open_right))
    return found


def _unescape_pattern(run: str) -> str:
    r"""Resolves ``\%``, ``\_`` and double backslashes in a LIKE pattern.

    Raises ``UnsupportedTermError`` for a backslash before any other character.
    """
    if re.search(r"\\[^%_\\]", run):
        raise UnsupportedTermError
    return re.sub(r"\\(.)", r"\1", run)
