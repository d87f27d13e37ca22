"""Copies the source's table to a link's target, on the server that runs the link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from coordination.links.link_definition import LinkDefinition
from coordination.links.link_failures import LinkStopped
from engine.links.linkable_tables import require_linkable
from engine.tables.capabilities.table_bootstrap import BootstrapProgress, HeldSource
from engine.tables.owned_table import OwnedTable
from parts.common.errors import UserError
from parts.common.query_status import QueryStatus

_MEBIBYTE = 1024 * 1024


class Upstream(Protocol):
    """The source of a link."""

    def open_held(self) -> HeldSource:
        """Returns the source as one that is copied."""


def copy_table(
    definition: LinkDefinition,
    table: OwnedTable,
    upstream: Upstream,
    status: QueryStatus,
    tell: Callable[[str], object],
) -> None:
    """Copies the source's table, whole or not at all, and gives the link its place with the same commit.

    May be repeated after any error. ``tell`` is called with what has been done, for people.

    Raises ``LinkStopped`` for a target that has rows, unless SYSTEM BOOTSTRAP asked for their replacement, and what the
    source and the target raise.
    """
    taker = require_linkable(table).bootstrap.taker
    taker.clean_up(definition.uuid)

    def note(progress: BootstrapProgress) -> None:
        tell(describe_progress(progress))

    try:
        taker.bootstrap(definition, upstream.open_held(), status, replaces=definition.wants_copy, note=note)
    except UserError as error:
        if error.name == "BAD_ARGUMENTS":
            raise LinkStopped(error.message) from error
        raise


def describe_progress(progress: BootstrapProgress) -> str:
    """Says how far a bootstrap is."""
    closed = "; the table takes no writes now" if progress.is_closed else ""
    return (
        f"Copying the source, round {progress.rounds}: {progress.parts_done} of {progress.parts} parts are here, "
        f"{progress.bytes_done / _MEBIBYTE:.1f} of {progress.size_bytes / _MEBIBYTE:.1f} MiB came{closed}"
    )
