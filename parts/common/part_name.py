"""Part names: ``<partition_id>_<min_block>_<max_block>_<level>[_<mutation>]``.

Source: ClickHouse documentation, "MergeTree data storage", and the ``name`` column of ``system.parts``. A partition id
holds no underscore; block numbers are decimal. Names sort by partition, then block range.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass
from functools import total_ordering

from parts.common.errors import UserError
from parts.common.safe_names import is_partition_id

MAX_LEVEL = 999_999_999
"""Level of a drop range: higher than any level merging can reach."""
_MOST_DIGITS = 20


@total_ordering
@dataclass(frozen=True, slots=True)
class PartName:
    """The identity of a part: the blocks it holds, and how often they were merged."""

    partition_id: str
    min_block: int
    max_block: int
    level: int
    mutation: int = 0

    @classmethod
    def parse(cls, text: str) -> PartName:
        """Parses a directory or znode name. Raises ``UserError`` 233 (BAD_DATA_PART_NAME)."""
        name = cls.try_parse(text)
        if name is None:
            raise UserError("BAD_DATA_PART_NAME", f"Unexpected part name: {text!r}, expected e.g. 202001_1_3_1")
        return name

    @classmethod
    def try_parse(cls, text: str) -> PartName | None:
        """Parses as :meth:`parse`; returns ``None`` if the text is not a part name."""
        fields = text.split("_")
        if len(fields) not in (4, 5) or not is_partition_id(fields[0]):
            return None
        if not all(field.isdecimal() and field.isascii() and len(field) <= _MOST_DIGITS for field in fields[1:]):
            return None
        numbers = [int(field) for field in fields[1:]]
        if numbers[0] > numbers[1]:
            return None
        return cls(fields[0], *numbers)

    def __str__(self) -> str:
        base = f"{self.partition_id}_{self.min_block}_{self.max_block}_{self.level}"
        return f"{base}_{self.mutation}" if self.mutation else base

    def sort_key(self) -> tuple[str, int, int, int, int]:
        """Returns a key that sorts as the name does; faster for many names."""
        return (self.partition_id, self.min_block, self.max_block, self.level, self.mutation)

    def __lt__(self, other: PartName) -> bool:
        return self.sort_key() < other.sort_key()

    @property
    def data_version(self) -> int:
        """The number of the last mutation applied to the part's rows.

        Blocks are never merged if only some of them lack a mutation, so one number is enough.
        """
        return self.mutation or self.min_block

    def covers(self, other: PartName) -> bool:
        """Tells whether this part has every block of ``other``, at no lower level and mutation.

        A part covers itself. A drop range covers its blocks at every mutation.
        """
        return (
            self.partition_id == other.partition_id
            and self.min_block <= other.min_block
            and other.max_block <= self.max_block
            and self.level >= other.level
            and (self.mutation >= other.mutation or self.level == MAX_LEVEL)
        )

    def is_disjoint(self, other: PartName) -> bool:
        """Tells whether the two share no block number."""
        return (
            self.partition_id != other.partition_id
            or self.max_block < other.min_block
            or other.max_block < self.min_block
        )

    def intersects(self, other: PartName) -> bool:
        """Tells whether the two share blocks and neither covers the other. A table never has both."""
        return not self.is_disjoint(other) and not self.covers(other) and not other.covers(self)


def make_merged_name(sources: list[PartName]) -> PartName:
    """Returns the name of the merge of ``sources``, which are of one partition, in block order."""
    assert sources
    assert len({s.partition_id for s in sources}) == 1
    assert all(a.max_block < b.min_block for a, b in itertools.pairwise(sources))
    return PartName(
        sources[0].partition_id,
        sources[0].min_block,
        sources[-1].max_block,
        max(source.level for source in sources) + 1,
        max(source.mutation for source in sources),
    )


def select_not_covered(names: Collection[PartName]) -> list[PartName]:
    """Returns the names that no other of them covers, sorted. No two may intersect."""
    found: list[PartName] = []
    # A cover comes first: it begins no later, ends no earlier, and its level is higher.
    for name in sorted(names, key=lambda n: (n.partition_id, n.min_block, -n.max_block, -n.level, -n.mutation)):
        if not (found and found[-1].covers(name)):
            found.append(name)
    return found
