"""The skip indexes of a table in a query: what the filters ask of each, and which granules of a part that leaves.

An index whose condition says nothing is not used; neither is one that a part does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.errors import PandoError, UserError
from parts.reader import Part
from parts.schema import Column, SkipIndex, TableDescription, TableSchema
from parts.skip_indexes.extremes import Values, extremes_of
from parts.skip_indexes.filters import Filters
from parts.skip_indexes.value_sets import KnownSets
from parts.types import BoolType, FloatType, IntegerType, strip_nullable
from parts.value_file import plain_type
from sql.compile.compiled_query import Scan
from sql.functions.registry import Environment
from sql.grammar.syntax_tree import Function, Identifier, Node, transform, walk
from sql.grammar.tokens import TokenStream
from sql.pruning.builder import ConditionBuilder, key_expressions
from sql.pruning.condition import Condition, Facts, Unknown
from sql.pruning.evaluation import BlockExpression, Evaluation
from sql.pruning.filter_terms import FilterTerms
from sql.pruning.pruned_part import PrunedPart, within
from sql.pruning.ranges import Bounds, Mask, closed, point
from sql.settings.session import Settings


@dataclass(frozen=True)
class SkipTest:
    """What is asked of an index."""

    index: SkipIndex
    condition: Condition

    def granules(self, part: Part) -> Mask | None:
        """The granules of a part that can match; ``None``: the part does not have the index."""
        values = part.skip_index(self.index)
        if values is None:
            return None
        runs = -(-part.marks // self.index.granularity)
        mask = self._runs(values, runs)
        return np.repeat(mask, self.index.granularity)[: part.marks] if self.index.granularity > 1 else mask

    def prune(self, pruned: PrunedPart) -> PrunedPart | None:
        """What is left of it. Where every row is known to match nothing is asked."""
        if pruned.is_whole and not pruned.uncertain_ranges:
            return pruned
        mask = self.granules(pruned.part)
        if mask is None or mask.all():
            return pruned
        return within(pruned, mask)

    def _runs(self, values: Values, runs: int) -> Mask:
        keys = range(len(self.index.key.types))
        if self.index.kind == "minmax":
            bounds = {number: closed(*extremes_of(values, number)) for number in keys}
            return self.condition.evaluate(bounds, runs)[0]
        if self.index.kind == "set":
            known = KnownSets.of(values)
            points: Mapping[int, Facts] = {number: point(known.keys[number]) for number in keys}
            return known.any(self.condition.evaluate(points, len(known.keys[0]))[0])
        return self.condition.evaluate(dict.fromkeys(keys, Filters.of(self.index, values)), runs)[0]


def skip_tests(
    scan: Scan, description: TableDescription, environment: Environment, evaluation: Evaluation
) -> tuple[SkipTest, ...]:
    """Those that say something, the cheapest first. Raises 277 (INDEX_NOT_USED), 6 for a setting that is no list."""
    tests = []
    for index in usable_indexes(description, environment.settings):
        builder = _builder(index, scan, description, environment, evaluation)
        condition, _ = builder.build(scan.conditions)
        if condition.used and condition.tells():
            tests.append(SkipTest(index, condition))
    _check_forced([test.index.name for test in tests], scan, environment.settings)
    return in_order(tests)


def in_order(tests: Sequence[SkipTest]) -> tuple[SkipTest, ...]:
    return tuple(sorted(tests, key=lambda test: test.index.kind != "minmax"))


def usable_indexes(description: TableDescription, settings: Settings) -> list[SkipIndex]:
    if not description.indexes:
        return []
    ignored = _names("ignore_data_skipping_indices", settings.ignore_data_skipping_indices, settings)
    if not settings.use_skip_indexes:
        return []
    return [index for index in description.indexes if index.name not in ignored]


def _check_forced(used: Sequence[str], scan: Scan, settings: Settings) -> None:
    if not settings.use_skip_indexes or not (scan.conditions or scan.source.used):
        return  # what is only counted is not read
    for name in _names("force_data_skipping_indices", settings.force_data_skipping_indices, settings):
        if name not in used:
            raise UserError(
                "INDEX_NOT_USED",
                f"Index `{name}` is not used and setting 'force_data_skipping_indices' contains it; used are: "
                f"{', '.join(used) or 'none'}",
            )


def _names(setting: str, text: str, settings: Settings) -> list[str]:
    if not text:
        if setting in settings.changes:
            raise UserError("CANNOT_PARSE_TEXT", f"Cannot parse string ('') of {setting} into names of indexes")
        return []
    stream = TokenStream(text)
    names = []
    while not stream.at_end():
        if stream.accept(","):
            continue
        if not stream.peek().is_identifier:
            raise UserError("CANNOT_PARSE_TEXT", f"Cannot parse string ({text!r}) of {setting} into names of indexes")
        names.append(stream.next().value)
    return names


def _builder(
    index: SkipIndex, scan: Scan, description: TableDescription, environment: Environment, evaluation: Evaluation
) -> ConditionBuilder:
    if index.kind in ("minmax", "set"):
        keys = key_expressions(index.key.expressions, index.key.types)
        kind = SetTerms if index.kind == "set" else ConditionBuilder
        return kind(scan.source, description.schema, keys, environment, evaluation)
    return FilterTerms(index, scan.source, description.schema, environment, evaluation)


# Sets -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Computed(Condition):
    """An expression over the keys, computed of every one that is there."""

    keys: tuple[int, ...]
    names: tuple[str, ...]
    """What they are called in the expression."""
    expression: BlockExpression

    def evaluate(self, keys: Mapping[int, Facts], size: int) -> tuple[Mask, Mask]:
        arrays = {number: keys.get(number) for number in self.keys}
        if not all(isinstance(known, Bounds) and known.is_point for known in arrays.values()):
            return np.ones(size, bool), np.ones(size, bool)
        columns = [known.low for known in arrays.values() if isinstance(known, Bounds)]
        block = pa.Table.from_arrays(columns, list(self.names))
        try:
            values = self.expression.evaluate(block).combine_chunks()
        except PandoError:  # a row that is not read may be one that it fails for
            return np.ones(size, bool), np.ones(size, bool)
        is_true = values if pa.types.is_boolean(values.type) else pc.not_equal(values, pa.scalar(0, values.type))
        true, false = (one.fill_null(False).to_numpy(zero_copy_only=False) for one in (is_true, pc.invert(is_true)))
        return true, false

    @property
    def used(self) -> frozenset[int]:
        return frozenset(self.keys)


class SetTerms(ConditionBuilder):
    """Of a set the keys themselves are known: what is not a comparison is computed of them, and what may meet NULL, of
    which a comparison says nothing."""

    def _atom(self, node: Function) -> Condition:
        found = super()._atom(node)
        if isinstance(found, Unknown) or any(key.type.is_nullable for key in self._keys):
            computed = self._computed(node)
            return found if isinstance(computed, Unknown) else computed
        return found

    def _computed(self, node: Node) -> Condition:
        prefix = "k"
        while any(name.startswith(prefix) for name in self._schema.names):
            prefix += "k"
        numbers = {key.node: number for number, key in enumerate(self._keys)}

        def change(part: Node) -> Node:
            number = numbers.get(part) if isinstance(part, (Function, Identifier)) else None
            return part if number is None else Identifier((f"{prefix}{number}",))

        tree = transform(node, change)
        named = {part.parts[0] for part in walk(tree) if isinstance(part, Identifier)}
        used = tuple(number for number in numbers.values() if f"{prefix}{number}" in named)
        names = tuple(f"{prefix}{number}" for number in used)
        if not used or named.difference(names):
            return Unknown()
        columns = [Column(name, plain_type(self._keys[number].type)) for number, name in zip(used, names, strict=True)]
        expression = self._evaluation.expression(tree, TableSchema(tuple(columns)), self._environment.zone)
        if not isinstance(strip_nullable(expression.type), (BoolType, IntegerType, FloatType)):
            return Unknown()
        return Computed(used, names, expression)
