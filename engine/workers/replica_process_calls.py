"""The calls of a worker to the process that owns the tables, as the worker's tables see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from engine.tables.capabilities.block_memory import BlockMemory
from engine.tables.insert_sink import InsertOutcome, TemporaryPart
from engine.tables.statement_options import InsertOptions
from parts.common.errors import CorruptionError
from parts.read.part_reader import Part
from sql.grammar.statements.statement import CreateTable


class ReplicaProcessCalls(Protocol):
    """The calls of a worker to the replica process about its tables."""

    def create_table(self, database: str, create: CreateTable) -> bool:
        """Whether a table was made."""

    def change_catalog(self, method: str, *arguments: object) -> Any:
        """A method of the catalog, with its result."""

    def insert(self, uid: int, parts: Sequence[TemporaryPart], options: InsertOptions) -> InsertOutcome:
        """Commits the parts."""

    def begin_insert(self, uid: int, partition_id: str, options: InsertOptions) -> PendingInsert | None:
        """Takes a block number for parts that are still being written; ``None`` if that is not worth it."""

    def block_memory(self, uid: int) -> BlockMemory:
        """The memory of a table that remembers the blocks of its INSERTs."""

    def pin(
        self, uid: int, names: Sequence[str] | None, *, sequential_consistency: bool = False
    ) -> tuple[int, list[str]]:
        """Pins the named parts, or all readable ones. Returns a number for :meth:`unpin`, and what stays."""

    def unpin(self, number: int) -> None: ...

    def report_corruption(self, uid: int, error: CorruptionError) -> None: ...

    def opened_part(self, uid: int, name: str) -> Part | None:
        """The part as the replica process knows it; ``None``: it is not there any more."""


class PendingInsert(Protocol):
    """Ends with one call of either."""

    def commit(self, parts: Sequence[TemporaryPart]) -> InsertOutcome: ...

    @property
    def give_up(self) -> Callable[[], None]: ...
