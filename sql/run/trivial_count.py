"""Counts ``SELECT count() FROM t [WHERE …]`` without reading granules in which every row matches.

Without WHERE these are all granules; else the primary index or the partition shows which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from sql.compile.compiled_query import Scan
from sql.grammar.syntax_tree import Alias, Function, Literal, NamedTable, Node, Query, Select, Star, has_only_clauses
from sql.pruning.pruned_parts import PrunedPart
from sql.relations import is_parts_relation


def is_trivial_count(query: Query, scans: Sequence[Scan]) -> bool:
    """Returns whether the query's only value is the number of a MergeTree table's rows that match WHERE."""
    if not isinstance(query, Select) or not isinstance(query.source, NamedTable) or query.source.sample is not None:
        return False
    if len(query.expressions) != 1 or len(scans) != 1 or not _is_count(query.expressions[0]):
        return False
    if not has_only_clauses(query, "source", "prewhere", "where"):
        return False
    (scan,) = scans
    return is_parts_relation(scan.source.relation) and scan.source.prunable


def _is_count(node: Node) -> bool:
    if isinstance(node, Alias):
        node = node.expression
    if not isinstance(node, Function) or replace(node, name=node.name.lower(), args=()) != Function("count"):
        return False
    match node.args:
        case () | (Star((), None, ()),):
            return True
        case (Literal(value),):
            return value is not None
    return False


def split_off_certain_rows(parts: Sequence[PrunedPart]) -> tuple[int, list[PrunedPart]]:
    """Returns the number of rows that surely match, and the parts to read for the others."""
    left = []
    for pruned in parts:
        ranges = pruned.uncertain_ranges if pruned.is_whole else pruned.all_ranges
        if ranges:
            left.append(replace(pruned, ranges=ranges, uncertain=None))
    return sum(pruned.certain_rows for pruned in parts), left


def add_to_count(batch: pa.RecordBatch, rows: int) -> pa.RecordBatch:
    """Returns the result's batch with ``rows`` added to the count."""
    count = pa.array([batch.column(0)[0].as_py() + rows], batch.schema.field(0).type)
    return pa.RecordBatch.from_arrays([count], schema=batch.schema)
