"""What the answer of PROMOTE and SWITCH tells: facts and their values, one in a row."""

from __future__ import annotations

from datetime import UTC, datetime

from coordination.links.link_nodes import StoredLink
from coordination.links.switching.lineage import EpochFork
from engine.links.switching.local_tables import LocalTable, SwitchingServer
from engine.tables.capabilities.link_status import LinkProgress

Facts = list[tuple[str, str]]


def describe_progress(server: SwitchingServer, local: LocalTable, link: StoredLink) -> Facts:
    """Says when the source answered last, and what is known to lie behind what the target has."""
    progress, at = server.links.find_progress(link.definition.name), server.services.clock()
    if progress is None:
        (found,) = local.keeper.get_many([local.paths.linked.status(link.definition.name)])
        if found is None:
            return [("last heartbeat", "unknown"), ("behind the fork", "unknown")]
        progress, at = LinkProgress.parse(found[0]), found[1].modified_ms / 1000
    heard = datetime.fromtimestamp(at - progress.idle, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    known = f"{progress.rows_behind} rows, {progress.bytes_behind} bytes"
    source = progress.source_position or "unknown"
    return [
        ("last heartbeat", f"{heard} UTC"),
        ("behind the fork", f"{known}; then the source was at {source}. What it committed later is unknown"),
    ]


def list_fork_facts(fork: EpochFork) -> Facts:
    """Names a fork."""
    return [
        ("fork", str(fork.ended)),
        ("epoch", str(fork.by)),
        *(("vector", str(position)) for position in fork.vector),
    ]
