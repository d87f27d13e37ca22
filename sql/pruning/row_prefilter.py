"""Finds the rows of a batch that can match from a few columns, before the others are decoded.

It tests the conjuncts that compare columns outside the primary index with constants, where that is quick. These are
numbers, dates and times, equality of strings, and LIKE with something rare inside. Such columns often follow the order
of the data (orders are delivered some days after they are made), so whole batches have no match.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from parts.blocks.dictionary_strings import DICTIONARY_STRING
from parts.table.table_description import TableDescription
from parts.types import DataType
from sql.compile.compiled_query import Scan
from sql.functions.registry import Environment
from sql.grammar.syntax_tree import Identifier, walk
from sql.pruning.condition_builder import ConditionBuilder, KeyExpression
from sql.pruning.conditions import Combination, Condition, ContainsText, InRange, InSet
from sql.pruning.evaluator import Evaluator
from sql.pruning.key_ranges import make_point_ranges
from sql.pruning.substring_search import find_candidate_rows


@dataclass(frozen=True, slots=True)
class _Term:
    """A conjunct and the columns it reads, by number."""

    condition: Condition
    columns: tuple[tuple[int, str], ...]
    text: pa.Scalar | None = None
    """The string that the one column must be equal to."""
    needles: tuple[bytes, ...] = ()
    """Substrings that it must contain."""

    def match_rows(self, read: Callable[[str], pa.Array], rows: int) -> np.ndarray:
        """Returns a mask of the rows that can match."""
        arrays = {number: read(name) for number, name in self.columns}
        if self.needles:
            (array,) = arrays.values()
            return find_candidate_rows(array, self.needles)
        if self.text is not None:
            (array,) = arrays.values()
            same = (
                pc.equal(array.dictionary, self.text).take(array.indices) if array.type == DICTIONARY_STRING else None
            )
            same = pc.equal(array, self.text) if same is None else same
            return pc.fill_null(same, False).to_numpy(zero_copy_only=False)
        mask = self.condition.evaluate({number: make_point_ranges(array) for number, array in arrays.items()}, rows)[0]
        if isinstance(self.condition, InRange):  # NULL is in no range
            for array in arrays.values():
                if array.null_count:
                    mask &= array.is_valid().to_numpy(zero_copy_only=False)
        return mask


@dataclass(frozen=True, slots=True)
class RowPrefilter:
    """Conjuncts to test on rows, the quicker ones first."""

    terms: tuple[_Term, ...]
    is_exact: bool = False

    @property
    def columns(self) -> frozenset[str]:
        """The names of the columns that the test reads."""
        return frozenset(name for term in self.terms for _, name in term.columns)

    def match_rows(self, read: Callable[[str], pa.Array], rows: int) -> np.ndarray:
        """Returns a mask of the rows that can match. ``read`` returns a column in its storage type."""
        mask = np.ones(rows, bool)
        for term in self.terms:
            mask &= term.match_rows(read, rows)
            if not mask.any():
                break
        return mask


def build_row_prefilter(
    scan: Scan, description: TableDescription, environment: Environment, evaluation: Evaluator
) -> RowPrefilter | None:
    """Builds the prefilter of a scan's filters; ``None`` if no conjunct can be tested."""
    schema = description.schema
    mentioned = {part.parts[-1] for node, _ in scan.conditions for part in walk(node) if isinstance(part, Identifier)}
    indexed = description.sorting_key.expressions[:1]
    names = [name for name in scan.source.used if name in mentioned and name in schema]
    if not set(names).difference(indexed):
        return None
    types = [schema.column(name).type for name in names]
    keys = [KeyExpression(Identifier((name,)), type_) for name, type_ in zip(names, types, strict=True)]
    builder = ConditionBuilder(scan.source, schema, keys, environment, evaluation)
    condition, _ = builder.build(scan.conditions)
    terms = []
    for conjunct in [*_conjuncts(condition), *builder.find_substring_searches(scan.conditions)]:
        term = _make_term(conjunct, names, types)
        if term is not None and (term.needles or any(name not in indexed for _, name in term.columns)):
            terms.append(term)
    return RowPrefilter(tuple(sorted(terms, key=_cost))) if terms else None


def _cost(term: _Term) -> int:
    return 2 if term.needles else int(term.text is not None)


def _conjuncts(condition: Condition) -> list[Condition]:
    if isinstance(condition, Combination) and not condition.either:
        return [inner for term in condition.terms for inner in _conjuncts(term)]
    return [condition]


def _make_term(condition: Condition, names: Sequence[str], types: Sequence[DataType]) -> _Term | None:
    used = tuple((number, names[number]) for number in sorted(condition.key_numbers))
    if isinstance(condition, ContainsText):
        return _Term(condition, used, needles=condition.needles)
    if not used or _has_function(condition):
        return None
    kinds = [types[number].arrow for number, _ in used]
    if all(map(_is_number, kinds)):
        return _Term(condition, used)
    wanted = condition.wanted if isinstance(condition, InRange) else None
    if wanted is not None and wanted.low is not None and wanted.low is wanted.high and pa.types.is_string(kinds[0]):
        return _Term(condition, used, wanted.low)
    return None


def _is_number(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or pa.types.is_date(type_) or pa.types.is_timestamp(type_)


def _has_function(condition: Condition) -> bool:
    """Returns whether a function would be computed for every row."""
    if isinstance(condition, (InRange, InSet)):
        return condition.change is not None
    return True
