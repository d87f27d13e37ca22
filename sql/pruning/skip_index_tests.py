"""Tests skip indexes: the condition on each index, and the granules of a part that it leaves.

An index whose condition rules nothing out is not used; neither is one that a part does not have.
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
    """A skip index and the condition to test on it."""

    index: SkipIndex
    condition: Condition

    def granules(self, part: Part) -> Mask | None:
        """Returns a mask of a part's granules that can match; ``None`` if it lacks the index."""
        values = part.read_skip_index(self.index)
        if values is None:
            return None
        if self.index.kind == "text":
            return self.condition.evaluate({0: StoredPostings(values, part.marks)}, part.marks)[0]
        runs = -(-part.marks // self.index.granularity)
        mask = self._test_runs(values, runs)
        return np.repeat(mask, self.index.granularity)[: part.marks] if self.index.granularity > 1 else mask

    def prune(self, pruned: PrunedPart) -> PrunedPart | None:
        """Drops granules that cannot match; ``None`` if none is left.

        Nothing is tested where every row is known to match.
        """
        if pruned.is_whole and not pruned.uncertain_ranges:
            return pruned
        mask = self.granules(pruned.part)
        if mask is None or mask.all():
            return pruned
        return restrict_to_granules(pruned, mask)

    def _test_runs(self, values: NamedArrays, runs: int) -> Mask:
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
    """Returns the tests that can rule something out, the cheapest first.

    Raises 277 (INDEX_NOT_USED), and 6 for a setting that is no list.
    """
    tests, used = [], []
    for index in list_usable_indexes(description, environment.settings):
        builder = _make_builder(index, scan, description, environment, evaluation)
        condition, _ = builder.build(scan.conditions)
        if condition.key_numbers and condition.can_exclude():
            tests.append(SkipIndexTest(index, condition))
        # ClickHouse counts n-gram and token indexes as used even where they can rule nothing out.
        if condition.key_numbers and (condition.can_exclude() or index.kind in ("ngrambf_v1", "tokenbf_v1")):
            used.append(index.name)
    _check_forced(used, scan, environment.settings)
    return sort_by_cost(tests)


def sort_by_cost(tests: Sequence[SkipIndexTest]) -> tuple[SkipIndexTest, ...]:
    """Sorts the tests, minmax indexes first."""
    return tuple(sorted(tests, key=lambda test: test.index.kind != "minmax"))


def list_usable_indexes(description: TableDescription, settings: Settings) -> list[SkipIndex]:
    """Returns the table's skip indexes that the settings allow."""
    if not description.indexes:
        return []
    ignored = _parse_index_names("ignore_data_skipping_indices", settings.ignore_data_skipping_indices, settings)
    if not settings.use_skip_indexes:
        return []
    return [index for index in description.indexes if index.name not in ignored]


def _check_forced(used: Sequence[str], scan: Scan, settings: Settings) -> None:
    if not settings.use_skip_indexes or not (scan.conditions or scan.source.used):
        return  # count() without filters reads nothing
    for name in _parse_index_names("force_data_skipping_indices", settings.force_data_skipping_indices, settings):
        if name not in used:
            raise UserError(
                "INDEX_NOT_USED",
                f"Index `{name}` is not used and setting 'force_data_skipping_indices' contains it; used are: "
                f"{', '.join(used) or 'none'}",
            )


def _parse_index_names(setting: str, text: str, settings: Settings) -> list[str]:
    if not text:
        if setting in settings.changes:
            raise UserError("CANNOT_PARSE_TEXT", f"Cannot parse string ('') of {setting} into names of indexes")
        return []
    stream = TokenStream(text)
    names = []
    while not stream.is_at_end():
        if stream.accept(","):
            continue
        if not stream.peek().is_identifier:
            raise UserError("CANNOT_PARSE_TEXT", f"Cannot parse string ({text!r}) of {setting} into names of indexes")
        names.append(stream.next().value)
    return names


def _make_builder(
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
    """Builds conditions for a set index, whose entries are exact key values.

    A term that is no comparison is computed from the values. So is a comparison that may meet NULL, about which a range
    says nothing.
    """

    def _atom(self, node: Function) -> Condition:
        found = super()._atom(node)
        if isinstance(found, Unknown) or any(key.type.is_nullable for key in self._keys):
            keys = [(key.node, key.type) for key in self._keys]
            known = build_computed_condition(node, keys, self._schema.names, self._environment.zone, self._evaluation)
            return found if isinstance(known, Unknown) else known
        return found
