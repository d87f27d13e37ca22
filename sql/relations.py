"""What a SELECT needs of a table, as protocols that the engine implements.

The package ``sql`` knows nothing else of the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, runtime_checkable

import pyarrow as pa

from parts.common.errors import UserError
from parts.read.part_reader import Part
from parts.table.table_description import Column, TableDescription, TableSchema
from parts.types import DataType


class PartsSnapshot(Protocol):
    """A set of parts held for reading. None of them is deleted before :meth:`release`."""

    @property
    def parts(self) -> Sequence[Part]:
        """The parts of the snapshot."""

    def release(self) -> None:
        """Lets the parts be deleted again. Releasing twice is fine."""


@runtime_checkable
class PartsRelation(Protocol):
    """A MergeTree table."""

    @property
    def description(self) -> TableDescription:
        """The table's columns, keys and settings."""

    def snapshot(self, *, sequential_consistency: bool = False) -> PartsSnapshot:
        """Holds the active parts, sorted by name.

        With ``sequential_consistency`` it holds only parts that a quorum confirmed, and raises 289 where it cannot.
        """


@runtime_checkable
class ArrowRelation(Protocol):
    """A table computed on demand (``system.*``)."""

    @property
    def schema(self) -> TableSchema:
        """The table's columns."""

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Returns a block in storage types (``parts.types``) with at least ``columns``."""


@runtime_checkable
class StreamedRelation(ArrowRelation, Protocol):
    """An :class:`ArrowRelation` that need not fit into memory, such as a file."""

    @property
    def hidden(self) -> Sequence[Column]:
        """Columns beside those of the schema, which ``*`` leaves out."""

    def blocks(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yields blocks of ``columns`` in storage types. ``columns`` is never empty."""


@runtime_checkable
class KeyedRelation(ArrowRelation, Protocol):
    """An :class:`ArrowRelation` that can only be read for given values of one column."""

    @property
    def key_column(self) -> str:
        """The name of that column."""

    def read_keys(self, values: Sequence[str] | None, columns: Sequence[str]) -> pa.Table:
        """Returns the rows with these values of the key column.

        ``None`` means that the query does not limit them; that raises 36 (BAD_ARGUMENTS).
        """


@dataclass(frozen=True)
class ViewRelation:
    """A view. Its query names the databases of its tables."""

    database: str
    name: str
    query: str
    columns: tuple[tuple[str, DataType], ...]


@dataclass(frozen=True)
class BlockRelation:
    """An :class:`ArrowRelation` of a block in memory, such as rows being inserted."""

    schema: TableSchema
    block: pa.Table

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Returns the whole block."""
        return self.block


class TablePositions(Protocol):
    """Answers what functions ask of the places of replicated tables in their orders of commits.

    ``name`` is a table's name as SQL writes it. Raises 36, 48, 60, 225, 999.
    """

    def current_position(self, name: str) -> str:
        """Returns the position behind the newest commit of a table: ``currentPosition('db.t')``."""

    def last_cut(self, name: str) -> str:
        """Returns the cut at which the statement reads a table, or a group of links: ``lastCut('db.t')``."""

    def in_sync_clusters(self, name: str, position: str) -> Sequence[str]:
        """Returns the clusters that have a table's changes up to a position: ``inSyncClusters('db.t', …)``."""


class UnknownPositions:
    """The positions where no server is: every question is refused. Implements :class:`TablePositions`."""

    def current_position(self, name: str) -> str:
        """Raises 48 (NOT_IMPLEMENTED)."""
        raise UserError("NOT_IMPLEMENTED", f"The position of table {name!r} is not asked for here")

    def last_cut(self, name: str) -> str:
        """Raises 48 (NOT_IMPLEMENTED)."""
        raise UserError("NOT_IMPLEMENTED", f"The group of links of {name!r} is not asked for here")

    def in_sync_clusters(self, name: str, position: str) -> Sequence[str]:
        """Raises 48 (NOT_IMPLEMENTED)."""
        raise UserError("NOT_IMPLEMENTED", f"The links of table {name!r} are not asked for here")


UNKNOWN_POSITIONS = UnknownPositions()


class RelationCatalog(Protocol):
    """Finds relations by name."""

    def relation(self, database: str | None, table: str) -> PartsRelation | ArrowRelation | ViewRelation | Any:
        """Returns the relation with this name; ``None`` means the session's database.

        Raises ``UserError`` 60 (UNKNOWN_TABLE), 81 (UNKNOWN_DATABASE).
        """

    def find_file(self, path: str, format: str = "", structure: str = "") -> StreamedRelation:
        """Returns the relation of the table function ``file``. Raises 107, 291, 636."""

    def find_function_tables(self, function: Any) -> Any:
        """Returns the tables that ``remote(…)``, ``merge(…)`` and their like read.

        See ``sql.compile.shards.remote_table_functions``. Raises 701, 519, 636.
        """

    @property
    def positions(self) -> TablePositions:
        """Returns the answers to functions that ask for positions of tables."""


def is_parts_relation(relation: object) -> TypeGuard[PartsRelation]:
    """Returns whether the relation is a MergeTree table.

    It is called often in every query, and ``isinstance`` with a protocol is slow.
    """
    return hasattr(relation, "snapshot")
