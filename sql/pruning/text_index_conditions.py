"""Conditions for text indexes: tokens that must be present, or tokens that match a pattern."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.skip_indexes.text_index import StoredPostings
from parts.skip_indexes.tokenizers import tokenize_string
from parts.types import ArrayType
from sql.functions.strings.tokenizers import parse_tokenizer
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import Function, Literal, Node
from sql.pruning.condition_builder import KeyExpression
from sql.pruning.conditions import Condition, KeyFacts, Unknown
from sql.pruning.filter_index_conditions import (
    ContainsAnyGroup,
    FilterConditionBuilder,
    Piece,
    find_required_pieces,
    list_elements,
    read_string_literal,
    strip_nullable,
)
from sql.pruning.key_constants import UnsupportedTermError
from sql.pruning.key_ranges import Mask

_WORD = re.compile(r"[A-Za-z0-9]+")
_SHORTEST_SEARCH = 4
"""Shorter patterns match too many tokens (ClickHouse's ``text_index_like_min_pattern_length``)."""
_TOKEN_SEARCHES = {"hasAnyTokens": any, "hasAnyToken": any, "hasAllTokens": all, "hasAllToken": all}
_SEARCHES = {
    "splitByNonAlpha": frozenset({"like", "startsWith", "endsWith", "hasToken"}),
    "ngrams": frozenset({"like", "startsWith", "endsWith", "multiSearchAny"}),
    "array": frozenset({"like", "startsWith", "endsWith"}),
    "splitByString": frozenset[str](),
}
"""The searches for which ClickHouse uses an index with each tokenizer."""


@dataclass(frozen=True)
class TokenMatches(Condition):
    """One token contains all the pieces; a piece that is not open at an end stands there."""

    key: int
    pieces: tuple[Piece, ...]

    def evaluate(self, keys: Mapping[int, KeyFacts], size: int) -> tuple[Mask, Mask]:
        postings = keys.get(self.key)
        everywhere = np.ones(size, bool)
        return (
            postings.may_match(self._match_tokens) if isinstance(postings, StoredPostings) else everywhere
        ), everywhere

    def can_exclude(self, *, negated: bool = False) -> bool:
        return not negated

    @property
    def key_numbers(self) -> frozenset[int]:
        return frozenset((self.key,))

    def _match_tokens(self, tokens: pa.Array) -> pa.Array:
        found = pa.scalar(True)
        for text, is_open_left, is_open_right in self.pieces:
            found = pc.and_(found, pc.match_substring(tokens, text))
            if not is_open_left:
                found = pc.and_(found, pc.starts_with(tokens, text))
            if not is_open_right:
                found = pc.and_(found, pc.ends_with(tokens, text))
        return found


class TextConditionBuilder(FilterConditionBuilder):
    """Builds conditions for one text index."""

    def _atom(self, node: Function) -> Condition:
        if node.name in _TOKEN_SEARCHES and len(node.args) in (2, 3):
            for number, key in enumerate(self._keys):
                if node.args[0] == key.node:
                    return self._search_tokens(number, node)
            return Unknown()
        return super()._atom(node)

    def _search_tokens(self, number: int, node: Function) -> Condition:
        tokenizer = read_tokenizer(node.args[2]) if len(node.args) == 3 else ("splitByNonAlpha",)
        if tokenizer != self._index.arguments:
            return Unknown()
        wanted = node.args[1]
        if isinstance(wanted, Literal) and isinstance(wanted.value, str):
            tokens = tokenize_string(self._index.arguments, wanted.value)
        else:
            tokens = [read_string_literal(one).encode() for one in list_elements(wanted)]
        if _TOKEN_SEARCHES[node.name] is any or not tokens:
            return ContainsAnyGroup(number, tuple((token,) for token in tokens))
        return ContainsAnyGroup(number, (tuple(tokens),))

    def _search(self, number: int, key: KeyExpression, name: str, wanted: Node) -> Condition:
        if isinstance(strip_nullable(key.type), ArrayType):
            return super()._search(number, key, name, wanted)
        tokenizer = self._index.arguments[0]
        if name not in _SEARCHES[str(tokenizer)]:
            return Unknown()
        if name in ("hasToken", "multiSearchAny") or tokenizer == "ngrams":
            return super()._search(number, key, name, wanted)
        pieces = find_required_pieces(name, read_string_literal(wanted))
        is_one_token = tokenizer == "array" or (len(pieces) == 1 and _WORD.fullmatch(pieces[0][0]) is not None)
        is_open = tokenizer == "array" or any(left or right for _, left, right in pieces)
        if not (is_one_token and is_open):
            return super()._search(number, key, name, wanted)
        if sum(len(text) for text, _, _ in pieces) < _SHORTEST_SEARCH:
            return Unknown()
        return TokenMatches(number, tuple(pieces))


def read_tokenizer(node: Node) -> Sequence[float | str]:
    """Parses the tokenizer in the last argument of ``hasAllTokens`` and its like, a string."""
    if isinstance(node, Literal) and isinstance(node.value, str):
        return parse_tokenizer(parse_expression(node.value))
    raise UnsupportedTermError
