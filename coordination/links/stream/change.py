"""One change of a linked table: what a link sends, and what its target applies once.

A change is one commit of its origin: an INSERT's block, a transaction, commands on partitions, a mutation, an ALTER.
It keeps its position through any number of links. ``place`` and the block numbers are those of the table from which
it is read: they give the order in which that table has the change.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from coordination.links.positions import Position
from parts.common.part_name import PartName


@dataclass(frozen=True, slots=True)
class Drop:
    """The blocks of a partition below ``number`` are gone."""

    partition_id: str
    number: int


@dataclass(frozen=True, slots=True)
class Mutation:
    """A mutation's text, and by partition the number below which it changes the blocks."""

    text: str
    numbers: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Rows that a change brings, as the part that its commit made."""

    part: PartName
    content_hash: str = ""
    rows: int = 0
    size_bytes: int = 0
    block_id: str = ""
    """Deduplication id; "" for none."""
    is_lost: bool = False
    """No replica of the origin has the rows any more. The block keeps its place, and ``rows`` are counted as lost."""

    @property
    def partition_id(self) -> str:
        return self.part.partition_id

    @property
    def number(self) -> int:
        """The block's number, on which commands decide."""
        return self.part.max_block


@dataclass(frozen=True, slots=True)
class Definition:
    """The definition that an ALTER gave the table; ``version`` counts the ALTERs, as parts name it."""

    version: int
    metadata: str
    columns: str


@dataclass(frozen=True, slots=True)
class Change:
    """One commit of its origin."""

    position: Position
    """Where it was first made."""
    place: int
    """The zxid of its commit in the table from which it is read; a batch's changes share one."""
    commit_ms: int
    """Time of the first commit by its ZooKeeper's clock, in milliseconds since the epoch."""
    previous: int
    """The zxid of the change sent before it in its origin's stream; 0 for the first."""
    blocks: tuple[Block, ...] = ()
    drops: tuple[Drop, ...] = ()
    mutations: tuple[Mutation, ...] = ()
    definitions: tuple[Definition, ...] = ()

    @property
    def rows(self) -> int:
        """The rows that it brings; lost ones do not count."""
        return sum(block.rows for block in self.blocks if not block.is_lost)

    @property
    def size_bytes(self) -> int:
        """The bytes of its parts that travel."""
        return sum(block.size_bytes for block in self.blocks if not block.is_lost)

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing."""
        return not (self.blocks or self.drops or self.mutations or self.definitions)

    def block_numbers(self) -> Iterator[tuple[str, int]]:
        """Yields the partition and the number of every block."""
        for block in self.blocks:
            yield block.partition_id, block.number

    def drop_numbers(self) -> Iterator[tuple[str, int]]:
        """Yields the partition and the number of every drop."""
        for drop in self.drops:
            yield drop.partition_id, drop.number

    def mutation_numbers(self) -> Iterator[tuple[str, int]]:
        """Yields the partitions and the numbers of every mutation."""
        for mutation in self.mutations:
            yield from mutation.numbers

    def command_numbers(self) -> Iterator[tuple[str, int]]:
        """Yields the partition and the number of every command: it covers exactly the blocks below it."""
        yield from self.drop_numbers()
        yield from self.mutation_numbers()

    def numbers(self) -> Iterator[tuple[str, int]]:
        """Yields the partition and the number of every block and command."""
        yield from self.block_numbers()
        yield from self.command_numbers()
