"""The skip indexes of a table in a query: what the filters ask of each, and which granules of a part that leaves.

An index whose condition says nothing is not used; neither is one that a part does not have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parts.common.errors import UserError
from parts.read.part_reader import Part
from parts.skip_indexes.bloom_filters import StoredFilters
from parts.skip_indexes.minmax_index import NamedArrays, get_key_extremes
from parts.skip_indexes.set_index import StoredSets
from parts.skip_indexes.text_index import StoredPostings
from parts.table.table_description import SkipIndex, TableDescription
from sql.compile.compiled_query import Scan
from sql.functions.registry import Environment
from sql.grammar.syntax_tree import Function
from sql.grammar.tokens import TokenStream
from sql.pruning.computed_conditions import build_computed_condition
from sql.pruning.condition_builder import ConditionBuilder, parse_key_expressions
from sql.pruning.conditions import Condition, KeyFacts, Unknown
from sql.pruning.evaluator import Evaluator
from sql.pruning.filter_index_conditions import FilterConditionBuilder
from sql.pruning.key_ranges import Mask, make_closed_ranges, make_point_ranges
from sql.pruning.pruned_parts import PrunedPart, restrict_to_granules
from sql.pruning.text_index_conditions import TextConditionBuilder
from sql.settings.supported_settings import (
    Settings,
)


@dataclass(frozen=True)
class SkipIndexTest:
    """What is asked of an index."""

    index: SkipIndex
    condition: Condition

    def granules(self, part: Part) -> Mask | None:
        """The granules of a part that can match; ``None``: the part does not have the index."""
        values = part.read_skip_index(self.index)
        if values is None:
            return None
        if self.index.kind == "text":
            return self.condition.evaluate({0: StoredPostings(values, part.marks)}, part.marks)[0]
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
        return restrict_to_granules(pruned, mask)

    def _runs(self, values: NamedArrays, runs: int) -> Mask:
        keys = range(len(self.index.key.types))
        if self.index.kind == "minmax":
            bounds = {number: make_closed_ranges(*get_key_extremes(values, number)) for number in keys}
            return self.condition.evaluate(bounds, runs)[0]
        if self.index.kind == "set":
            known = StoredSets.from_named_arrays(values)
            points: Mapping[int, KeyFacts] = {number: make_point_ranges(known.keys[number]) for number in keys}
            return known.match_runs(self.condition.evaluate(points, len(known.keys[0]))[0])
        return self.condition.evaluate(dict.fromkeys(keys, StoredFilters.from_named_arrays(self.index, values)), runs)[
            0
        ]


def build_skip_index_tests(
    scan: Scan, description: TableDescription, environment: Environment, evaluation: Evaluator
) -> tuple[SkipIndexTest, ...]:
    """Those that say something, the cheapest first. Raises 277 (INDEX_NOT_USED), 6 for a setting that is no list."""
    tests, used = [], []
    for index in list_usable_indexes(description, environment.settings):
        builder = _builder(index, scan, description, environment, evaluation)
        condition, _ = builder.build(scan.conditions)
        if condition.used and condition.tells():
            tests.append(SkipIndexTest(index, condition))
        # ClickHouse takes pieces of texts for used even where they can rule nothing out.
        if condition.used and (condition.tells() or index.kind in ("ngrambf_v1", "tokenbf_v1")):
            used.append(index.name)
    _check_forced(used, scan, environment.settings)
    return sort_by_cost(tests)


def sort_by_cost(tests: Sequence[SkipIndexTest]) -> tuple[SkipIndexTest, ...]:
    return tuple(sorted(tests, key=lambda test: test.index.kind != "minmax"))


def list_usable_indexes(description: TableDescription, settings: Settings) -> list[SkipIndex]:
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
    index: SkipIndex, scan: Scan, description: TableDescription, environment: Environment, evaluation: Evaluator
) -> ConditionBuilder:
    if index.kind in ("minmax", "set"):
        keys = parse_key_expressions(index.key.expressions, index.key.types)
        kind = SetConditionBuilder if index.kind == "set" else ConditionBuilder
        return kind(scan.source, description.schema, keys, environment, evaluation)
    kind_of_terms = TextConditionBuilder if index.kind == "text" else FilterConditionBuilder
    return kind_of_terms(index, scan.source, description.schema, environment, evaluation)


# Sets -----------------------------------------------------------------------------------------------------------------


class SetConditionBuilder(ConditionBuilder):
    """Of a set the keys themselves are known: what is not a comparison is computed of them, and what may meet NULL, of
    which a comparison says nothing."""

    def _atom(self, node: Function) -> Condition:
        found = super()._atom(node)
        if isinstance(found, Unknown) or any(key.type.is_nullable for key in self._keys):
            keys = [(key.node, key.type) for key in self._keys]
            known = build_computed_condition(node, keys, self._schema.names, self._environment.zone, self._evaluation)
            return found if isinstance(known, Unknown) else known
        return found
