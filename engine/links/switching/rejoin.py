"""REJOIN: a table that has more than the fork, or was its source, follows it.

Without DETACH TAIL it shows what lies behind the fork here, and changes nothing. With it:

1. The blocks of the tail are linked to ``detached/``; an attempt that died is repeated.
2. "Tail settled" is noted under the fork's name.
3. One multi gives the table a new epoch and the link (:mod:`.turning`). The link then copies the new source, and the
   vector comes with the copy.

The tables of a group do each step together. Those that follow the new source already are only put into the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordination.links.groups.group_switching import list_links_of_group
from coordination.links.link_names import find_link_name
from coordination.links.link_nodes import StoredLink, find_link, is_left_over, make_taken_error
from coordination.links.link_settings import LinkSettings
from coordination.links.positions import Origin, Position
from coordination.links.stream.change import Change
from coordination.links.switching.fork_commit import TableNow
from coordination.links.switching.lineage import EpochFork, Lineage
from coordination.links.switching.switching_gate import FORK_OWNER, meet_fork
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate_link import LinkMode
from engine.links.exchange.fields import Document, get_object, get_objects, get_text, get_texts
from engine.links.exchange.protocol import decode_vector
from engine.links.switching.following import register_anew
from engine.links.switching.local_tables import LocalTable, SwitchingServer, find_target_table, list_local_tables
from engine.links.switching.turning import Turn, turn_tables
from engine.tables.capabilities.table_links import OutgoingLink
from engine.tables.capabilities.table_switching import TableTail
from parts.common.errors import UserError
from parts.common.query_status import QueryStatus

TailRow = tuple[str, str, str, int, int, str, str, str]
"""Kind, table, partition, rows, blocks, position, block id or command, directory."""


@dataclass(frozen=True)
class _NewSource:
    """The table of the other cluster."""

    fork: EpochFork
    """The one that ended this table's epoch."""
    forks: Sequence[EpochFork]
    database: str
    table: str
    vector: VersionVector
    outgoing: Sequence[str]


@dataclass(frozen=True)
class _Found:
    """A table of this server that rejoins."""

    name: str
    """The link."""
    local: LocalTable
    now: TableNow
    former: StoredLink | None = None
    """The link that brings changes here already."""

    def follows(self, cluster: str) -> bool:
        """Tells whether the table is a target of the cluster, and follows all that it has met."""
        if self.former is None or self.former.definition.source_cluster != cluster:
            return False
        definition, lineage = self.former.definition, Lineage.read(self.now.gate)
        return bool(lineage.forks) and (definition.wants_copy or definition.is_begun) and not lineage.met


def rejoin(server: SwitchingServer, name: str, cluster: str, status: QueryStatus, *, detach: bool) -> list[TailRow]:
    """Shows the tail of a table, and with ``detach`` takes it out and makes the table follow the cluster.

    Raises 36 (BAD_ARGUMENTS) if the cluster was not promoted, or this server has no such table.
    """
    found = _find_table(server, name, cluster)
    if found.former is not None and found.former.definition.group:
        group = found.former.definition.group
        raise UserError(
            "BAD_ARGUMENTS",
            f"Link {name!r} is in group {group!r}, whose tables rejoin together: SYSTEM REJOIN REPLICATION LINK GROUP "
            f"{group} FROM CLUSTER {cluster}",
        )
    return _rejoin(server, [found], cluster, status, detach=detach)


def rejoin_group(
    server: SwitchingServer, group: str, cluster: str, status: QueryStatus, *, detach: bool
) -> list[TailRow]:
    """Shows the tails of all tables of a group, and with ``detach`` makes them follow.

    Then they are in a group of this name here. Raises as :func:`rejoin`.
    """
    names = _list_links(server, group, cluster)
    if not names:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Cluster {cluster!r} has no tables that were promoted as the group {group[:250]!r}, and there is no such "
            f"group here, so there is nothing to rejoin. SYSTEM PROMOTE REPLICATION LINK GROUP at cluster {cluster} "
            "makes its tables the sources",
        )
    tables = [_find_table(server, name, cluster) for name in names]
    return _rejoin(server, tables, cluster, status, detach=detach, group=group)


def _list_links(server: SwitchingServer, group: str, cluster: str) -> Sequence[str]:
    """Returns the links of a group: of the one here, or of the one that was promoted there or here."""
    keeper = server.replication.require_keeper()
    keeper.sync("/")
    if here := list_links_of_group(keeper, group):
        return here
    answer = server.links.connect(cluster).ask("switching/group", {"group": group})
    if there := get_texts(answer, "links"):
        return there
    lineages = [Lineage.read(local.read_gate()) for local in list_local_tables(server)]
    return sorted({fork.link for lineage in lineages for fork in lineage.forks if group and fork.group == group} - {""})


def _rejoin(
    server: SwitchingServer,
    tables: Sequence[_Found],
    cluster: str,
    status: QueryStatus,
    *,
    detach: bool,
    group: str = "",
) -> list[TailRow]:
    waiting = [each for each in tables if not each.follows(cluster)]
    if not waiting:
        return []
    sources = [_find_source(server, each, cluster) for each in waiting]
    rejoined = [_Rejoining(server, *pair, cluster) for pair in zip(waiting, sources, strict=True)]
    for each in rejoined:
        each.meet(detach=detach)
    tails = [each.read_tail() for each in rejoined]
    if not detach:
        return [row for each, tail in zip(rejoined, tails, strict=True) for row in _describe(each.local, tail, "")]
    for each in rejoined:
        if each.found.former is None:
            _require_free(server, each.found.name)
    for each, tail in zip(rejoined, tails, strict=True):
        each.settle(tail, status)
    turns = [(each.local, each.register()) for each in rejoined]
    server.services.failpoint("rejoin.before_turn")
    turn_tables(turns, group, [each.former for each in tables if each not in waiting and each.former is not None])
    server.services.failpoint("rejoin.after_turn")
    pairs = zip(rejoined, tails, strict=True)
    return [row for each, tail in pairs for row in _describe(each.local, tail, each.directory)]


class _Rejoining:
    """The steps of one table."""

    def __init__(self, server: SwitchingServer, found: _Found, source: _NewSource, cluster: str) -> None:
        self._server = server
        self.found = found
        self.local = found.local
        self._source = source
        self._cluster = cluster
        self._lineage = Lineage.read(found.now.gate)
        if self._lineage.find(source.fork.name) is not None:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Table {self.local.name} follows the fork {source.fork.describe()} already, so there is nothing to "
                "rejoin",
            )

    @property
    def directory(self) -> str:
        """The beginning of the names of the tail's directories."""
        return f"tail-{self._source.fork.by.epoch.nonce:016x}"

    def meet(self, *, detach: bool) -> None:
        """Shuts the table if it is open; a look alone does not shut a source of its own."""
        now, fork, name = self.found.now, self._source.fork, self.found.name
        is_open = all(bar.owner != FORK_OWNER for bar in now.gate.bars)
        if is_open and (detach or now.own == fork.ended.origin):
            self.local.move_gate(lambda gate: meet_fork(gate, Lineage.read(gate), fork, name))
            self._server.services.failpoint("rejoin.after_meeting")

    def read_tail(self) -> TableTail:
        """Returns what lies behind the fork here.

        Raises 36 (BAD_ARGUMENTS) if this server does not know all of it.
        """
        tail = self.local.links.switching.read_tail(self._source.vector.join(self._source.fork.vector))
        _require_whole(self.local, tail, self._source)
        return tail

    def settle(self, tail: TableTail, status: QueryStatus) -> None:
        """Takes the tail out, unless that was done."""
        fork, services = self._source.fork, self._server.services
        if fork.name not in self._lineage.settled:
            self.local.links.switching.detach_blocks(tail.changes, self.directory, status)
            services.failpoint("rejoin.after_detaching")
            self.local.move_gate(lambda gate: Lineage.read(gate).settle(fork.name).write(gate))
            services.failpoint("rejoin.after_settling")

    def register(self) -> Turn:
        """Registers the link at the new source, and returns what makes the table its target."""
        server, source, former, name = self._server, self._source, self.found.former, self.found.name
        uuid = former.definition.uuid if former is not None else str(server.services.new_uuid())
        settings = former.definition.settings if former is not None else {}
        settings = {key: value for key, value in settings.items() if key != "start_position"}
        own = server.cluster_membership.get_identity(self.local.keeper)
        client = server.links.connect(self._cluster)
        known = LinkSettings.parse(settings)
        outgoing = OutgoingLink(
            f"{own.name}/{name}", uuid, own.uuid, own.name, known.two_way, mode=LinkMode(known.mode)
        )
        register_anew(client, source.database, source.table, outgoing)
        where = self._cluster, source.database, source.table
        dropped = [f"{self._cluster}/{name}", *source.outgoing]
        return Turn(name, uuid, source.forks, source.fork, client.get_identity(), *where, settings, None, dropped)


def _find_table(server: SwitchingServer, name: str, cluster: str) -> _Found:
    keeper = server.replication.require_keeper()
    keeper.sync("/")
    link = find_link(keeper, name)
    if isinstance(link, StoredLink):
        local = find_target_table(server, link)
        return _Found(name, local, local.read_now(), link)
    for local in list_local_tables(server):
        now = local.read_now()
        met = any(fork.cluster == cluster for fork in Lineage.read(now.gate).met)
        if local.find_outgoing(now.gate, name, cluster) or (met and local.find_outgoing(now.gate, name)):
            return _Found(name, local, now)
    for local in list_local_tables(server):  # promoted beside the cluster, so that no link joins them
        now = local.read_now()
        lineage = Lineage.read(now.gate)
        if (
            lineage.forks
            and any(fork.link == name for fork in lineage.forks)
            and _ask_forks(server, now, None, cluster)
        ):
            return _Found(name, local, now)
    raise UserError(
        "BAD_ARGUMENTS",
        f"No table of this server was the source of a link {name!r} to cluster {cluster!r}, or is the target of one. "
        "SHOW REPLICATION LINKS lists the links",
    )


def _ask_forks(server: SwitchingServer, now: TableNow, former: StoredLink | None, cluster: str) -> Document:
    """Asks a cluster for a fork of an epoch of this table, or of its source, that the table does not follow.

    The answer is empty if the cluster has none.
    """
    lineage = Lineage.read(now.gate)
    origins = [str(now.own), *(str(end.origin) for end in reversed(lineage.epochs))]
    origins += [str(fork.ended.origin) for fork in reversed(lineage.forks)]
    if former is not None and former.definition.source_origin:
        origins.insert(0, former.definition.source_origin)
    followed = [fork.name for fork in lineage.forks]
    answer = server.links.connect(cluster).ask("switching/forks", {"origins": origins, "followed": followed})
    return answer if get_text(answer, "ended") else {}


def _find_source(server: SwitchingServer, found: _Found, cluster: str) -> _NewSource:
    """Asks the other cluster for its table that ended this table's epoch, or its source's."""
    answer = _ask_forks(server, found.now, found.former, cluster)
    forks = list(map(EpochFork.of, get_objects(answer, "forks")))
    ended = Origin.parse(get_text(answer, "ended")) if answer else None
    fork = next((each for each in reversed(forks) if each.ended.origin == ended), None)
    if fork is None:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Cluster {cluster!r} has no table that was promoted in the place of {found.local.name}, so there is "
            f"nothing to rejoin. SYSTEM PROMOTE REPLICATION LINK at cluster {cluster} makes it the source",
        )
    return _NewSource(
        fork,
        forks,
        get_text(answer, "database"),
        get_text(answer, "table"),
        decode_vector(get_object(answer, "vector")),
        get_texts(answer, "outgoing"),
    )


def _require_free(server: SwitchingServer, name: str) -> None:
    keeper = server.replication.require_keeper()
    found = find_link_name(keeper, name)
    if found is not None and not is_left_over(keeper, found):
        raise make_taken_error(name)


def _require_whole(local: LocalTable, tail: TableTail, source: _NewSource) -> None:
    if not tail.is_whole:
        raise UserError(
            "BAD_ARGUMENTS",
            f"This server does not know all that table {local.name} has behind the fork {source.fork.describe()}: its "
            "journal begins later. Run the statement at another server of the cluster, or copy the rows that are "
            "wanted, DROP the table, and link a new one",
        )


def _describe(local: LocalTable, tail: TableTail, directory: str) -> list[TailRow]:
    """Returns the tail: its blocks by partition, or by directory when they are detached, and its commands."""
    table, folder = local.name, str(local.table.definition.data_path / "detached")
    rows: list[TailRow] = []
    sums: dict[tuple[str, str], tuple[int, int, str]] = {}
    for change in tail.changes:
        position = str(Position(change.position.origin, change.position.zxid))
        for block in change.blocks:
            kind = "lost blocks" if block.is_lost else "blocks"
            if directory and not block.is_lost:
                place = f"{folder}/{directory}_{block.part}"
                rows.append(("block", table, block.part.partition_id, block.rows, 1, position, block.block_id, place))
            else:
                known = sums.get((kind, block.part.partition_id), (0, 0, position))
                sums[kind, block.part.partition_id] = known[0] + block.rows, known[1] + 1, known[2]
    for (kind, partition_id), (count, blocks, position) in sorted(sums.items()):
        rows.append((kind, table, partition_id, count, blocks, position, "from this position on", ""))
    for change in tail.changes:
        rows += _describe_commands(change, table)
    return rows


def _describe_commands(change: Change, table: str) -> list[TailRow]:
    position = str(Position(change.position.origin, change.position.zxid))
    rows: list[TailRow] = [
        ("drop", table, drop.partition_id, 0, 0, position, "the rows before it were dropped", "")
        for drop in change.drops
    ]
    for mutation in change.mutations:
        partitions = ", ".join(partition_id for partition_id, _ in mutation.numbers)
        rows.append(("mutation", table, partitions, 0, 0, position, mutation.text, ""))
    for definition in change.definitions:
        rows.append(("alter", table, "", 0, 0, position, f"version {definition.version} of the columns", ""))
    return rows
