"""Completes CREATE TABLE of Distributed and Merge tables: names in the arguments, and columns."""

from __future__ import annotations

from dataclasses import replace

from engine.distributed.merge_engine import infer_schema
from engine.distributed.sharded_relation import LocalQueries
from engine.distributed.sharded_tables import fetch_schema
from engine.queries.context import Context
from engine.remote.server_clusters import get_configured_cluster
from sql.definitions.engines.proxy_engines import (
    DistributedArguments,
    MergeArguments,
    resolve_engine_arguments,
)
from sql.definitions.engines.registry import find_engine
from sql.definitions.engines.table_engine import unsupported
from sql.grammar.clause_types import ColumnClause
from sql.grammar.statements.statement import CreateTable
from sql.grammar.syntax_tree import NamedTable


def complete_definition(create: CreateTable, given: CreateTable, context: Context, here: LocalQueries) -> CreateTable:
    """Resolves names, checks the engine and adds missing columns from the tables behind it.

    ``given`` is the statement as written: indexes of a table named by AS are ignored. Raises 36 (BAD_ARGUMENTS) for
    indexes in the statement, 701 (CLUSTER_DOESNT_EXIST). ATTACH checks nothing, so that a table loads without its
    cluster.
    """
    if create.engine is None or create.attach:
        return create
    engine = find_engine(create)
    if not engine.is_proxy:
        return create
    engine.check(create)
    if given.indexes:
        raise unsupported(engine.name, "skipping indices")
    create = resolve_engine_arguments(create, context.session.database)
    assert create.engine is not None
    if create.engine.name == "Merge":
        schema = None if create.columns else infer_schema(MergeArguments.of(create), context)
    else:
        arguments = DistributedArguments.of(create)
        cluster = get_configured_cluster(context.server.config, arguments.cluster)
        table = NamedTable(arguments.database or None, arguments.table)
        schema = None if create.columns else fetch_schema(cluster, table, context, here)
    if schema is None:
        return create
    return replace(create, columns=tuple(ColumnClause(column.name, str(column.type)) for column in schema.columns))
