"""INSERT into a Distributed table.

Every block is divided by the sharding key; all shards have their rows before the next block is taken.

With ``internal_replication`` one replica of a shard takes the rows and the others copy them from it. Without it the
rows are sent to each replica, and the INSERT fails if one does not take them; repeating it fills the gap.

Each shard deduplicates by a token, derived from the INSERT's token or from the content of the whole block. So repeating
a failed INSERT doubles nothing in replicated tables, and another replica may continue for one that was lost while it
answered. Equal rows of two different blocks have different tokens and are both kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from engine.distributed.shard_settings import collect_insert_settings, make_shard_context
from engine.queries.context import Context
from engine.remote.parallel_streams import run_all
from engine.remote.server_clusters import Address, Shard, get_configured_cluster
from engine.tables.insert_sink import InsertOutcome
from engine.tables.table import Table
from engine.tables.table_definition import TableDefinition
from parts.common.errors import PandoError, UserError
from parts.format.content_hash import hash_block
from sql.definitions.engines.proxy_engines import DistributedArguments, ShardingKey, assign_slots_to_shards
from sql.formats.registry import write_blocks
from sql.grammar.tokens import quote_identifier

_MOST_ANSWER_BYTES = 1 << 20
"""Limit for reading the response of an INSERT, which is empty unless it is an error."""

WriteHere = Callable[[Table, Iterable[pa.Table], Context], None]
"""Writes blocks to a table of this server."""


class DistributedInsert:
    """One INSERT into a Distributed table, with the methods of an ``InsertSink``."""

    def __init__(self, definition: TableDefinition, context: Context, write_here: WriteHere) -> None:
        """Resolves cluster and sharding key.

        Raises 55 (STORAGE_REQUIRES_PARAMETER) for several shards without a sharding key, 48 (NOT_IMPLEMENTED) for
        ``insert_transaction``.
        """
        if context.settings.insert_transaction:
            raise UserError(
                "NOT_IMPLEMENTED",
                "insert_transaction is of one table: begin one on every shard, not a Distributed table",
            )
        self._arguments = DistributedArguments.of(definition.create)
        self._context = context
        self._write_here = write_here
        self.description = definition.description
        self._schema = definition.description.schema
        given = ("", "DEFAULT", *(["MATERIALIZED"] if context.settings.insert_allow_materialized_columns else []))
        self._columns = tuple(column for column in self._schema.columns if column.default_kind in given)
        self._cluster = get_configured_cluster(context.server.config, self._arguments.cluster)
        self._owners = assign_slots_to_shards([shard.weight for shard in self._cluster.shards])
        self._key = self._make_sharding_key()
        self._blocks = 0
        self._outcome = InsertOutcome()

    def write(self, block: pa.Table) -> None:
        """Divides a block, which must have all stored columns, and sends each shard its rows."""
        self._blocks += 1
        content, given = hash_block(block), self._context.settings.insert_deduplication_token
        token = f"{given}_{self._blocks}" if given else content
        pieces = self._divide(block, int(content, 16))
        run_all(
            [
                partial(self._send, target, rows, f"{token}_{shard.number}")
                for shard, rows in pieces
                for target in shard.receivers
            ]
        )
        self._outcome.written_rows += block.num_rows
        self._outcome.written_bytes += block.nbytes

    def commit(self) -> InsertOutcome:
        """Returns the counts; the rows are written already."""
        return self._outcome

    def abort(self) -> None:
        """Keeps the rows that shards have taken already; they cannot be taken back."""

    def _make_sharding_key(self) -> ShardingKey | None:
        shards, text = self._cluster.shards, self._arguments.sharding_key
        if len(shards) > 1 and not text:
            raise UserError(
                "STORAGE_REQUIRES_PARAMETER",
                "Method write is not supported by storage Distributed with more than one shard and no sharding key "
                "provided",
            )
        if not len(self._owners):
            raise UserError("BAD_ARGUMENTS", f"All shards of cluster {self._cluster.name} have weight 0")
        return ShardingKey.of(text, self._schema) if len(shards) > 1 else None

    def _divide(self, block: pa.Table, seed: int) -> Iterator[tuple[Shard, pa.Table]]:
        rows = block.select([column.name for column in self._columns])
        if self._key is None:
            yield self._cluster.shards[0], rows
            return
        owners = self._owners[self._key.slots(block, len(self._owners), seed)]
        for position, shard in enumerate(self._cluster.shards):
            own = np.flatnonzero(owners == position)
            if len(own):
                yield shard, rows.take(pa.array(own))

    def _send(self, shard: Shard, rows: pa.Table, token: str) -> None:
        try:
            self._context.server.remote.ask_any_replica(
                shard,
                lambda address: self._send_to(address, rows, token),
                connect_seconds=self._context.settings.connect_timeout_with_failover_ms / 1000,
            )
        except PandoError as error:
            error.message += f" (while rows were written to shard {shard.number} of cluster {self._cluster.name})"
            raise

    def _send_to(self, address: Address, rows: pa.Table, token: str) -> None:
        context, settings = make_shard_context(self._context, address), self._context.settings
        database, table = self._arguments.database, self._arguments.table
        remote = context.server.remote
        if settings.prefer_localhost_replica and remote.is_local(address):
            own = replace(context, settings=replace(settings, insert_deduplication_token=token))
            self._write_here(own.server.catalog.table(own.database(database or None), table), [rows], own)
            return
        name = f"{quote_identifier(database)}.{quote_identifier(table)}" if database else quote_identifier(table)
        names = ", ".join(quote_identifier(column.name) for column in self._columns)
        pairs = [(column.name, column.type) for column in self._columns]
        data = write_blocks("ArrowStream", pairs, rows.to_batches(), settings=settings, status=context.status)
        seconds = settings.connect_timeout_with_failover_ms / 1000
        text = f"INSERT INTO {name} ({names}) FORMAT ArrowStream"
        with remote.post(
            address,
            text,
            collect_insert_settings(context, token),
            data,
            user=context.session.user,
            connect_seconds=seconds,
            read_seconds=settings.receive_timeout or None,
        ) as answer:
            answer.read_beginning(_MOST_ANSWER_BYTES)
