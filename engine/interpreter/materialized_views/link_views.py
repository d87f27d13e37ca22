"""Runs the materialized views of a link's target over the rows of a batch (``run_views = 1``).

As in an INSERT (``view_inserts``), each view's query sees a block of its source alone, and the views over
the table that it fills see what it made. All of it is staged, as one transaction a table. The multi that commits the
batch commits these transactions too, so nothing is there twice or in part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from coordination.keeper.interface import MultiFailed, Op
from engine.catalog.view_targets import MOST_VIEW_LEVELS, make_too_deep_error
from engine.interpreter.materialized_views.view_inserts import name_view_in_errors, run_view_query
from engine.links.target_views import find_target_views, require_fit
from engine.queries.context import OwnerContext, OwnerServer
from engine.queries.session import Session
from engine.tables.capabilities.table_transactions import JoinedTransaction
from engine.tables.insert_sink import InsertSink
from engine.tables.owned_table import OwnedTable
from engine.tables.statement_options import InsertOptions
from parts.common.query_status import QueryStatus
from sql.relations import BlockRelation
from sql.settings.session_settings import make_settings


class LinkViews:
    """Runs views on one server. Implements ``engine.links.target_views.RunTargetViews``."""

    def __init__(self, server: OwnerServer) -> None:
        self._server = server

    def __call__(self, table: OwnedTable, blocks: Iterable[pa.Table], status: QueryStatus) -> StagedBranches:
        """Stages what the views of a table make of the blocks. Raises what a query raises, and leaves nothing then."""
        server = self._server
        query_id = f"link-views-{server.services.new_uuid().hex}"
        settings = make_settings(server.config.default_settings, server.config.timezone)
        context = OwnerContext(server, Session(), settings, query_id, status=status)
        branches = StagedBranches(context)
        try:
            for block in blocks:
                branches.push(table, block)
            branches.stage()
        except BaseException:
            branches.abort()
            raise
        return branches


class StagedBranches:
    """The tables that views fill. Implements ``engine.tables.capabilities.table_links.StagedViews``."""

    def __init__(self, context: OwnerContext) -> None:
        self._context = context
        self._sinks: dict[OwnedTable, InsertSink] = {}
        self._joined: list[JoinedTransaction] = []

    def push(self, table: OwnedTable, block: pa.Table, level: int = 0) -> None:
        """Runs the views over a block of the table's rows."""
        if level >= MOST_VIEW_LEVELS:
            raise make_too_deep_error(table.definition.full_name)
        context = self._context
        for found in find_target_views(context.server.catalog, table):
            require_fit(found)
            with name_view_in_errors(found.view):
                sink = self._find_sink(found.target)
                relation = BlockRelation(table.description.schema, block)
                for made in run_view_query(found.view, table, relation, sink.description.schema, context):
                    sink.write(made)
                    self.push(found.target, made, level + 1)

    def _find_sink(self, target: OwnedTable) -> InsertSink:
        if target not in self._sinks:
            settings, id_ = self._context.settings, self._context.query_id
            options = InsertOptions(
                transaction=id_,
                max_partitions=settings.max_partitions_per_insert_block,
                query_id=id_,
                status=self._context.status,
            )
            self._sinks[target] = target.begin_insert(options)
        return self._sinks[target]

    def stage(self) -> None:
        """Stages what was written."""
        for target, sink in self._sinks.items():
            assert target.join_transaction is not None  # require_fit has looked
            joined = target.join_transaction(self._context.query_id)
            self._joined.append(joined)
            if not sink.commit().written_rows:
                joined.abort()
                self._joined.remove(joined)

    # -- the batch's commit -------------------------------------------------------------------------------------------

    def plan(self) -> Sequence[Op]:
        """Returns the operations that commit all tables, with new block numbers."""
        return [op for joined in self._joined for op in joined.plan()]

    def note_failure(self, error: MultiFailed) -> None:
        """Reads the gate anew whose version the multi has failed to meet."""
        for joined in self._joined:
            joined.note_failure(error)

    def release(self) -> None:
        """Gives the numbers of the last plan up."""
        for joined in self._joined:
            joined.release()

    def note_commit(self) -> None:
        """Forgets the numbers, which the multi has used."""
        for joined in self._joined:
            joined.note_commit()

    def carry_out(self) -> None:
        """Lets this server's replicas carry the transactions out."""
        for joined in self._joined:
            joined.carry_out()
        self._joined.clear()

    def abort(self) -> None:
        """Drops what is staged, unless it is committed."""
        for sink in self._sinks.values():
            sink.abort()
        for joined in self._joined:
            joined.abort()
        self._joined.clear()
