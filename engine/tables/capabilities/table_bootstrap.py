"""Interfaces of the two ends of a bootstrap: one table gives its parts, the other takes them.

The giver is one replica of a link's source, the taker one replica of its target. All methods may be called from any
thread of the process that owns the table's files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from coordination.links.bootstrap_plan import HeldPart, HeldTable
from coordination.links.link_definition import LinkDefinition
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.store.part_states import Snapshot


class BootstrapGiver(Protocol):
    """A table whose parts a link's target copies."""

    def hold(self, link: str, status: QueryStatus) -> HeldTable:
        """Holds the table as of a place of its change stream, for a registered link.

        ``link`` is the name by which the source knows it. Ends the link's former hold.

        Raises 36 (BAD_ARGUMENTS) for a link that is not registered. Raises 159 (TIMEOUT_EXCEEDED), which names the
        reason, if there is no such place now; and the errors of a table that is read-only.
        """

    def open_held_part(self, link: str, lease: str, part: PartName) -> tuple[Snapshot, Path]:
        """Returns the files of a held part, held by the snapshot, and prolongs the hold.

        Raises 232 (NO_SUCH_DATA_PART) if the hold has ended or does not have the part.
        """

    def release(self, link: str) -> bool:
        """Ends the hold; tells whether there was one."""


class HeldSource(Protocol):
    """The giver, as the taker reaches it."""

    def hold(self, status: QueryStatus) -> HeldTable:
        """Takes the place anew; see :meth:`BootstrapGiver.hold`."""

    def fetch(self, held: HeldTable, part: HeldPart, directory: Path, status: QueryStatus) -> None:
        """Writes the part's files into an empty directory, checked against their checksums, and durable."""

    def release(self) -> None:
        """Ends the hold."""


@dataclass(slots=True)
class BootstrapProgress:
    """How far a bootstrap is. The taker changes it as it goes."""

    rounds: int = 0
    """Copies of the table so far; each has a later place."""
    parts: int = 0
    """Of the present round."""
    parts_done: int = 0
    size_bytes: int = 0
    """Bytes of files that the present round has to fetch."""
    bytes_done: int = 0
    is_closed: bool = False
    """The table is closed for the last copy."""


@dataclass(frozen=True, slots=True)
class BootstrapReport:
    """The effect of a bootstrap."""

    place: int
    """F: the changes behind it come by the link."""
    parts: int
    rows: int
    fetched_bytes: int
    block_ids_left_out: int = 0
    """Ids of the oldest blocks, for which the commit had no room."""


class BootstrapTaker(Protocol):
    """A table that is copied from the source of a link."""

    def bootstrap(
        self,
        link: LinkDefinition,
        source: HeldSource,
        status: QueryStatus,
        *,
        replaces: bool = False,
        note: Callable[[BootstrapProgress], object] = lambda progress: None,
    ) -> BootstrapReport:
        """Copies the source's table, whole or not at all, and gives the link its place.

        May be repeated after any error.

        ``replaces``: the copy takes the place of what the table has; otherwise the table must be empty. ``note`` is
        called whenever something has been done.

        Raises 36 (BAD_ARGUMENTS) for a table that is not empty, and ``UncoveredSchema`` for one that cannot hold the
        rows. Raises 117 (INCORRECT_DATA) if the table has changes that the source lacks, and 236 (ABORTED) if the link
        was disabled, changed or dropped meanwhile. Raises all that the source, ZooKeeper and the disk raise.
        """

    def clean_up(self, link_uuid: str) -> None:
        """Opens a table that a bootstrap of this link closed and did not open again.

        Its copies stay for the next one. Called by the server that is elected to run the link.
        """

    def forget_copies(self, link_uuid: str) -> None:
        """Removes what was copied here for a link that needs it no more."""


class TableBootstrap(Protocol):
    """Both ends of bootstraps at one replica of a table."""

    @property
    def giver(self) -> BootstrapGiver:
        """The table as one that is copied to a link's target."""

    @property
    def taker(self) -> BootstrapTaker:
        """The table as one that is copied from a link's source."""
