"""The nodes of a link at its target: made, changed and dropped, each in one multi.

======================================  ===============================================================
``<root>/links/in/<name>``              the definition (``coordination.links.link_definition``)
``<root>/links/in/<name>/status``       the state, written by the server that runs the link
``<root>/links/in/<name>/leader``       held by that server
``<root>/links/gate``                   names the link, so that it begins and ends in the order of commits
``/pando/links/<name>``                 the name, unique in the cluster (``coordination.links.link_names``)
======================================  ===============================================================

Invariants: definition, name and the gate's entry come and go in one multi. A crash leaves a link whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from coordination.keeper.interface import (
    BadVersion,
    Create,
    Delete,
    Keeper,
    KeeperConnectionLoss,
    MultiFailed,
    NoNode,
    NotEmpty,
    Op,
    SetData,
)
from coordination.links.bootstrap_plan import bootstrap_bar_owner
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_names import (
    LINKS_PATH,
    DatabaseLink,
    LinkName,
    TableLinkName,
    find_link_name,
    list_link_names,
    name_path,
    parse_link_name,
)
from coordination.links.link_settings import LinkSettings
from coordination.links.written_epoch import note_written
from coordination.nodes.gate import Gate
from coordination.nodes.gate_link import GateLink, LinkDirection
from coordination.nodes.paths import TablePaths
from coordination.nodes.replica_activation import FEATURE_LINKS
from coordination.nodes.table_gate import move_gate
from parts.common.errors import ConflictError, UserError

_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class StoredLink:
    """A link of a table as ZooKeeper has it."""

    table: TablePaths
    definition: LinkDefinition
    version: int
    """The version of the definition's node."""


def create_link(keeper: Keeper, table: TablePaths, definition: LinkDefinition, peer_uuid: str) -> None:
    """Makes a link. ``peer_uuid`` is the UUID of the source's cluster.

    Does nothing if the link is there with this UUID. Raises 36 (BAD_ARGUMENTS) if the name is taken, the table has a
    link of this source, or another link that lets nobody else write; 48 (NOT_IMPLEMENTED) if a replica does not know
    links; 242, 999.
    """
    settings = LinkSettings.parse(definition.settings)
    entry = GateLink(
        definition.name,
        LinkDirection.IN,
        definition.uuid,
        peer_uuid,
        definition.source_cluster,
        settings.allows_writes,
        is_collecting=settings.is_collecting,
    )

    def change(gate: Gate) -> Gate:
        if (found := gate.find_link(entry.name)) is not None and found.uuid == entry.uuid:
            return gate
        _require_free(keeper, gate, table, definition, entry)
        return note_numbers(gate.with_link(entry))

    def note_numbers(gate: Gate) -> Gate:
        return note_written(gate) if not entry.is_two_way and any(keeper.children_many([table.block_numbers])) else gate

    keeper.create_parents(LINKS_PATH)
    move_gate(
        keeper,
        table,
        change,
        along=lambda _: _creation_ops(keeper, table, definition),
        feature=FEATURE_LINKS,
        what="A link",
    )
    move_gate(keeper, table, note_numbers)  # an INSERT may have been committed meanwhile


def _require_free(keeper: Keeper, gate: Gate, table: TablePaths, new: LinkDefinition, entry: GateLink) -> None:
    for link in gate.links_of(LinkDirection.IN):
        if link.name == new.name:
            raise make_taken_error(new.name)
        other = _read_definition(keeper, table, link.name)
        if other is None:
            continue
        if (link.peer, other.source_database, other.source_table) == (
            entry.peer,
            new.source_database,
            new.source_table,
        ):
            raise UserError(
                "BAD_ARGUMENTS",
                f"Link {link.name!r} brings the changes of {new.source_database}.{new.source_table} of cluster "
                f"{new.source_cluster} to this table already",
            )
        if not (link.is_two_way and entry.is_two_way):
            closed = link.name if not link.is_two_way else new.name
            raise UserError(
                "BAD_ARGUMENTS",
                f"The table is the target of link {link.name!r}, and link {closed!r} lets nobody else write to it. "
                "A table with several sources needs two_way = 1 or preserve_timestamps = 0 on each of its links",
            )


def _read_definition(keeper: Keeper, table: TablePaths, name: str) -> LinkDefinition | None:
    try:
        return LinkDefinition.parse(keeper.get(table.linked.incoming_link(name))[0])
    except NoNode:
        return None


def _creation_ops(keeper: Keeper, table: TablePaths, definition: LinkDefinition) -> Sequence[Op]:
    name = TableLinkName(
        definition.name,
        definition.uuid,
        table.root,
        definition.source_cluster,
        definition.source_database,
        definition.source_table,
        definition.database_link,
    )
    parent = keeper.exists(table.linked.incoming)
    return [
        take_name(keeper, name),
        *([Create(table.linked.incoming)] if parent is None else []),
        Create(table.linked.incoming_link(definition.name), definition.to_bytes()),
    ]


def take_name(keeper: Keeper, name: LinkName) -> Op:
    """Returns the operation that takes a name. Raises 36 (BAD_ARGUMENTS) if it is in use."""
    try:
        data, stat = keeper.get(name_path(name.name))
    except NoNode:
        return Create(name_path(name.name), name.to_bytes())
    if not is_left_over(keeper, parse_link_name(name.name, data)):
        raise make_taken_error(name.name)
    return SetData(name_path(name.name), name.to_bytes(), stat.version)


def is_left_over(keeper: Keeper, name: LinkName) -> bool:
    """Tells whether the table of a link is gone, so that only the name is left."""
    if isinstance(name, DatabaseLink):
        return False
    found = _read_definition(keeper, TablePaths(name.path), name.name)
    return found is None or found.uuid != name.uuid


def make_taken_error(name: str) -> UserError:
    """Returns the error for a name that a link of this cluster has."""
    return UserError("BAD_ARGUMENTS", f"There is a link {name!r} already; DROP REPLICATION LINK {name} ends it")


def find_link(keeper: Keeper, name: str) -> StoredLink | DatabaseLink | None:
    """Returns a link, or ``None``."""
    found = find_link_name(keeper, name)
    if found is None or isinstance(found, DatabaseLink):
        return found
    table = TablePaths(found.path)
    try:
        data, stat = keeper.get(table.linked.incoming_link(name))
    except NoNode:
        return None
    definition = LinkDefinition.parse(data)
    return StoredLink(table, definition, stat.version) if definition.uuid == found.uuid else None


def require_link(keeper: Keeper, name: str) -> StoredLink | DatabaseLink:
    """Returns a link. Raises 36 (BAD_ARGUMENTS) if this cluster is the target of none of this name."""
    keeper.sync("/")
    found = find_link(keeper, name)
    if found is None:
        raise make_unknown_error(keeper, name)
    return found


def make_unknown_error(keeper: Keeper, name: str) -> UserError:
    """Returns the error for a name that no link has."""
    known = ", ".join(each.name for each in list_link_names(keeper)[:20]) or "none"
    return UserError(
        "BAD_ARGUMENTS", f"There is no link {name[:250]!r} whose target is this cluster; the links are: {known}"
    )


def change_link(
    keeper: Keeper, name: str, change: Callable[[LinkDefinition], LinkDefinition]
) -> tuple[LinkDefinition, LinkDefinition]:
    """Gives a link of a table another definition; returns the former and the new one.

    ``change`` may be called several times. Raises 36 (BAD_ARGUMENTS) for an unknown link.
    """
    for _ in range(_ATTEMPTS):
        found = require_link(keeper, name)
        assert isinstance(found, StoredLink)
        new = change(found.definition)
        if new == found.definition:
            return new, new
        ops: list[Op] = [SetData(found.table.linked.incoming_link(name), new.to_bytes(), found.version)]
        try:
            gate_data, gate_stat = keeper.get(found.table.gate)
            changed = _change_gate(Gate.parse(gate_data), new)
            if changed is not None:
                ops.append(SetData(found.table.gate, changed.to_bytes(), gate_stat.version))
            keeper.multi(ops)
            return found.definition, new
        except (NoNode, KeeperConnectionLoss):
            continue
        except MultiFailed as error:
            if not isinstance(error.cause, BadVersion | NoNode):
                raise error.cause from error
    raise ConflictError("KEEPER_EXCEPTION", f"Others keep changing link {name!r}; repeat the statement")


def request_copy(keeper: Keeper, name: str) -> LinkDefinition:
    """Makes a link begin anew: its source's table takes the place of what the target has.

    Returns the new definition. Raises 36 (BAD_ARGUMENTS) for an unknown link.
    """
    return change_link(keeper, name, lambda link: replace(link, is_begun=False, wants_copy=True))[1]


def rename_source(keeper: Keeper, link: LinkDefinition, database: str, table: str) -> None:
    """Notes that the source of a link has another name now.

    Does nothing if the link changes meanwhile: the source's next answer says it again.
    """
    found = find_link(keeper, link.name)
    if not isinstance(found, StoredLink) or found.definition.uuid != link.uuid:
        return
    try:
        named, stat = keeper.get(name_path(link.name))
    except NoNode:
        return
    title = parse_link_name(link.name, named)
    assert isinstance(title, TableLinkName)
    new = replace(found.definition, source_database=database, source_table=table)
    ops: list[Op] = [
        SetData(found.table.linked.incoming_link(link.name), new.to_bytes(), found.version),
        SetData(
            name_path(link.name), replace(title, source_database=database, source_table=table).to_bytes(), stat.version
        ),
    ]
    try:
        keeper.multi(ops)
    except MultiFailed as error:
        if not isinstance(error.cause, BadVersion | NoNode):
            raise error.cause from error


def _change_gate(gate: Gate, new: LinkDefinition) -> Gate | None:
    """Returns the gate with what the link's settings say of writes; ``None`` if that is as it was."""
    found = gate.find_link(new.name)
    settings = LinkSettings.parse(new.settings)
    if found is None or (found.is_two_way, found.is_collecting) == (settings.allows_writes, settings.is_collecting):
        return None
    others = [link for link in gate.links_of(LinkDirection.IN) if link.name != new.name]
    if others and not settings.allows_writes:
        raise UserError(
            "BAD_ARGUMENTS",
            f"The table is the target of link {others[0].name!r} too, so link {new.name!r} must let others write",
        )
    new_link = replace(found, is_two_way=settings.allows_writes, is_collecting=settings.is_collecting)
    return (gate if settings.allows_writes else note_written(gate)).with_link(new_link)


def drop_link(keeper: Keeper, name: str) -> TableLinkName | None:
    """Removes a link of a table; returns what was there, or ``None``. Left-over names go too."""
    for _ in range(_ATTEMPTS):
        keeper.sync("/")
        found = find_link_name(keeper, name)
        if found is None:
            return None
        assert isinstance(found, TableLinkName)
        if is_left_over(keeper, found):
            keeper.delete_tree(name_path(name))
            return found
        try:
            _remove(keeper, TablePaths(found.path), found)
        except (NotEmpty, NoNode):  # the server that runs the link wrote its state, or somebody else dropped it
            continue
        return found
    raise ConflictError("KEEPER_EXCEPTION", f"Others keep changing link {name!r}; repeat the statement")


def _remove(keeper: Keeper, table: TablePaths, name: TableLinkName) -> None:
    def change(gate: Gate) -> Gate:
        found = gate.find_link(name.name)
        if found is None or found.uuid != name.uuid:
            return gate
        return gate.without_link(name.name).without_bar(bootstrap_bar_owner(name.uuid))

    def along(_: Gate) -> Sequence[Op]:
        path = table.linked.incoming_link(name.name)
        return [
            *(Delete(f"{path}/{child}") for child in keeper.children(path)),
            Delete(path),
            Delete(name_path(name.name)),
        ]

    move_gate(keeper, table, change, along=along)
    # A gate that did not know the link (its table was made anew) has not moved, and nothing went along.
    keeper.delete_tree(table.linked.incoming_link(name.name))
    keeper.delete_tree(name_path(name.name))
