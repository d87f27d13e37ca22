"""A view of a group as one statement holds it, in the process that owns the tables."""

from __future__ import annotations

from collections.abc import Mapping

from engine.tables.owned_table import OwnedTable
from engine.tables.services import TableServices
from engine.tables.shown_groups.shown_group import ShownGroup, ShownView, make_hidden_error
from parts.common.errors import UnavailableError, UserError
from parts.store.part_states import Snapshot


class HeldView:
    """Implements ``engine.tables.capabilities.group_view.GroupView``."""

    def __init__(self, group: ShownGroup, view: ShownView) -> None:
        """Takes over the caller's hold of the view."""
        self._group = group
        self._view: ShownView | None = view
        self.cut = view.cut
        self.place = view.place

    def snapshot(self, table: OwnedTable) -> Snapshot:
        """Returns the parts that the table had at the cut."""
        assert self._view is not None, "the view is held"
        assert table.replication is not None, "only replicated tables are in groups"
        view, found = self._view, self._view.snapshots.get(table.replication.paths.root)
        if found is None:
            raise make_hidden_error(table.definition.full_name, self._group.name, "it has not entered with a cut yet")
        view.hold()
        schema = table.description.schema
        return Snapshot([part.adapt_to_schema(schema) for part in found.parts], lambda _: view.give_up())

    @property
    def snapshots(self) -> Mapping[str, Snapshot]:
        """The parts by the root of their table in ZooKeeper. They are held as long as this view is."""
        assert self._view is not None, "the view is held"
        return self._view.snapshots

    def hold_again(self) -> HeldView:
        """Returns another hold of the view, which goes on when this one is given up."""
        assert self._view is not None, "the view is held"
        self._view.hold()
        return HeldView(self._group, self._view)

    def release(self) -> None:
        """Gives the view up. Releasing twice is fine."""
        view, self._view = self._view, None
        if view is not None:
            view.give_up()

    def __enter__(self) -> HeldView:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


def open_group_view(services: TableServices, name: str, wanted: str, wait_seconds: float) -> HeldView:
    """Returns the tables of a group at the cut that is shown; see ``engine.queries.context.Server``."""
    group = services.shown_groups.find(name)
    if group is None:
        raise UserError("BAD_ARGUMENTS", f"No table of this server is in a group of links named {name[:250]!r}")
    if wanted:
        place = _parse_cut(wanted, group)
        if place is not None and not group.wait_until_shown(place, wait_seconds, services.wait_for):
            raise UnavailableError(
                "TIMEOUT_EXCEEDED",
                f"Group {name} does not show link_read_cut {wanted} after {wait_seconds:g} seconds: its cut here is "
                f"{group.shown_place}. {group.explain()}",
            )
    return HeldView(group, group.take(f"of group {name}"))


def _parse_cut(text: str, group: ShownGroup) -> int | None:
    """Returns the place of a cut; ``None`` for a cut of another source, which does not concern the group.

    Raises 36 (BAD_ARGUMENTS) for another text.
    """
    source, colon, place = text.rpartition(":")
    if not colon or not place.isdecimal() or not source:
        raise UserError("BAD_ARGUMENTS", f"link_read_cut must be a cut as lastCut() tells it, got {text[:100]!r}")
    definition = group.definition
    return int(place) if definition is None or source == definition.source_uuid else None
