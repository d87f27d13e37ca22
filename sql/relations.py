"""What a SELECT sees of a table. The engine implements these; ``sql`` knows nothing else of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, runtime_checkable

import pyarrow as pa

from parts.read.part_reader import Part
from parts.table.table_description import Column, TableDescription, TableSchema
from parts.types import DataType


class PartsSnapshot(Protocol):
    """A set of parts held for reading: nothing in it is deleted before :meth:`release`. Releasing twice is fine."""

    @property
    def parts(self) -> Sequence[Part]: ...

    def release(self) -> None: ...


@runtime_checkable
class PartsRelation(Protocol):
    """A MergeTree table."""

    @property
    def description(self) -> TableDescription: ...

    def snapshot(self, *, sequential_consistency: bool = False) -> PartsSnapshot:
        """The active parts, sorted by name. With ``sequential_consistency`` only what a quorum confirmed (289)."""


@runtime_checkable
class ArrowRelation(Protocol):
    """A table computed on demand (``system.*``)."""

    @property
    def schema(self) -> TableSchema: ...

    def read(self, columns: Sequence[str]) -> pa.Table:
        """A block in storage types (``parts.types``) with at least ``columns``."""


@runtime_checkable
class StreamedRelation(ArrowRelation, Protocol):
    """An :class:`ArrowRelation` that need not fit into memory: a file."""

    @property
    def hidden(self) -> Sequence[Column]:
        """Columns beside those of the schema, which ``*`` leaves out."""

    def blocks(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Blocks in storage types of ``columns``, at least one of which is asked for."""


@runtime_checkable
class KeyedRelation(ArrowRelation, Protocol):
    """An :class:`ArrowRelation` that can only be read for given values of one column."""

    @property
    def key_column(self) -> str: ...

    def read_keys(self, values: Sequence[str] | None, columns: Sequence[str]) -> pa.Table:
        """``None``: the query does not say which; refused with 36 (BAD_ARGUMENTS)."""


@dataclass(frozen=True)
class ViewRelation:
    """A table that is what a query gives. The query names the databases of its tables."""

    database: str
    name: str
    query: str
    columns: tuple[tuple[str, DataType], ...]


@dataclass(frozen=True)
class BlockRelation:
    """An :class:`ArrowRelation` of rows that are at hand: those on their way into a table."""

    schema: TableSchema
    block: pa.Table

    def read(self, columns: Sequence[str]) -> pa.Table:
        return self.block


class RelationCatalog(Protocol):
    """Finds relations by name."""

    def relation(self, database: str | None, table: str) -> PartsRelation | ArrowRelation | ViewRelation | Any:
        """``None`` means the session's database. Raises ``UserError`` 60 (UNKNOWN_TABLE), 81 (UNKNOWN_DATABASE)."""

    def files(self, path: str, format: str = "", structure: str = "") -> StreamedRelation:
        """The table function ``file``. Raises 107, 291, 636."""

    def other_tables(self, function: Any) -> Any:
        """What ``remote(…)``, ``merge(…)`` and others read (``sql.compile.shards.remote_table_functions``). Raises 701,
        519, 636."""


def is_parts_relation(relation: object) -> TypeGuard[PartsRelation]:
    """Whether it is a MergeTree table: asked many times a query, and a protocol is slow to ask."""
    return hasattr(relation, "snapshot")
