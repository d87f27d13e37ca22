"""Runs the rewrites of the tree before names are resolved, in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sql.compile.passes import date_calls, quantified_comparisons, query_parameters, tuple_keys
from sql.grammar.syntax_tree import Query

PASSES: tuple[Callable[[Query, Mapping[str, str]], Query], ...] = (
    query_parameters.rewrite,
    quantified_comparisons.rewrite,
    date_calls.rewrite,
    tuple_keys.rewrite,
)


def run_passes(query: Query, given: Mapping[str, str]) -> Query:
    """Returns the query after all passes; ``given`` are the values of query parameters."""
    for step in PASSES:
        query = step(query, given)
    return query
