"""The source of a group of links at one server: the next cut of several tables.

The reads, in this order, are the proof that the cut is one of all tables: the frontier of each table; their largest
place is a zxid that exists now, so it is the floor of each table's second reading; what all of these reach, up to the
floor, is the bound for :func:`coordination.links.groups.group_frontier.find_group_cut`. What lies below a table's
frontier never changes. Before each reading the nodes of all tables are read at once, so that a table to which nothing
was committed costs no requests of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from coordination.links.groups.group_frontier import find_group_cut
from engine.catalog.databases import Databases
from engine.links.exchange.fields import Document
from engine.links.exchange.link_service import AnswerRequest, LinkService
from engine.links.groups.cut_messages import CutAnswer, CutRequest, decode_cut_request, encode_cut_answer
from engine.links.linkable_tables import require_linkable
from engine.tables.capabilities.table_links import ChangesAnswer, ChangesRequest, CutSource, TableNodes
from engine.tables.owned_table import OwnedTable
from engine.tables.services import TableServices
from parts.common.query_status import QueryStatus
from parts.common.thread_pool import map_waiting

_NEWS_SECONDS = 0.02
"""How often a request that waits looks whether there is news of any table; that costs no look at each."""
_HELD_BACK_SECONDS = 0.1
"""The pause between two readings while something undecided holds a table back: no watch tells of its end."""


def make_cut_answer(service: LinkService, catalog: Databases[OwnedTable], services: TableServices) -> AnswerRequest:
    """Returns the function that answers ``/links/cut``."""

    def answer(document: Document, status: QueryStatus) -> dict[str, Any]:
        request = decode_cut_request(document)
        tables = [(require_linkable(catalog.table(*name)), each) for name, each in request.tables]
        sources = [ends.cuts for ends, _ in tables]
        origins = [source.find_origin(nodes) for source, nodes in zip(sources, read_nodes(sources), strict=True)]
        asked = [
            (source, each, each.vector.applied(origin))
            for source, origin, (_, each) in zip(sources, origins, tables, strict=True)
        ]
        with service.limit_waiting(request.wait_seconds) as seconds:
            return encode_cut_answer(wait_for_cut(asked, request, services, status, seconds, service.instance))

    return answer


def wait_for_cut(
    tables: Sequence[tuple[CutSource, ChangesRequest, int]],
    request: CutRequest,
    services: TableServices,
    status: QueryStatus,
    wait_seconds: float,
    instance: str = "",
) -> CutAnswer:
    """Returns the next cut; waits for it at most ``wait_seconds``.

    A table comes with the zxid up to which the request's vector has its changes. ``instance`` tells the marks of this
    process from those of others.
    """
    deadline, never = services.monotonic() + wait_seconds, threading.Event()
    while True:
        seen = [source.count_news() for source, _, _ in tables]
        mark = f"{instance}:{','.join(map(str, seen))}"
        if mark == request.mark and not request.joins:
            begin = max(after for _, _, after in tables)
            answer = CutAnswer(begin, begin, (), mark=mark)
        else:
            answer = find_cut(
                tables, request.max_rows, request.max_bytes, joins=request.joins, takes_idle=request.takes_idle
            )
            answer = answer if answer.answers or answer.is_held else replace(answer, mark=mark)
        again = services.monotonic() + (_HELD_BACK_SECONDS if answer.is_held else wait_seconds)
        counted = -1
        while not answer.answers:
            if (count := services.link_news.count) != counted:
                counted = count
                if [source.count_news() for source, _, _ in tables] != seen:
                    break
            left = min(deadline, again) - services.monotonic()
            if left <= 0:
                break
            status.check()
            services.wait(never, min(left, _NEWS_SECONDS))
        if answer.answers or services.monotonic() >= deadline:
            return answer


def read_nodes(sources: Sequence[CutSource]) -> list[TableNodes]:
    """Reads the nodes of all tables at once; returns those of each."""
    paths = [source.list_nodes() for source in sources]
    nodes = iter(sources[0].read_nodes([path for each in paths for path in each]))
    return [list(islice(nodes, len(each))) for each in paths]


def _read_frontiers(sources: Sequence[CutSource], floor: int, nodes: Sequence[TableNodes]) -> list[int]:
    """Reads the frontiers of all tables at once. Those to which nothing was committed ask ZooKeeper nothing."""
    return map_waiting(lambda each: each[0].read_frontier(floor, each[1]), zip(sources, nodes, strict=True), "cut")


def find_cut(
    tables: Sequence[tuple[CutSource, ChangesRequest, int]],
    max_rows: int,
    max_bytes: int,
    *,
    joins: bool = False,
    takes_idle: bool = False,
) -> CutAnswer:
    """Returns the next cut behind what the requests have, within the limits if it can be.

    ``joins``: a table enters the group, which needs a cut even if nothing was committed. ``takes_idle``: also one
    behind commits that are no changes.
    """
    sources, begins = [source for source, _, _ in tables], [after for _, _, after in tables]
    floor = max([*_read_frontiers(sources, 0, read_nodes(sources)), *begins])
    nodes = read_nodes(sources)
    bound = min(floor, *_read_frontiers(sources, floor, nodes))
    frontier = find_group_cut(sources, bound)
    place = frontier
    if frontier > max(begins):
        pages = [source.find_page_end(after, max_rows, max_bytes) for source, _, after in tables]
        within = find_group_cut(sources, min(frontier, *pages))
        place = within if within > max(begins) else frontier
    nothing = CutAnswer(max(begins), max(frontier, max(begins)), (), is_held=bound < floor)
    if place < max(begins) or (place == min(begins) and not joins):
        return nothing

    def read_until(at: int) -> ChangesAnswer:
        source, request, _ = tables[at]
        return source.read_until(request, place, nodes[at])

    answers = map_waiting(read_until, range(len(tables)), "cut")
    if not joins and not takes_idle and min(begins) == max(begins) and not any(each.changes for each in answers):
        return nothing
    return CutAnswer(place, frontier, [replace(each, frontier=max(frontier, place)) for each in answers])
