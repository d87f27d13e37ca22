"""The commands of a table of several origins at one replica: where they come from, and their reach.

``ALTER TABLE … MODIFY SETTING commands_from`` moves the gate, so that whatever is committed afterwards has a place
(``coordination.nodes.gate_commands``), and then writes the table's mark into its stream
(``coordination.links.commands``). After a crash in between, the statement is repeated: a second mark does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from coordination.keeper.interface import Check, Keeper, Op
from coordination.links.cluster_identity import CLUSTER_PATH, ClusterIdentity
from coordination.links.commands import NO_REACH, list_unready, make_reach
from coordination.links.known_clusters import read_known_clusters
from coordination.links.positions import Position
from coordination.links.table_position import read_current_position
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import CommitKind, Gate
from coordination.nodes.gate_commands import EACH_SOURCE, CommandSource
from coordination.nodes.gate_link import LinkDirection
from coordination.nodes.replica_activation import FEATURE_ROW_PLACES
from coordination.nodes.table_gate import move_gate
from engine.tables.replicated.replica_state import ReplicaState
from parts.common.command_reach import CommandReach
from parts.common.errors import UnavailableError, UserError
from sql.definitions.row_places import require_row_places
from sql.grammar.statements.alter_commands import DeleteRows
from sql.mutations.mutation import Mutation
from sql.settings.merge_tree_settings import COMMANDS_FROM

AddMark = Callable[[Mutation], None]
"""Creates a mutation of no partition."""


class TableCommands:
    """The source of commands of one table, as one replica knows it."""

    def __init__(self, state: ReplicaState) -> None:
        self._state = state

    def find_kind(self) -> CommitKind:
        """Returns as what a mutation of a client is committed: COMMAND where it goes by the places of rows."""
        state = self._state
        gate = state.gate.gate
        if gate is None or gate.links:  # the watch may be late
            keeper = state.require_writable()
            keeper.sync(state.paths.root)
            gate = state.gate.load(keeper)
        goes_by_places = gate is not None and gate.is_written_elsewhere and gate.has_commanding_cluster
        return CommitKind.COMMAND if goes_by_places else CommitKind.OTHER

    def limit(self, keeper: Keeper, mutation: Mutation) -> tuple[Mutation, Sequence[Op]]:
        """Returns a mutation that is about to take its numbers, with its reach.

        The check is for its multi: the gate, which tells whom it waits for, has not moved.

        Raises 48 (NOT_IMPLEMENTED) for another mutation than UPDATE and DELETE; 242 (TABLE_IS_READ_ONLY) at another
        cluster than the one that takes commands, and while marks of clusters are missing.
        """
        what = mutation.find_command_without_rows()
        if what:
            raise UserError(
                "NOT_IMPLEMENTED",
                f"{what} is not possible on table {self._name}, which other clusters write too: UPDATE and DELETE go "
                "by the places of rows, it does not",
            )
        gate, version = self._state.gate.load_versioned(keeper)
        assert gate is not None
        return replace(mutation, reach=self._make_reach(keeper, gate)), [Check(self._state.paths.gate, version)]

    @property
    def _name(self) -> str:
        return self._state.definition.full_name

    def _make_reach(self, keeper: Keeper, gate: Gate) -> CommandReach:
        table = self._state.paths
        assert gate.commands is not None
        identity = ClusterIdentity.parse(keeper.get(CLUSTER_PATH)[0])
        peers = {link.peer for link in gate.links if link.is_two_way and not link.is_collecting}
        if identity.uuid in peers:
            raise UserError(
                "NOT_IMPLEMENTED",
                f"Table {self._name} is written at both ends of a link inside one cluster, and {COMMANDS_FROM} names a "
                "cluster: it takes no mutations and no drops of rows. DROP REPLICATION LINK first",
            )
        if gate.commands.cluster != identity.name:
            raise UnavailableError(
                "TABLE_IS_READ_ONLY",
                f"Table {self._name} takes mutations and drops of rows at cluster {gate.commands.cluster!r} alone "
                f"({COMMANDS_FROM}), and this is cluster {identity.name!r}: run the statement there",
            )
        newest = Position.parse(read_current_position(keeper, table, identity.uuid))  # before the vector
        (found,) = keeper.get_many([table.linked.vector])
        vector = VersionVector.parse(found[0]) if found is not None else VersionVector()
        names = {uuid: name for name, uuid in read_known_clusters(keeper, identity).items()}
        if missing := list_unready(gate.commands, newest.origin, vector, peers, names):
            raise UnavailableError(
                "TABLE_IS_READ_ONLY",
                f"Table {self._name} waits for the marks of clusters {', '.join(missing)}, from which on they keep the "
                f"places of rows: run ALTER TABLE … MODIFY SETTING {COMMANDS_FROM} = '{identity.name}' there, and let "
                "the links bring the marks",
            )
        return make_reach(newest.origin, newest.zxid, vector)

    # -- the setting --------------------------------------------------------------------------------------------------

    def change(self, cluster: str, add_mark: AddMark) -> None:
        """Sets the cluster that takes commands; "" takes the setting back.

        Raises 36 (BAD_ARGUMENTS) for a table or a cluster that cannot be, 48 if a replica does not know places of rows,
        242 and 999.
        """
        state, table = self._state, self._state.paths
        with state.hold_write_access() as (keeper, _):
            identity = self._read_identity(keeper)
            if cluster:
                require_row_places(state.description, self._name)
                self._check_cluster(keeper, identity, cluster)
            root = keeper.exists(table.root)
            own = f"{identity.uuid}.{root.created_zxid if root is not None else 0}"
            is_first, empty = False, list[Op]()

            def change(gate: Gate) -> Gate:
                nonlocal is_first, empty
                former = gate.commands or CommandSource("", "")
                self._check_change(gate, former.cluster, cluster)
                if cluster == EACH_SOURCE:
                    self._check_collecting(keeper, gate, own)
                is_first = not former.table
                if not is_first or not cluster:
                    return gate if former.cluster == cluster else gate.with_commands(former.with_cluster(cluster))
                numbers = keeper.get(table.block_numbers)[1].version
                empty = [] if keeper.children(table.block_numbers) else [Check(table.block_numbers, numbers)]
                began = {f"{own}.{gate.epoch}": 0} if empty else {}  # it never had a row
                return gate.with_commands(CommandSource(cluster, own).with_began({**began, **former.began}))

            what = f"Setting {COMMANDS_FROM}"
            move_gate(keeper, table, change, along=lambda _: empty, feature=FEATURE_ROW_PLACES, what=what)
            self._note_beginning(keeper, own)
            state.gate.load(keeper)
        if cluster not in ("", EACH_SOURCE):
            add_mark(Mutation((DeleteRows("0"),), state.definition.database, reach=NO_REACH))

    def _read_identity(self, keeper: Keeper) -> ClusterIdentity:
        self._state.replication.get_cluster_uuid()  # raises without a cluster_name
        return ClusterIdentity.parse(keeper.get(CLUSTER_PATH)[0])

    def _note_beginning(self, keeper: Keeper, own: str) -> None:
        """Notes in the gate a commit behind which all rows have places: one behind the gate's first move."""
        moved = keeper.exists(self._state.paths.gate)
        zxid = moved.modified_zxid if moved is not None else 0

        def change(gate: Gate) -> Gate:
            commands = gate.commands
            if commands is None or not commands.table or any(origin.startswith(f"{own}.") for origin in commands.began):
                return gate
            return gate.with_commands(commands.with_began({gate.own_origin: zxid}))

        move_gate(keeper, self._state.paths, change)

    def _check_change(self, gate: Gate, former: str, cluster: str) -> None:
        if former and former != cluster and gate.is_written_elsewhere:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Table {self._name} has {COMMANDS_FROM} = '{former}'. Commands that are on their way would meet those "
                "of another cluster in another order elsewhere. DROP REPLICATION LINK of its two-way links first",
            )

    def _check_collecting(self, keeper: Keeper, gate: Gate, own: str) -> None:
        """Raises 36 (BAD_ARGUMENTS) for a table with rows without places, or one that sends rows to others."""
        if gate.is_written_elsewhere:
            raise UserError(
                "BAD_ARGUMENTS",
                f"{COMMANDS_FROM} = '{EACH_SOURCE}' is for tables that collect rows (preserve_timestamps = 0), and "
                f"{self._name} has two-way links: name the cluster that takes commands",
            )
        began = gate.commands.began if gate.commands is not None else {}
        is_whole = any(origin.startswith(f"{own}.") and zxid == 0 for origin, zxid in began.items())
        is_linked = bool(gate.links_of(LinkDirection.IN))  # what a link brings now may come without places
        if not is_whole and (is_linked or keeper.children(self._state.paths.block_numbers)):
            raise UserError(
                "BAD_ARGUMENTS",
                f"{COMMANDS_FROM} = '{EACH_SOURCE}' must be set before the first link and the first row: of rows that "
                f"table {self._name} got before, nobody knows any more which source they are from. Make the table anew",
            )

    def _check_cluster(self, keeper: Keeper, own: ClusterIdentity, cluster: str) -> None:
        known: Mapping[str, str] = read_known_clusters(keeper, own)
        if cluster not in (*known, EACH_SOURCE):
            raise UserError(
                "BAD_ARGUMENTS",
                f"Cluster {cluster!r} is not known here, so {COMMANDS_FROM} cannot name it; known are "
                f"{', '.join(sorted(known))}. A cluster becomes known with the first link to or from it",
            )


def goes_by_sources(state: ReplicaState) -> bool:
    """Tells whether each source of the table commands the rows of its own origin."""
    gate = state.gate.gate
    return gate is not None and gate.commands is not None and gate.commands.cluster == EACH_SOURCE


def read_source_uuid(keeper: Keeper, gate: Gate) -> str:
    """Returns the UUID of the cluster that gives the table its commands; "" for none and an unknown one."""
    if gate.commands is None or not gate.commands.cluster:
        return ""
    own = ClusterIdentity.parse(keeper.get(CLUSTER_PATH)[0])
    return read_known_clusters(keeper, own).get(gate.commands.cluster, "")
