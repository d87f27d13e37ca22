"""Sends a scan's conditions to the shards, as far as they can compute them."""

from __future__ import annotations

from sql.compile.compiled_query import Scan
from sql.compile.shards.shard_expressions import ShardExpressionWriter
from sql.compile.shards.sharded_relation import ShardedRelation


def push_conditions_to_shards(scan: Scan) -> None:
    """Sends the scan's conditions to the shards; they are checked here as well."""
    relation = scan.source.relation
    if not isinstance(relation, ShardedRelation) or not scan.conditions:
        return
    terms = []
    for node, around in scan.conditions:
        term = ShardExpressionWriter(around.scope, scan.source, around.environment).expression(node)
        if term is not None:
            terms.append(term)
    scan.source.relation = relation.add_conditions(terms)
    scan.conditions = []
