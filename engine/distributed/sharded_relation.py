"""The rows of a sharded table: sends one SELECT per shard at the same time and streams the answers.

A shard of which this server is a replica is read here, without network. For another shard one replica is queried over
HTTP and streams its answer in Arrow's format.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pyarrow as pa

from engine.catalog.database_names import TEMPORARY_DATABASE
from engine.distributed.shard_pruning import select_shards
from engine.distributed.shard_settings import collect_forwarded_settings, make_shard_context
from engine.queries.context import Context
from engine.queries.session import QueryResult
from engine.remote.parallel_streams import read_in_parallel
from engine.remote.remote_servers import make_bad_answer_error, open_response_file
from engine.remote.replica_delays import Freshness
from engine.remote.server_clusters import Address, ServerCluster, Shard
from parts.common.errors import CancelledError, UnavailableError, UserError
from parts.table.table_description import Column, TableSchema
from parts.types import DataType, IntegerType
from sql.compile.shards.sharded_relation import SHARD_NUMBER, ShardedRelation
from sql.definitions.column_defaults import cast_block
from sql.definitions.engines.proxy_engines import ShardingKey
from sql.formats.registry import read_blocks
from sql.grammar.queries.query_formatter import format_query
from sql.grammar.syntax_tree import (
    Alias,
    Function,
    Identifier,
    Literal,
    NamedTable,
    Node,
    OrderItem,
    Select,
    transform,
)
from sql.relations import StreamedRelation

_BLOCK_ROWS = 65_536
_BLOCK_BYTES = 32 << 20
_NUMBER_COLUMN = Column(SHARD_NUMBER, IntegerType(32, signed=False))


@dataclass(frozen=True)
class LocalQueries:
    """Functions that query this server's own tables."""

    run: Callable[[str, Context], QueryResult]
    describe: Callable[[str, Context], Sequence[tuple[str, DataType]]]


@dataclass(frozen=True)
class ShardedTable:
    """A sharded table with conditions. Implements ``sql.compile.shards.sharded_relation.ShardedRelation``."""

    context: Context
    here: LocalQueries
    cluster: ServerCluster
    remote_table: Node
    schema: TableSchema
    sharding_key: ShardingKey | None = None
    where: tuple[Node, ...] = ()
    order_by: tuple[OrderItem, ...] = ()
    limit: int | None = None

    @property
    def hidden(self) -> Sequence[Column]:
        """The column ``_shard_num``, unless the table has a column of that name."""
        return () if SHARD_NUMBER in self.schema else (_NUMBER_COLUMN,)

    @property
    def shard_count(self) -> int:
        """The number of shards."""
        return len(self.cluster.shards)

    def read_as(self, table: NamedTable) -> ShardedRelation:
        """Returns the table with FINAL and SAMPLE of the query's FROM."""
        own = self.remote_table
        if not isinstance(own, NamedTable) or not (table.final or table.sample is not None):
            return self
        sampled = replace(own, final=table.final, sample=table.sample, sample_offset=table.sample_offset)
        return replace(self, remote_table=sampled)

    def add_conditions(
        self, where: Sequence[Node], order_by: Sequence[OrderItem] = (), limit: int | None = None
    ) -> ShardedRelation:
        """Returns the table with further conditions, and perhaps ORDER BY and LIMIT per shard."""
        added = tuple(term for term in where if term not in self.where)
        if limit is None:
            return replace(self, where=(*self.where, *added))
        return replace(self, where=(*self.where, *added), order_by=tuple(order_by), limit=limit)

    def answer_select(self, select: Select, columns: Sequence[Column]) -> StreamedRelation:
        """Returns the shards' answers to a query as a relation with these columns."""
        return ShardAnswers(self, select, tuple(columns))

    def exists_on_shards(self, table: NamedTable) -> bool:
        """Returns whether the shards know a table of this name; temporary and external tables exist only here."""
        session = self.context.session
        if table.database == TEMPORARY_DATABASE:
            return False
        return table.database is not None or not (
            table.table in session.temporary_tables or table.table in session.external_tables
        )

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Returns all rows with these columns."""
        return pa.concat_tables(self.blocks(columns))

    def blocks(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yields all rows with these columns, block by block."""
        known = {column.name: column for column in (*self.schema.columns, *self.hidden)}
        items = tuple(_make_select_item(name) for name in columns)
        select = Select(items, order_by=self.order_by, limit=None if self.limit is None else Literal(self.limit))
        yield from self.read_answers(select, [known[name] for name in columns])

    def read_answers(self, select: Select, columns: Sequence[Column]) -> Iterator[pa.Table]:
        """Yields the blocks of all needed shards."""
        where = self.where[0] if len(self.where) == 1 else Function("and", self.where) if self.where else None
        asked = replace(select, source=self.remote_table, where=where)
        shards = select_shards(self.cluster, self.sharding_key, self.where, self.schema, self.context.settings)
        running: dict[str, Address] = {}
        is_left = threading.Event()
        streams = [
            self._read_shard(shard, format_query(_make_shard_query(asked, shard, values)), columns, running, is_left)
            for shard, values in shards
        ]
        try:
            yield from read_in_parallel(streams, self.context.status.check)
        finally:
            is_left.set()
            for query_id, address in list(running.items()):
                self.context.server.remote.kill(address, query_id, self.context.session.user)

    def _read_shard(
        self,
        shard: Shard,
        text: str,
        columns: Sequence[Column],
        running: dict[str, Address],
        is_left: threading.Event,
    ) -> Iterator[pa.Table]:
        """Yields the blocks of the first replica that answers.

        ``running`` holds the query's id until the answer is complete. ``is_left`` stops it.
        """
        query_id = str(self.context.server.services.new_uuid())
        settings = self.context.settings

        def check() -> None:
            self.context.status.check()
            if is_left.is_set():
                raise CancelledError

        with ExitStack() as stack:
            try:
                blocks = self.context.server.remote.ask_any_replica(
                    shard,
                    lambda address: self._start_query(address, text, columns, stack, query_id, running, check),
                    connect_seconds=settings.connect_timeout_with_failover_ms / 1000,
                    freshness=self._make_freshness(),
                )
            except UnavailableError as error:
                if settings.skip_unavailable_shards and error.name == "ALL_CONNECTION_TRIES_FAILED":
                    return
                raise
            yield from blocks
            running.pop(query_id, None)

    def _make_freshness(self) -> Freshness | None:
        """Returns the demanded freshness; ``None`` if any replica will do."""
        table, settings = self.remote_table, self.context.settings
        limit = settings.max_replica_delay_for_distributed_queries
        if not limit or not isinstance(table, NamedTable):
            return None
        return Freshness(
            table.database or "",
            table.table,
            limit,
            settings.fallback_to_stale_replicas_for_distributed_queries,
            self.context.server.replica_delays,
        )

    def _start_query(
        self,
        address: Address,
        text: str,
        columns: Sequence[Column],
        stack: ExitStack,
        query_id: str,
        running: dict[str, Address],
        check: Callable[[], None],
    ) -> Iterator[pa.Table]:
        """Starts the query on a replica and returns its blocks."""
        context = make_shard_context(self.context, address)
        if self.context.settings.prefer_localhost_replica and self.context.server.remote.is_local(address):
            result = self.here.run(text, context)
            stack.callback(result.close)
            types = [type_ for _, type_ in result.columns]
            return (cast_block(batch, types, columns, settings=context.settings) for batch in result.batches)
        passed = {**collect_forwarded_settings(context), "query_id": query_id}
        running[query_id] = address
        seconds = context.settings.connect_timeout_with_failover_ms / 1000
        post = context.server.remote.post(
            address,
            f"{text} FORMAT ArrowStream",
            passed,
            user=context.session.user,
            connect_seconds=seconds,
            read_seconds=context.settings.receive_timeout or None,
        )
        file = open_response_file(stack.enter_context(post), check)
        blocks = read_blocks(
            "ArrowStream",
            file,
            columns,
            settings=context.settings,
            max_block_rows=_BLOCK_ROWS,
            max_block_bytes=_BLOCK_BYTES,
            status=context.status,
        )
        return _name_server_in_errors(blocks, address)


def _name_server_in_errors(blocks: Iterator[pa.Table], address: Address) -> Iterator[pa.Table]:
    """Yields the blocks; a stream that cannot be parsed raises an error that names the server."""
    try:
        yield from blocks
    except UserError as error:
        if error.name not in ("INCORRECT_DATA", "THERE_IS_NO_COLUMN"):
            raise
        raise make_bad_answer_error(address, error) from None


@dataclass(frozen=True)
class ShardAnswers:
    """The answers of all shards to one query. Implements ``sql.relations.StreamedRelation``."""

    table: ShardedTable
    select: Select
    columns: tuple[Column, ...]

    @property
    def schema(self) -> TableSchema:
        """The columns of the answer."""
        return TableSchema(self.columns)

    @property
    def hidden(self) -> Sequence[Column]:
        """The hidden columns: none."""
        return ()

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Returns all rows with these columns."""
        return pa.concat_tables(self.blocks(columns))

    def blocks(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yields all rows with these columns, block by block."""
        for block in self.table.read_answers(self.select, self.columns):
            yield block.select(list(columns))


def _make_select_item(name: str) -> Node:
    column = Identifier((name,))
    return Alias(column, name) if name == SHARD_NUMBER else column


def _make_shard_query(select: Select, shard: Shard, values: Sequence[Node]) -> Select:
    """Returns the query for one shard: with its number in place of ``_shard_num``, and its further conditions."""
    number = Function("toUInt32", (Literal(shard.number),))

    def replace_number(node: Node) -> Node:
        return number if isinstance(node, Identifier) and node.parts == (SHARD_NUMBER,) else node

    terms = [*([select.where] if select.where is not None else []), *values]
    where = terms[0] if len(terms) == 1 else Function("and", tuple(terms)) if terms else None
    own = transform(replace(select, where=where), replace_number)
    assert isinstance(own, Select)
    return own
