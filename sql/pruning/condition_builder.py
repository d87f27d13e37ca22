"""Builds a :class:`~sql.pruning.conditions.Condition` from the filters of a scan.

Names are resolved as the query resolves them (aliases are followed); constants are computed once. Nothing here may
make a condition narrower than the filter: a doubt gives ``Unknown``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from parts.common.errors import PandoError
from parts.table.part_name_columns import NAME_COLUMNS
from parts.table.table_description import Column, TableSchema
from parts.types import (
    DataType,
    FloatType,
    StringType,
    UUIDType,
    strip_nullable,
)
from sql.compile.expressions.literal_lists import MAX_INLINED_LITERALS, list_bounds, list_members
from sql.compile.names.scope import EXPRESSIONS, ExpressionContext, Scope, Source, collect_aliases
from sql.functions.registry import Environment
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import (
    Alias,
    Function,
    Identifier,
    Literal,
    LiteralList,
    Node,
    StarColumn,
    Subquery,
    transform,
    walk,
)
from sql.pruning.computed_conditions import build_computed_condition
from sql.pruning.conditions import (
    Combination,
    Condition,
    Constant,
    ContainsText,
    IndexHint,
    InRange,
    InSet,
    MonotonicFunction,
    Negated,
    Unknown,
)
from sql.pruning.evaluator import Evaluator
from sql.pruning.key_constants import KeyConstants, UnsupportedTermError
from sql.pruning.key_ranges import WantedRange
from sql.pruning.like_patterns import find_like_needles, next_prefix
from sql.pruning.monotonic_functions import find_monotonic_argument
from sql.pruning.tuple_comparisons import split_tuple_comparison

MIRRORED_COMPARISONS = {
    "less": "greater",
    "greater": "less",
    "lessOrEquals": "greaterOrEquals",
    "greaterOrEquals": "lessOrEquals",
}
RANGE_COMPARISONS = frozenset({"equals", "less", "lessOrEquals", "greater", "greaterOrEquals"})
_NEGATED = {"notEquals": "equals", "notIn": "in", "notLike": "like", "globalNotIn": "in"}


@dataclass(frozen=True)
class KeyExpression:
    """One key: its tree over plain column names, and its type."""

    node: Node
    type: DataType


def parse_key_expressions(texts: Sequence[str], types: Sequence[DataType]) -> list[KeyExpression]:
    """Parses the texts of keys; each gets its type."""
    return [KeyExpression(parse_expression(text), type_) for text, type_ in zip(texts, types, strict=True)]


class ConditionBuilder:
    """Builds conditions for one source and one list of keys."""

    def __init__(
        self,
        source: Source,
        schema: TableSchema,
        keys: Sequence[KeyExpression],
        environment: Environment,
        evaluation: Evaluator,
        *,
        are_values: bool = False,
    ) -> None:
        """Creates a builder. ``are_values``: each place has exact key values, not only ranges."""
        self._source = source
        self._schema = schema
        self._keys = keys
        self._environment = environment
        self._evaluation = evaluation
        self._constants = KeyConstants(environment, evaluation)
        self._are_values = are_values

    def build(self, filters: Sequence[tuple[Node, ExpressionContext]]) -> tuple[Condition, bool]:
        """Returns the conjunction of the filters that are understood, and whether it is equivalent to them.

        Each filter comes with the context that it stands in. A filter on a column that can be NULL may be neither true
        nor false, which a condition does not know. Such a condition still shows which rows cannot match, but never
        which must.
        """
        terms = []
        may_be_null = False
        for node, around in filters:
            try:
                normalized = self._normalize(node, around.scope)
                terms.append(self._conjunct(normalized))
            except (UnsupportedTermError, PandoError):
                continue
            may_be_null |= any(self._may_be_null(name) for name in _list_columns(normalized))
        known = [term for term in terms if not isinstance(term, Unknown)]
        is_whole = (
            len(known) == len(filters) and not may_be_null and not any(isinstance(term, IndexHint) for term in known)
        )
        return Combination(tuple(known)) if known else Constant(True), is_whole

    def find_substring_searches(self, filters: Sequence[tuple[Node, ExpressionContext]]) -> list[ContainsText]:
        """Returns the substrings that LIKE filters require in string keys, behind the first wildcard."""
        normalized = [self._normalize(node, around.scope) for node, around in filters]
        found = []
        for node in normalized:
            match node:
                case Function("like", (Identifier() as text, Literal(str() as pattern))):
                    needles = find_like_needles(pattern)
                    found += [
                        ContainsText(number, needles)
                        for number, key in enumerate(self._keys)
                        if needles and key.node == text and isinstance(strip_nullable(key.type), StringType)
                    ]
        return found

    def _may_be_null(self, column: str) -> bool:
        if column in NAME_COLUMNS:
            return False
        return column not in self._schema or self._schema.column(column).type.is_nullable

    # Names ------------------------------------------------------------------------------------------------------------

    def _normalize(self, node: Node, scope: Scope, seen: frozenset[str] = frozenset()) -> Node:
        """Rewrites columns of the source to ``Identifier((name,))`` and other sources' to a marker."""

        def change(part: Node) -> Node:
            if isinstance(part, Alias):
                return part.expression
            if isinstance(part, Identifier):
                return self._resolve_name(part, scope, seen)
            if isinstance(part, (StarColumn, Subquery)):
                return _FOREIGN
            return split_tuple_comparison(part)

        return transform(node, change)

    def _resolve_name(self, node: Identifier, scope: Scope, seen: frozenset[str]) -> Node:
        name = node.parts[0]
        if len(node.parts) == 1 and name in scope.aliases and name not in seen:
            return self._normalize(scope.aliases[name], scope, seen | {name})
        found = scope.find_column(node.parts)
        if found is None or found[0] is not self._source or found[2]:
            return _FOREIGN
        definition = found[1].definition
        if definition is None:
            return _FOREIGN
        if definition.default_kind in EXPRESSIONS:
            tree = parse_expression(definition.default_expression)
            own = Scope([self._source], aliases=collect_aliases([tree]))
            return self._normalize(tree, own, seen | {name})
        return Identifier((found[1].name,))

    # Terms ------------------------------------------------------------------------------------------------------------

    def _conjunct(self, node: Node) -> Condition:
        if isinstance(node, Function) and node.name == "indexHint":
            known = [term for arg in node.args if not isinstance(term := self._term_or_unknown(arg), Unknown)]
            return IndexHint(Combination(tuple(known))) if known else Unknown()
        term = self._term_or_unknown(node)
        if self._are_values and isinstance(term, Unknown):
            keys = [(key.node, key.type) for key in self._keys]
            return build_computed_condition(node, keys, self._schema.names, self._environment.zone, self._evaluation)
        return term

    def _term(self, node: Node) -> Condition:
        if isinstance(node, Literal) and isinstance(node.value, (bool, int)):
            return Constant(bool(node.value))
        if not isinstance(node, Function):
            return Unknown()
        if node.name in ("and", "or"):
            return Combination(tuple(self._term_or_unknown(arg) for arg in node.args), either=node.name == "or")
        if node.name == "not" and len(node.args) == 1:
            return Negated(self._term_or_unknown(node.args[0]))
        if node.name in _NEGATED and len(node.args) == 2:
            return Negated(self._term_or_unknown(replace(node, name=_NEGATED[node.name])))
        return self._atom(node)

    def _atom(self, node: Function) -> Condition:
        """Builds the condition of a term that is neither AND, OR nor a negation."""
        if node.name in ("like", "startsWith") and len(node.args) == 2:
            return self._prefix(node)
        if node.name in ("in", "globalIn") and len(node.args) == 2:
            return self._membership(node)
        if node.name in RANGE_COMPARISONS and len(node.args) == 2:
            return self._comparison(node)
        return Unknown()

    def _term_or_unknown(self, node: Node) -> Condition:
        try:
            return self._term(node)
        except (UnsupportedTermError, PandoError):
            return Unknown()

    def _comparison(self, node: Function) -> Condition:
        left, right = node.args
        name = node.name
        if _is_constant(left):
            left, right, name = right, left, MIRRORED_COMPARISONS.get(name, name)
        if not _is_constant(right) or _is_constant(left):
            return Unknown()
        terms: list[Condition] = []
        for number, key in enumerate(self._keys):
            term = self._against_key(number, key, left, right, name)
            if term is not None:
                terms.append(term)
        return Combination(tuple(terms)) if terms else Unknown()

    def _against_key(self, number: int, key: KeyExpression, left: Node, right: Node, name: str) -> Condition | None:
        if name != "equals" and isinstance(strip_nullable(key.type), UUIDType):
            return None  # keys are sorted by bytes, but ``<`` compares the second half first
        if left == key.node:
            value = self._constants.value(right, key.type)
            return build_range_condition(number, name, value, exact=not isinstance(strip_nullable(key.type), FloatType))
        column = _column_name(left)
        if column is not None and column in _list_columns(key.node):
            return self._through_key(number, key, column, right, name)
        inner = find_monotonic_argument(left, key.node, self._schema, self._environment.zone)
        if inner is not None:
            change, type_ = self._compile_key_function(left, key)
            return build_range_condition(number, name, self._constants.value(right, type_), change=change, exact=False)
        return None

    def _through_key(self, number: int, key: KeyExpression, column: str, right: Node, name: str) -> Condition | None:
        """Builds a term where the key is a function of the column: applies it to the constant."""
        if len(_list_columns(key.node)) != 1:
            return None
        type_ = self._schema.column(column).type
        growing = (
            find_monotonic_argument(key.node, Identifier((column,)), self._schema, self._environment.zone) is not None
        )
        if not growing and name != "equals":
            return None
        value = self._constants.value(right, type_)
        mapped = self._map_value(key, column, value, type_)
        loose = {"less": "lessOrEquals", "greater": "greaterOrEquals"}.get(name, name)
        return build_range_condition(number, loose, mapped, exact=False)

    def _prefix(self, node: Function) -> Condition:
        pattern = node.args[1]
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            return Unknown()
        text = pattern.value
        exact = True
        if node.name == "like":
            end = next((position for position, char in enumerate(text) if char in "%_\\"), len(text))
            exact = text[end:] == "%"
            if end == len(text):
                return self._term_or_unknown(Function("equals", node.args))
            text = text[:end]
        upper = next_prefix(text)
        for number, key in enumerate(self._keys):
            if node.args[0] == key.node and isinstance(strip_nullable(key.type), StringType) and text:
                high = None if upper is None else pa.scalar(upper, pa.string())
                return InRange(number, WantedRange(pa.scalar(text, pa.string()), high, True, False), exact=exact)
        return Unknown()

    def _membership(self, node: Function) -> Condition:
        left, right = node.args
        if isinstance(right, LiteralList) and right.is_of_tuples:
            return self._listed_tuples(left, right)
        if isinstance(right, LiteralList):
            if len(right.values) > MAX_INLINED_LITERALS:
                least, greatest = list_bounds(right)
                within = (Function("greaterOrEquals", (left, least)), Function("lessOrEquals", (left, greatest)))
                return Combination((*map(self._term_or_unknown, within), Unknown()))
            right = Function("tuple", list_members(right))
        if not isinstance(right, Function) or right.name not in ("tuple", "array"):
            right = Function("tuple", self._constants.members(right))
        listed = tuple([member for member in right.args if not isinstance(member, Literal) or member.value is not None])
        if isinstance(left, Function) and left.name == "tuple":
            return self._tuple_set(left, listed)
        if not listed or not all(_is_constant(member) for member in listed):
            return Unknown()
        terms: list[Condition] = []
        for number, key in enumerate(self._keys):
            term = self._set_of_key(number, key, left, listed)
            if term is not None:
                terms.append(term)
        return Combination(tuple(terms)) if terms else Unknown()

    def _listed_tuples(self, left: Node, right: LiteralList) -> Condition:
        """Builds the same term as :meth:`_tuple_set`, from a :class:`LiteralList`."""
        columns = right.values.flatten()
        if not isinstance(left, Function) or left.name != "tuple" or len(left.args) != len(columns):
            return Unknown()
        parts = zip(left.args, columns, strict=True)
        return Combination(
            (*(self._term_or_unknown(Function("in", (part, LiteralList(column)))) for part, column in parts), Unknown())
        )

    def _set_of_key(self, number: int, key: KeyExpression, left: Node, members: Sequence[Node]) -> Condition | None:
        column = _column_name(left)
        if left == key.node:
            return InSet(number, tuple(self._constants.value(member, key.type) for member in members), exact=True)
        if column is not None and _list_columns(key.node) == {column}:
            type_ = self._schema.column(column).type
            values = [self._map_value(key, column, self._constants.value(member, type_), type_) for member in members]
            return InSet(number, tuple(values))
        if find_monotonic_argument(left, key.node, self._schema, self._environment.zone) is not None:
            change, type_ = self._compile_key_function(left, key)
            values = [self._constants.value(member, type_) for member in members]
            return InSet(number, tuple(values), change, exact=True)
        return None

    def _tuple_set(self, left: Function, members: Sequence[Node]) -> Condition:
        """Builds a term for ``(a, b) IN ((1, 2), …)``: a in {1, …} and b in {2, …}; it can always be false."""
        rows = []
        for member in members:
            if not isinstance(member, Function) or member.name != "tuple" or len(member.args) != len(left.args):
                return Unknown()
            rows.append(member.args)
        terms = [
            self._term_or_unknown(Function("in", (part, Function("tuple", tuple(row[position] for row in rows)))))
            for position, part in enumerate(left.args)
        ]
        return Combination((*terms, Unknown()))

    # Values -----------------------------------------------------------------------------------------------------------

    def _compile_key_function(self, node: Node, key: KeyExpression) -> tuple[MonotonicFunction, DataType]:
        """Returns the function from the key's values to the compared expression's, and its type."""
        schema = TableSchema((Column("k", strip_nullable(key.type)),))
        tree = transform(node, lambda part: Identifier(("k",)) if part == key.node else part)
        compiled = self._evaluation.expression(tree, schema, self._environment.zone)

        def change(values: pa.Array) -> pa.Array:
            known = (
                values.fill_null(pa.scalar(strip_nullable(key.type).default, values.type))
                if values.null_count
                else values
            )
            return compiled.evaluate(pa.table({"k": known})).combine_chunks()

        return change, compiled.type

    def _map_value(self, key: KeyExpression, column: str, value: pa.Scalar, type_: DataType) -> pa.Scalar:
        schema = TableSchema((Column(column, strip_nullable(type_)),))
        compiled = self._evaluation.expression(key.node, schema, self._environment.zone)
        block = pa.table({column: pa.repeat(value, 1)})
        result = compiled.evaluate(block).combine_chunks()
        if pa.types.is_dictionary(result.type):
            result = result.dictionary_decode()
        return result[0]


_FOREIGN = Literal("\0of another table")


def _is_constant(node: Node) -> bool:
    return not any(isinstance(part, (Identifier, Subquery)) or part is _FOREIGN for part in walk(node)) and not any(
        isinstance(part, Function) and part.name.lower().startswith(("rand", "generate")) for part in walk(node)
    )


def _list_columns(node: Node) -> set[str]:
    return {part.parts[0] for part in walk(node) if isinstance(part, Identifier)}


def _column_name(node: Node) -> str | None:
    return node.parts[0] if isinstance(node, Identifier) else None


def build_range_condition(
    number: int, name: str, value: pa.Scalar, *, change: MonotonicFunction | None = None, exact: bool = True
) -> Condition:
    """Builds a comparison of key ``number`` by ``name`` (of ``RANGE_COMPARISONS``) with a constant."""
    wanted = {
        "equals": WantedRange(value, value),
        "less": WantedRange(None, value, high_closed=False),
        "lessOrEquals": WantedRange(None, value),
        "greater": WantedRange(value, None, low_closed=False),
        "greaterOrEquals": WantedRange(value, None),
    }[name]
    return InRange(number, wanted, change, exact)
