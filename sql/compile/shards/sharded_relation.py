"""What the compiler sees of a table whose rows lie in shards, on other servers: it answers queries over each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from parts.table.table_description import Column
from sql.grammar.syntax_tree import NamedTable, Node, OrderItem, Select
from sql.relations import StreamedRelation

SHARD_NUMBER = "_shard_num"
"""The column that tells of a row which shard it comes from; in what a shard is asked, its number."""


@runtime_checkable
class ShardedRelation(StreamedRelation, Protocol):
    """Expressions that it is given name nothing but its columns, bare."""

    @property
    def shard_count(self) -> int: ...

    @property
    def remote_table(self) -> Node:
        """What each shard reads."""

    def read_as(self, table: NamedTable) -> ShardedRelation:
        """With FINAL and SAMPLE of what stands in FROM."""

    def narrowed(
        self, where: Sequence[Node], order_by: Sequence[OrderItem] = (), limit: int | None = None
    ) -> ShardedRelation:
        """Of the rows for which these hold; with ``limit``, at least the first so many in this order."""

    def answering(self, select: Select, columns: Sequence[Column]) -> StreamedRelation:
        """The rows of all shards' answers to a query, which says nothing of FROM."""

    def knows(self, table: NamedTable) -> bool:
        """Whether this names the same on this server and on the shards, and is no table of the session alone."""


@dataclass(frozen=True, slots=True)
class ResolvedTable(Node):
    """What stands in FROM once it has been looked up."""

    relation: Any = field(hash=False)
    alias: str = ""
    database: str | None = None
    table: str = ""
