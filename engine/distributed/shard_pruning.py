"""Selects the shards that can hold matching rows, by the sharding key and WHERE.

``a = 1``, ``a IN (1, 2)`` and ORs of them limit the values of the key's columns; the key is computed for each
combination. Source: ClickHouse documentation, "optimize_skip_unused_shards".
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from engine.remote.server_clusters import ServerCluster, Shard
from parts.common.errors import PandoError, UserError
from parts.table.table_description import TableSchema
from parts.types import DataType, IntegerType, strip_nullable
from sql.compile.expressions.literal_lists import list_members
from sql.definitions.engines.proxy_engines import ShardingKey, assign_slots_to_shards
from sql.grammar.queries.query_formatter import format_expression
from sql.grammar.syntax_tree import Function, Identifier, Literal, LiteralList, Node, transform, walk
from sql.run.block_expressions import compile_expressions
from sql.settings.supported_settings import (
    Settings,
)

Chosen = list[tuple[Shard, Sequence[Node]]]
"""The shards to query, each with further conditions."""


def select_shards(
    cluster: ServerCluster,
    key: ShardingKey | None,
    where: Sequence[Node],
    schema: TableSchema,
    settings: Settings,
) -> Chosen:
    """Returns the shards to query, each with further conditions.

    Raises 507 (UNABLE_TO_SKIP_UNUSED_SHARDS) if settings demand that shards are skipped and none can be.
    """
    everything: Chosen = [(shard, ()) for shard in cluster.shards]
    if not settings.optimize_skip_unused_shards or len(cluster.shards) < 2:
        return everything
    may_skip = key is not None and (not key.is_random or settings.allow_nondeterministic_optimize_skip_unused_shards)
    found = _find_shards(cluster, key, where, schema, settings) if may_skip and key is not None else None
    if found is not None:
        return found
    if settings.force_optimize_skip_unused_shards > (0 if key is not None else 1):
        if key is None:
            problem = "No sharding key"
        elif not may_skip:
            problem = "Sharding key is not deterministic"
        else:
            problem = f"Sharding key {format_expression(key.node)} is not used"
        raise UserError("UNABLE_TO_SKIP_UNUSED_SHARDS", problem)
    return everything


def _find_shards(
    cluster: ServerCluster, key: ShardingKey, where: Sequence[Node], schema: TableSchema, settings: Settings
) -> Chosen | None:
    """Returns the shards that the conditions leave; ``None`` if they do not limit the key's columns."""
    most = settings.optimize_skip_unused_shards_limit
    owners = assign_slots_to_shards([shard.weight for shard in cluster.shards])
    wanted = key.compiled.columns if not key.is_random else [name for name in key.compiled.columns if name in schema]
    known: dict[str, list[Node]] = {}
    for term in where:
        for name, values in _find_allowed_values(_fold_constants(term, settings.timezone)).items():
            known[name] = values if name not in known else [value for value in known[name] if value in values]
    if not len(owners) or any(name not in known for name in wanted):
        return None
    combinations = list(itertools.islice(itertools.product(*(known[name] for name in wanted)), most + 1))
    if len(combinations) > most:
        return None
    try:
        positions = _find_shard_positions(key, wanted, combinations, schema, owners)
    except PandoError:
        return None  # a value that the column cannot hold
    chosen: Chosen = []
    for position, shard in enumerate(cluster.shards):
        own = [combination for combination, owner in zip(combinations, positions, strict=True) if owner == position]
        if own:
            is_less = len(wanted) == 1 and len(own) < len(combinations)
            rewritten: list[Node] = []
            if is_less and settings.optimize_skip_unused_shards_rewrite_in:
                own_values = Function("tuple", tuple(value for (value,) in own))
                rewritten = [Function("in", (Identifier((wanted[0],)), own_values))]
            chosen.append((shard, rewritten))
    return chosen


def _find_shard_positions(
    key: ShardingKey,
    names: Sequence[str],
    combinations: Sequence[tuple[Node, ...]],
    schema: TableSchema,
    owners: np.ndarray,
) -> list[int]:
    """Returns the position of each combination's shard."""
    one = pa.table({"_row": pa.nulls(1, pa.uint8())})
    columns = [schema.column(name) for name in names]
    arrays = []
    for position, column in enumerate(columns):
        if any(_is_outside(values[position], column.type) for values in combinations):
            raise UserError("VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE", f"Column {column.name} has no such value")
        texts = [f"CAST({format_expression(values[position])}, '{column.type}')" for values in combinations]
        cells = [item.evaluate(one) for item in compile_expressions(texts, TableSchema(()))]
        arrays.append(pa.concat_arrays([_combine_chunks(cell) for cell in cells]).cast(column.type.arrow))
    block = pa.Table.from_arrays(arrays, names=list(names)) if names else one
    slots = key.slots(block, len(owners))
    return [int(owner) for owner in owners[slots]]


def _is_outside(value: Node, type_: DataType) -> bool:
    bare = strip_nullable(type_)
    number = value.value if isinstance(value, Literal) else None
    return isinstance(bare, IntegerType) and isinstance(number, int) and not bare.minimum <= number <= bare.maximum


def _combine_chunks(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _fold_constants(node: Node, zone: str) -> Node:
    """Replaces calls with constant arguments by their values."""

    def fold(part: Node) -> Node:
        if not isinstance(part, Function) or part.name in _CONDITIONS or not all(map(_is_constant, walk(part))):
            return part
        try:
            (compiled,) = compile_expressions([format_expression(part)], TableSchema(()), zone)
            value = _combine_chunks(compiled.evaluate(pa.table({"_row": pa.nulls(1, pa.uint8())})))[0].as_py()
        except PandoError:  # the shards will report it
            return part
        return Literal(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else part

    return transform(node, fold)


_CONDITIONS = frozenset({"and", "or", "in", "globalIn", "tuple", "array"})


def _is_constant(node: Node) -> bool:
    if isinstance(node, Function):
        return not node.name.lower().startswith(_VOLATILE_PREFIXES)
    return isinstance(node, Literal)


_VOLATILE_PREFIXES = ("rand", "generate", "now", "today", "yesterday", "sleep", "throwif", "rownumber", "block")
"""Name prefixes of functions that are not deterministic or have side effects."""


def _find_allowed_values(node: Node) -> Mapping[str, list[Node]]:
    """Returns the values that the condition allows, by column."""
    if not isinstance(node, Function):
        return {}
    if node.name == "and":
        found: dict[str, list[Node]] = {}
        for arg in node.args:
            for name, values in _find_allowed_values(arg).items():
                found[name] = values if name not in found else [value for value in found[name] if value in values]
        return found
    if node.name == "or":
        branches = [_find_allowed_values(arg) for arg in node.args]
        common = set.intersection(*(set(branch) for branch in branches))
        return {name: list(dict.fromkeys(itertools.chain(*(branch[name] for branch in branches)))) for name in common}
    if node.name == "equals" and len(node.args) == 2:
        for one, other in (node.args, node.args[::-1]):
            if isinstance(one, Identifier) and len(one.parts) == 1 and isinstance(other, Literal):
                return {one.parts[0]: [other]}
    if node.name == "in" and isinstance(node.args[0], Identifier) and len(node.args[0].parts) == 1:
        listed = _list_set_values(node.args[1])
        if listed is not None:
            return {node.args[0].parts[0]: listed}
    return {}


def _list_set_values(node: Node) -> list[Node] | None:
    if isinstance(node, LiteralList) and not node.is_of_tuples:
        return list(dict.fromkeys(list_members(node)))
    if isinstance(node, Literal):
        return [node]
    if (
        isinstance(node, Function)
        and node.name in ("tuple", "array")
        and all(isinstance(arg, Literal) for arg in node.args)
    ):
        return list(dict.fromkeys(node.args))
    return None
