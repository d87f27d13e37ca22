"""The materialized views of a link's target, and whether the link can fill their tables.

With ``run_views = 1`` a batch of the link and what the views make of it are one multi. So the tables that views fill
must be replicated, and in the same ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from engine.catalog.catalog import Catalog
from engine.catalog.view_targets import MOST_VIEW_LEVELS, make_too_deep_error, resolve_stored_table
from engine.links.linkable_tables import explain_unlinkable
from engine.tables.capabilities.incoming_blocks import StagedViews
from engine.tables.owned_table import OwnedTable
from parts.common.errors import UserError
from parts.common.query_status import QueryStatus

RunTargetViews = Callable[[OwnedTable, Iterable[pa.Table], QueryStatus], StagedViews]
"""Runs the views of a table over blocks of its rows, and stages what they make."""


@dataclass(frozen=True, slots=True)
class TargetView:
    """A view, the table that it reads, and the table that it fills."""

    view: OwnedTable
    source: OwnedTable
    target: OwnedTable


def find_target_views(catalog: Catalog, table: OwnedTable) -> list[TargetView]:
    """Returns the views that read the table.

    Raises 695 if one could not be loaded, 60 if its target is gone.
    """
    return [TargetView(view, table, resolve_stored_table(view, catalog)) for view in catalog.require_views(table)]


def require_fit_views(catalog: Catalog, table: OwnedTable) -> None:
    """Raises 48 (NOT_IMPLEMENTED) if a link cannot fill a table of its target's views.

    The views over such a table count too.

    Raises 306 (TOO_DEEP_RECURSION) for a circle of views.
    """
    for found in _walk(catalog, table, 0):
        require_fit(found)


def _walk(catalog: Catalog, table: OwnedTable, level: int) -> Iterator[TargetView]:
    if level >= MOST_VIEW_LEVELS:
        raise make_too_deep_error(table.definition.full_name)
    for found in find_target_views(catalog, table):
        yield found
        yield from _walk(catalog, found.target, level + 1)


def require_fit(found: TargetView) -> None:
    """Raises 48 (NOT_IMPLEMENTED) if a link cannot fill the view's target."""
    target = found.target
    problem = explain_unlinkable(target)
    if problem or target.join_transaction is None:
        raise UserError(
            "NOT_IMPLEMENTED",
            f"run_views = 1 cannot fill {target.definition.full_name}, the target of materialized view "
            f"{found.view.definition.full_name}, in the commit of a link's batch: {problem}. Make it a Replicated "
            "table in the ZooKeeper of the cluster, drop the view, or set run_views = 0 for the link",
        )
