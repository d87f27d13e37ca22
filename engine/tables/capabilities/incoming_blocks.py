"""How a target gets the files of a batch's blocks, and what its materialized views make of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from coordination.keeper.interface import MultiFailed, Op
from coordination.links.stream.change import Block, Change
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus

FetchBlock = Callable[[Change, Block, Path], None]
"""Fetches the files of a change's block into an empty directory, checked and durable."""
WriteBlock = Callable[[Path], object]
"""Writes the files of a fetched block into an empty directory, checked and durable."""
FetchSmallBlocks = Callable[[Sequence[tuple[Change, Block]]], Mapping[PartName, WriteBlock]]
"""Fetches small blocks together. Some may be missing in the answer: they are fetched by themselves."""


class RefetchBlock(Protocol):
    """Fetches a block that this table has committed, as ``FetchBlock`` does."""

    def __call__(self, change: Change, block: Block, directory: Path, *, may_ask: bool = True) -> None:
        """Fetches it. The change has its position alone.

        The block has the part's name at the source that gave it, and the content hash by which other sources find it.
        ``may_ask``: whether the source may ask its own sources.
        """


class StagedViews(Protocol):
    """Staged rows that the materialized views of a target made of a batch.

    The batch's multi commits them. Used by one thread at a time.
    """

    def plan(self) -> Sequence[Op]:
        """Returns the operations of all tables that views fill, with new block numbers. Raises ``GateBarred``."""

    def note_failure(self, error: MultiFailed) -> None:
        """Learns from the multi's failure what the next plan must know."""

    def release(self) -> None:
        """Gives the numbers of the last plan up, so that its multi fails if it is still on its way."""

    def note_commit(self) -> None:
        """The multi was carried out."""

    def carry_out(self) -> None:
        """Lets this server show the committed rows soon."""

    def abort(self) -> None:
        """Drops what is staged, unless it is committed."""


RunViews = Callable[[Iterable[pa.Table], QueryStatus], StagedViews]
"""Runs the views of a target over blocks of its rows, and stages what they make."""
