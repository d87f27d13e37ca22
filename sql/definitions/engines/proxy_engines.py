"""The engines that keep no rows but read and write other tables: Distributed and Merge.

::

    Distributed(cluster, database, table[, sharding_key[, policy]])
    Merge(database | REGEXP('expression'), 'expression')

Their arguments are kept as texts in quotes, and the sharding key as it was written. A policy says where ClickHouse puts
rows that wait to be sent; here none wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from parts.common.errors import UserError
from parts.table.table_description import Column, TableDescription, TableSchema
from parts.types import IntegerType
from sql.compile.expressions.expressions import is_random
from sql.definitions.engines.small_engines import describe_small_table
from sql.definitions.engines.table_engine import (
    COLUMN_CHANGES,
    COMMENT_CHANGES,
    EngineFeatures,
    ServerDefaults,
    TableEngine,
    unsupported,
)
from sql.grammar.queries.query_formatter import format_expression
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.statements.alter_commands import RenameColumn
from sql.grammar.statements.statement import CreateTable, EngineClause
from sql.grammar.syntax_tree import Function, Identifier, Literal, Node, transform, walk
from sql.grammar.tokens import quote_string, unquote_string
from sql.run.block_expressions import CompiledExpression, compile_expressions

_CHANCE = "__chance"


@dataclass(frozen=True, slots=True)
class DistributedArguments:
    cluster: str
    database: str
    table: str
    sharding_key: str = ""

    @classmethod
    def of(cls, create: CreateTable) -> DistributedArguments:
        """Reads the arguments of a definition whose names are resolved."""
        assert create.engine is not None
        cluster, database, table, *others = create.engine.arguments
        return cls(unquote_string(cluster), unquote_string(database), unquote_string(table), *others[:1])


@dataclass(frozen=True, slots=True)
class MergeArguments:
    """``tables`` is a regular expression, and ``database`` is another one or a name."""

    database: str
    is_pattern: bool
    tables: str

    @classmethod
    def of(cls, create: CreateTable) -> MergeArguments:
        """Reads the arguments of a definition whose names are resolved."""
        assert create.engine is not None
        database, tables = create.engine.arguments
        pattern = _pattern(parse_expression(database))
        return cls(
            unquote_string(database) if pattern is None else pattern, pattern is not None, unquote_string(tables)
        )


def _pattern(node: Node) -> str | None:
    match node:
        case Function(name, (Literal(str(text)),)) if name.upper() == "REGEXP":
            return text
    return None


def _check_distributed(create: CreateTable) -> None:
    """Raises 42 for a wrong number of arguments, 36 for clauses that the engine does not have."""
    assert create.engine is not None
    count = len(create.engine.arguments)
    if not 3 <= count <= 5:
        raise UserError(
            "NUMBER_OF_ARGUMENTS_DOESNT_MATCH",
            "Storage Distributed requires from 3 to 5 parameters - name of configuration section with list of remote "
            "servers, name of remote database, name of remote table, sharding key expression (optional), policy to "
            f"store data in (optional); {count} are given",
        )
    _check_clauses(create)


def _check_merge(create: CreateTable) -> None:
    """Raises 42 for a wrong number of arguments, 36 for clauses that the engine does not have."""
    assert create.engine is not None
    if len(create.engine.arguments) != 2:
        raise UserError(
            "NUMBER_OF_ARGUMENTS_DOESNT_MATCH",
            "Storage Merge requires exactly 2 parameters - name of source database and regexp for table names.",
        )
    _check_clauses(create)


def _check_clauses(create: CreateTable) -> None:
    assert create.engine is not None
    if create.partition_by or create.order_by or create.primary_key or create.sample_by or create.ttl:
        raise unsupported(create.engine.name, "PARTITION_BY, PRIMARY_KEY, ORDER_BY, SAMPLE_BY or TTL")


def resolve_engine_arguments(create: CreateTable, database: str) -> CreateTable:
    """Returns the table with the names among its engine's arguments as texts.

    ``database`` is the session's. Raises 36.
    """
    assert create.engine is not None
    engine = create.engine
    count = 3 if engine.name == "Distributed" else 2
    names = [
        f"REGEXP({quote_string(pattern)})"
        if (pattern := _pattern(parse_expression(text))) is not None
        else quote_string(_name(text, database))
        for text in engine.arguments[:count]
    ]
    arguments = (*names, *engine.arguments[count:])
    return replace(create, engine=EngineClause(engine.name, arguments), indexes=())


def _name(text: str, database: str) -> str:
    match parse_expression(text):
        case Literal(str(value)):
            return value
        case Identifier((name,)):
            return name
        case Function("currentDatabase", ()):
            return database
    raise UserError("BAD_ARGUMENTS", f"An argument of the engine must be a name or a string, not {text}")


@dataclass(frozen=True)
class ShardingKey:
    """An integer of every row that decides the row's shard.

    What is random in it is drawn from the rows themselves: rows that are sent again go where they went.
    """

    node: Node
    compiled: CompiledExpression
    is_random: bool

    @classmethod
    def of(cls, text: str | Node, schema: TableSchema) -> ShardingKey:
        node = parse_expression(text) if isinstance(text, str) else text
        calls = [part for part in walk(node) if isinstance(part, Function) and is_random(part.name)]
        drawn = transform(node, lambda part: Identifier((_CHANCE,)) if part in calls else part)
        (compiled,) = compile_expressions([format_expression(drawn)], _with_chance(schema) if calls else schema)
        if not isinstance(compiled.type, IntegerType):
            raise UserError(
                "TYPE_MISMATCH",
                f"Sharding expression has type {compiled.type}, but should be one of integer type.",
            )
        return cls(node, compiled, bool(calls))

    def slots(self, block: pa.Table, total_weight: int, seed: int = 0) -> np.ndarray:
        """Returns for every row a number below the total weight."""
        if self.is_random:
            chance = np.random.default_rng(seed).integers(0, 1 << 32, block.num_rows, dtype=np.uint32)
            block = block.append_column(_CHANCE, pa.array(chance))
        values = self.compiled.evaluate(block)
        array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        numbers = array.to_numpy(zero_copy_only=False)
        if numbers.dtype.kind == "i":  # as ClickHouse: the bits of a negative number
            numbers = numbers.view(f"u{numbers.dtype.itemsize}")
        return numbers.astype(np.uint64) % np.uint64(total_weight)


def assign_slots_to_shards(weights: Sequence[int]) -> np.ndarray:
    """Returns for each slot the position of its shard; a shard has as many slots as its weight."""
    return np.repeat(np.arange(len(weights)), weights)


def _with_chance(schema: TableSchema) -> TableSchema:
    return TableSchema((*schema.columns, Column(_CHANCE, IntegerType(32, signed=False))))


def _describe_distributed(create: CreateTable, schema: TableSchema, defaults: ServerDefaults) -> TableDescription:
    """Raises 47 for an unknown column of the sharding key, 53 for a key that is no integer."""
    if key := DistributedArguments.of(create).sharding_key:
        ShardingKey.of(key, schema)
    return describe_small_table(create, schema, defaults)


DISTRIBUTED = TableEngine(
    name="Distributed", kind="Proxy", check=_check_distributed, describe=_describe_distributed, is_durable=False,
    keeps_rows=False, is_proxy=True, alter_changes=(*COLUMN_CHANGES, *COMMENT_CHANGES, RenameColumn),
    features=EngineFeatures(parallel_insert=True),
)  # fmt: skip
MERGE = TableEngine(
    name="Merge", kind="Proxy", check=_check_merge, describe=describe_small_table, is_durable=False,
    keeps_rows=False, is_proxy=True, alter_changes=(*COLUMN_CHANGES, *COMMENT_CHANGES),
)  # fmt: skip
