"""Answers the questions about synchronous links, at the target and at the source."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from coordination.links.groups.told_cut import ToldCut
from coordination.links.link_nodes import StoredLink, require_link
from coordination.nodes.paths import TablePaths
from engine.links.exchange.fields import Document
from engine.links.exchange.link_service import LinkService
from engine.links.exchange.sync_messages import decode_mode_message, decode_stage, decode_visible
from engine.links.link_wait import find_target
from engine.links.linkable_tables import require_linkable
from engine.links.sync.group_cuts import explain_missing_cut, find_leader, require_telling, wait_for_shown_cut
from engine.links.sync.link_modes import ModeRequest, request_modes, require_known_target
from engine.queries.context import OwnerServer
from engine.tables.capabilities.link_status import LinkProgress, UpstreamStatus
from engine.tables.capabilities.table_links import LinkTarget
from engine.tables.owned_table import OwnedTable
from parts.common.errors import PandoError, UnavailableError, UserError
from parts.common.query_status import QueryStatus

_PAUSES_SECONDS = 0.01, 0.1
"""Between two looks, the first and the longest."""
_REFUSING = (UpstreamStatus.PAUSED, UpstreamStatus.STOPPED)


class SyncAnswers:
    """The answers of one server. Thread-safe."""

    def __init__(self, server: OwnerServer) -> None:
        self._server = server

    # -- at the target ------------------------------------------------------------------------------------------------

    def stage(self, document: Document, _: QueryStatus) -> dict[str, Any]:
        """Answers whether the target takes an INSERT. Raises 242 (TABLE_IS_READ_ONLY), saying why it does not."""
        request = decode_stage(document)
        link = self._require_link(request.link, request.uuid)
        table = self._find_table(link)
        if not link.definition.is_enabled:
            raise UnavailableError("TABLE_IS_READ_ONLY", f"link {request.link} is disabled at its target")
        self._require_running(link)
        if link.definition.group:
            require_telling(self._server, link)
            leader = find_leader(self._server, link.definition.group)
            if leader is not None and leader.link != request.link:
                self._require_running(self._require_link(leader.link, leader.link_uuid))
        problem = table.replication.problem() if table.replication is not None else None
        if problem is not None:
            raise UnavailableError("TABLE_IS_READ_ONLY", f"the target's replica is read-only: {problem}")
        return {}

    def _require_running(self, link: StoredLink) -> None:
        """Raises 242 (TABLE_IS_READ_ONLY) for a link that brings nothing now."""
        name = link.definition.name
        progress = self._read_progress(name, link.table.root)
        if not link.definition.is_begun:  # the server that runs it may be a step behind
            raise UnavailableError(
                "TABLE_IS_READ_ONLY",
                f"link {name} has no place in its source's changes yet"
                + (f": {progress.message}" if progress.message else ""),
            )
        is_own = self._server.links.find_progress(name) is not None
        # One whose first question is not answered yet counts as disconnected, and names no cause.
        is_away = is_own and progress.upstream_status is UpstreamStatus.DISCONNECTED and bool(progress.message)
        if is_away or progress.upstream_status in _REFUSING:
            raise UnavailableError(
                "TABLE_IS_READ_ONLY",
                f"link {name} is {progress.upstream_status.value} at its target: {progress.message}",
            )

    def visible(self, document: Document, status: QueryStatus) -> dict[str, Any]:
        """Waits until all active replicas show everything up to a position; says what is missing then."""
        request = decode_visible(document)
        link = self._require_link(request.link, request.uuid)
        services, is_grouped = self._server.services, bool(link.definition.group)
        end, never = services.monotonic() + request.wait_seconds, threading.Event()
        target = require_linkable(self._find_table(link)).target
        if is_grouped:
            require_telling(self._server, link)
        pause, longest = _PAUSES_SECONDS
        while not target.read_target().vector.covers(request.position):
            status.check()
            left = end - services.monotonic()
            if left <= 0:
                return {
                    "missing": f"the target has not brought everything up to {request.position}{self._explain(link)}"
                }
            services.wait(never, min(pause, left))
            pause = min(1.3 * pause, longest)
        left = max(0.0, end - services.monotonic())
        if is_grouped:
            return {"missing": wait_for_shown_cut(self._server, link, target, request.position, left, status)}
        return {"missing": _wait_until_visible(target, left, status, services.monotonic)}

    def _explain(self, link: StoredLink) -> str:
        """Says why a link has not brought everything."""
        progress = self._read_progress(link.definition.name, link.table.root)
        told = f" ({progress.upstream_status.value}): {progress.message}".removesuffix(": ")
        if link.definition.group:
            told = f" ({explain_missing_cut(self._server, link.definition.group, self._read_progress)})"
        return told

    def _require_link(self, name: str, uuid: str) -> StoredLink:
        found = require_link(self._server.replication.require_keeper(), name)
        if not isinstance(found, StoredLink) or found.definition.uuid != uuid:
            raise UserError("BAD_ARGUMENTS", f"Link {name[:200]!r} is another one of the same name at its target")
        return found

    def _find_table(self, link: StoredLink) -> OwnedTable:
        try:
            return find_target(self._server, link)
        except UserError as error:  # another server of the cluster has a replica
            raise UserError("UNKNOWN_TABLE", error.message) from error

    def _read_progress(self, name: str, root: str) -> LinkProgress:
        own = self._server.links.find_progress(name)
        if own is not None:
            return own
        keeper = self._server.replication.require_keeper()
        (found,) = keeper.get_many([TablePaths(root).linked.status(name)])
        return LinkProgress.parse(found[0]) if found is not None else LinkProgress()

    # -- at the source ------------------------------------------------------------------------------------------------

    def mode(self, document: Document, _: QueryStatus) -> dict[str, Any]:
        """Asks for a mode of a link, as its target wants it."""
        message = decode_mode_message(document)
        table = self._server.catalog.table(message.database, message.table)
        require_linkable(table)
        assert table.replication is not None
        require_known_target(message.link, message.mode, self._server.linked_clusters.names())
        request = ModeRequest(table.replication.paths, message.link, message.mode, message.is_paused, message.uuid)
        request_modes(table.replication.require_keeper(), [request])
        self._server.links.wake()
        return {}


def _wait_until_visible(target: LinkTarget, seconds: float, status: QueryStatus, monotonic: Callable[[], float]) -> str:
    """Waits until all active replicas show what a table in no group has; says what is missing."""
    end = monotonic() + seconds
    try:
        target.wait_until_visible(seconds, status)
    except PandoError as error:
        if error.name != "TIMEOUT_EXCEEDED":
            raise
        return f"not every active replica of the target shows it: {error.message}"
    hiding = target.wait_until_shown(ToldCut(), max(0.0, end - monotonic()), status)
    return f"replicas {', '.join(hiding)} still show the table in a group that it has left" if hiding else ""


def add_sync_answers(server: OwnerServer, answers: LinkService) -> None:
    """Adds the requests to a server's answers."""
    own = SyncAnswers(server)
    answers.add("stage", own.stage, changes=True)
    answers.add("visible", own.visible)
    answers.add("mode", own.mode, changes=True)
