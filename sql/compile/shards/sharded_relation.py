"""Interface of tables whose rows lie in shards on other servers, as the compiler sees them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from parts.table.table_description import Column
from sql.grammar.syntax_tree import NamedTable, Node, OrderItem, Select
from sql.relations import StreamedRelation

SHARD_NUMBER = "_shard_num"
"""Virtual column: the number of a row's shard. In the query sent to a shard, that shard's number."""


@runtime_checkable
class ShardedRelation(StreamedRelation, Protocol):
    """A table in shards. Expressions given to it name only its columns, without qualifiers."""

    @property
    def shard_count(self) -> int:
        """The number of shards."""

    @property
    def remote_table(self) -> Node:
        """The table that each shard reads."""

    def read_as(self, table: NamedTable) -> ShardedRelation:
        """Returns the relation with the FINAL and SAMPLE of ``table``, as written in FROM."""

    def add_conditions(
        self, where: Sequence[Node], order_by: Sequence[OrderItem] = (), limit: int | None = None
    ) -> ShardedRelation:
        """Returns the relation limited to rows for which the conditions hold.

        With ``limit`` each shard sends at least its first rows in this order, and need not send more.
        """

    def answer_select(self, select: Select, columns: Sequence[Column]) -> StreamedRelation:
        """Returns all shards' answers to a query without FROM."""

    def exists_on_shards(self, table: NamedTable) -> bool:
        """Tells whether ``table`` names the same table on this server and on the shards.

        A table of the session alone does not count.
        """


@dataclass(frozen=True, slots=True)
class ResolvedTable(Node):
    """A table in FROM after it has been looked up."""

    relation: Any = field(hash=False)
    alias: str = ""
    database: str | None = None
    table: str = ""
