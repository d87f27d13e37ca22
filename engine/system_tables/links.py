"""``system.replication_links``, ``link_positions``, ``link_outbox``, ``link_collocations``."""

from __future__ import annotations

from collections.abc import Iterator

from coordination.links.groups.link_group import list_groups
from coordination.links.table_vector import read_origin_positions
from coordination.links.tracker.tracker import find_cluster, is_preferred
from coordination.links.tracker.tracker_nodes import TargetDecision, read_decisions
from coordination.links.tracker.tracker_options import TrackerOptions
from coordination.nodes.gate_link import LinkDirection
from coordination.nodes.table_gate import read_command_source
from engine.links.link_statuses import list_link_statuses, list_linked_tables
from engine.queries.context import OwnerServer, Row
from engine.system_tables.system_table import define_owner_table


def _links(server: OwnerServer) -> Iterator[Row]:
    for link in list_link_statuses(server):
        progress = link.progress
        yield (
            link.name,
            link.direction.value,
            link.database,
            link.table,
            link.peer,
            link.peer_database,
            link.peer_table,
            link.database_link,
            link.mode,
            link.state,
            int(link.settings.get("enable_tracker") == "1"),
            link.start_position,
            list(link.settings.items()),
            progress.upstream_status.value,
            progress.message,
            progress.idle,
            progress.lag,
            progress.applied_position,
            progress.confirmed_position,
            progress.source_position,
            progress.rows_behind,
            progress.bytes_behind,
            progress.rows_applied,
            progress.bytes_applied,
            progress.blocks_applied,
            progress.lost_rows,
            progress.errors,
            progress.last_exception,
            int(link.is_leader),
            progress.leader,
            progress.conflicts,
            link.uuid,
        )


def _positions(server: OwnerServer) -> Iterator[Row]:
    tables = list_linked_tables(server)
    if not tables:
        return
    cluster = server.cluster_membership.get_identity(server.replication.require_keeper())
    for table in tables:
        assert table.replication is not None
        keeper, paths = table.replication.require_keeper(), table.replication.paths
        commands = read_command_source(keeper, paths)
        for each in read_origin_positions(keeper, paths, cluster.uuid):
            yield (
                table.definition.database,
                table.definition.name,
                str(each.position.origin),
                str(each.position),
                int(each.is_own),
                each.begin,
                int(each.is_forgotten),
                commands.cluster,
                commands.began.get(str(each.position.origin)),
            )


def _outboxes(server: OwnerServer) -> Iterator[Row]:
    for table in list_linked_tables(server):
        kept = table.links.source.describe_outbox() if table.links is not None else None
        if kept is not None:
            yield (
                kept.database,
                kept.table,
                kept.first_position,
                kept.last_position,
                kept.trimmed_position,
                kept.blocks,
                kept.missing_blocks,
                kept.size_bytes,
                kept.journal_bytes,
                list(kept.needed_by),
            )


def _collocations(server: OwnerServer) -> Iterator[Row]:
    if server.replication.keeper is None:
        return
    names = {
        table.replication.paths.root: f"{table.definition.database}.{table.definition.name}"
        for table in server.catalog.tables()
        if table.replication is not None
    }
    nobody = TargetDecision(False, "", (), "", "")
    for decision in read_decisions(server.replication.require_keeper()).values():
        options = TrackerOptions(preferred=decision.preferred)
        for target, each in sorted(decision.targets.items()) or [("", nobody)]:
            yield (
                decision.collocation,
                [names.get(root, root) for root in decision.tables],
                int(decision.is_enabled),
                decision.least,
                decision.most,
                list(decision.preferred),
                find_cluster(target),
                list(each.links),
                int(is_preferred(options, target)),
                int(each.is_chosen),
                each.mode,
                each.state,
                each.reason,
                decision.message,
            )


def _groups(server: OwnerServer) -> Iterator[Row]:
    keeper = server.replication.keeper
    if keeper is None:
        return
    lags = {link.name: link.progress.lag for link in list_link_statuses(server) if link.direction is LinkDirection.IN}
    for group in list_groups(keeper):
        here = server.services.shown_groups.find(group.name)
        shown = here.shown_place if here is not None else 0
        late = max(0.0, (group.commit_ms - here.shown_ms) / 1000) if here is not None and here.shown_ms else 0.0
        yield (
            group.name,
            group.source_cluster,
            group.format_cut(shown),
            group.format_cut(group.place),
            max((lags.get(member.link, 0.0) for member in group.members), default=0.0) + late,
            [member.link for member in group.members],
            [f"{member.database}.{member.table}" for member in group.members],
            group.leader,
            here.explain() if here is not None and not here.shows(group) else "",
            group.uuid,
        )


TABLES = (
    define_owner_table(
        "link_groups",
        """
        group String
        peer String
        cut String
        committed_cut String
        lag Float64
        members Array(String)
        tables Array(String)
        leader String
        message String
        uuid String
        """,
        _groups,
    ),
    define_owner_table(
        "replication_links",
        """
        name String
        direction String
        database String
        table String
        peer String
        peer_database String
        peer_table String
        database_link String
        mode String
        state String
        enable_tracker UInt8
        start_position String
        settings Map(String, String)
        upstream_status String
        message String
        idle Float64
        lag Float64
        applied_position String
        confirmed_position String
        source_position String
        rows_behind UInt64
        bytes_behind UInt64
        rows_applied UInt64
        bytes_applied UInt64
        blocks_applied UInt64
        lost_rows UInt64
        errors UInt64
        last_exception String
        is_leader UInt8
        leader String
        conflicts UInt64
        uuid String
        """,
        _links,
    ),
    define_owner_table(
        "link_positions",
        """
        database String
        table String
        origin String
        position String
        is_own UInt8
        begin UInt64
        is_forgotten UInt8
        commands_from String
        places_behind Nullable(UInt64)
        """,
        _positions,
    ),
    define_owner_table(
        "link_outbox",
        """
        database String
        table String
        first_position String
        last_position String
        trimmed_position String
        blocks UInt64
        missing_blocks UInt64
        bytes UInt64
        journal_bytes UInt64
        needed_by Array(String)
        """,
        _outboxes,
    ),
    define_owner_table(
        "link_collocations",
        """
        collocation String
        tables Array(String)
        enable_replicated_table_tracker UInt8
        min_sync_replica_count UInt64
        max_sync_replica_count UInt64
        preferred_sync_clusters Array(String)
        cluster String
        links Array(String)
        is_preferred UInt8
        is_chosen UInt8
        mode String
        state String
        reason String
        message String
        """,
        _collocations,
    ),
)
