"""The skip indexes of a table in a query: what the filters ask of each, and which granules of a part that leaves.

An index whose condition says nothing is not used; neither is one that a part does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parts.common.errors import UserError
from parts.read.part_reader import Part
from parts.skip_indexes.bloom_filters import Filters
from parts.skip_indexes.minmax_index import Values, extremes_of
from parts.skip_indexes.set_index import KnownSets
from parts.skip_indexes.text_index import Postings
from parts.table.table_description import SkipIndex, TableDescription
from sql.compile.compiled_query import Scan
from sql.functions.registry import Environment
from sql.grammar.syntax_tree import Function
from sql.grammar.tokens import TokenStream
from sql.pruning.computed_conditions import computed
from sql.pruning.condition_builder import ConditionBuilder, key_expressions
from sql.pruning.conditions import Condition, Facts, Unknown
from sql.pruning.evaluator import Evaluation
from sql.pruning.filter_index_conditions import FilterTerms
from sql.pruning.key_ranges import Mask, closed, point
from sql.pruning.pruned_parts import PrunedPart, within
from sql.pruning.text_index_conditions import TextTerms
from sql.settings.supported_settings import (
    Settings,
)


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
        if self.index.kind == "text":
            return self.condition.evaluate({0: Postings(values, part.marks)}, part.marks)[0]
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
    tests, used = [], []
    for index in usable_indexes(description, environment.settings):
        builder = _builder(index, scan, description, environment, evaluation)
        condition, _ = builder.build(scan.conditions)
        if condition.used and condition.tells():
            tests.append(SkipTest(index, condition))
        # ClickHouse takes pieces of texts for used even where they can rule nothing out.
        if condition.used and (condition.tells() or index.kind in ("ngrambf_v1", "tokenbf_v1")):
            used.append(index.name)
    _check_forced(used, scan, environment.settings)
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
    kind_of_terms = TextTerms if index.kind == "text" else FilterTerms
    return kind_of_terms(index, scan.source, description.schema, environment, evaluation)


# Sets -----------------------------------------------------------------------------------------------------------------


class SetTerms(ConditionBuilder):
    """Of a set the keys themselves are known: what is not a comparison is computed of them, and what may meet NULL, of
    which a comparison says nothing."""

    def _atom(self, node: Function) -> Condition:
        found = super()._atom(node)
        if isinstance(found, Unknown) or any(key.type.is_nullable for key in self._keys):
            keys = [(key.node, key.type) for key in self._keys]
            known = computed(node, keys, self._schema.names, self._environment.zone, self._evaluation)
            return found if isinstance(known, Unknown) else known
        return found
