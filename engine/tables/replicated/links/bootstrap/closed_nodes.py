"""Reads the nodes of a table that a bootstrap has closed, for the versions that its commit expects."""

from __future__ import annotations

from coordination.keeper.interface import Keeper, NoNode
from coordination.links.link_definition import LinkDefinition
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Bar, Gate
from coordination.nodes.paths import TablePaths
from parts.common.errors import ConflictError, UnavailableError


def read_vector(keeper: Keeper, table: TablePaths) -> tuple[VersionVector, int]:
    """Reads the vector and its version; makes an empty node if there is none."""
    try:
        data, stat = keeper.get(table.linked.vector)
    except NoNode:
        keeper.create(table.linked.vector)
        data, stat = keeper.get(table.linked.vector)
    return VersionVector.parse(data), stat.version


def require_bar(keeper: Keeper, table: TablePaths, bar: Bar) -> tuple[Gate, int]:
    """Returns the gate and its version. Raises 236 (ABORTED) if it does not have the bar any more."""
    data, stat = keeper.get(table.gate)
    gate = Gate.parse(data)
    if bar not in gate.bars:
        raise ConflictError("ABORTED", f"Another server took over what {bar.owner} did; nothing was committed")
    return gate, stat.version


def require_link(keeper: Keeper, table: TablePaths, link: LinkDefinition) -> tuple[LinkDefinition, int]:
    """Returns the link's definition now, and its version. Raises 236 (ABORTED) if it is disabled or gone."""
    answer = keeper.get_many([table.linked.incoming_link(link.name)])[0]
    definition = LinkDefinition.parse(answer[0]) if answer is not None else None
    if answer is None or definition is None or definition.uuid != link.uuid or not definition.is_enabled:
        state = "disabled" if definition is not None and definition.uuid == link.uuid else "dropped"
        raise UnavailableError("ABORTED", f"Link {link.name} was {state} during its bootstrap; nothing was committed")
    return definition, answer[1].version
