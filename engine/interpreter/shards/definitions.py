"""CREATE TABLE of tables that read others: the names among their arguments, and columns that the others have."""

from __future__ import annotations

from engine.context import Context
from engine.remote.clusters import configured_cluster
from sql.definitions.proxies import DistributedArguments, check_proxy_engine, is_proxy, pinned
from sql.grammar.statements import CreateTable


def with_proxied(create: CreateTable, context: Context) -> CreateTable:
    """Raises 701 for a cluster that is not configured; a table that was made before may wait for its cluster."""
    if not is_proxy(create) or create.attach:
        return create
    check_proxy_engine(create)
    create = pinned(create, context.session.database)
    configured_cluster(context.server.config, DistributedArguments.of(create).cluster)
    return create
