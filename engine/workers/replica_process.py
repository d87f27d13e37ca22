"""The replica process of a server with workers: starts everything that a server has once.

::

    clients ──► dispatcher ──connections──► workers ×N ──files, mapped──► parts
                    │                          │  ▲
                 /ping …                 calls │  │ published changes, shared page
                    ▼                          ▼  │
               replica process: catalog, commits, fetches, ZooKeeper, system tables
                    └──► fork server ──forks──► workers

Order of the start: what the processes share, the fork server (before any thread), workers, the engine, the dispatcher.
Workers get ready while the tables are loaded. The end runs backwards.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from engine.engine import Engine, remove_spill_directories
from engine.front.http.request_entry import RequestEntry
from engine.front.http.routes import make_status_page_application
from engine.front.http.scan_routes import get_replica_delay_seconds
from engine.front.http.status_pages import EngineStatusPages
from engine.front.login_throttle import FailedLogins, LoginThrottle
from engine.front.prometheus_metrics import Metrics
from engine.front.query_counts import QueryCounts
from engine.front.session_store import SWEEP_SECONDS, SessionStore
from engine.scan.leases import LeaseBook
from engine.server.background_pool import BackgroundTask
from engine.server.config import Config
from engine.workers.call_handlers import SharedServices
from engine.workers.catalog_publication import CatalogPublication
from engine.workers.connections.connection_states import ConnectionStates
from engine.workers.connections.dispatcher import ConnectionDispatcher
from engine.workers.fork_server import ForkServer
from engine.workers.merge_processes import MergeProcesses, serve_merge_orders
from engine.workers.query_bounds import Bounds
from engine.workers.shared_page import SharedPage
from engine.workers.worker import InheritedResources, run_worker
from engine.workers.worker_pool import WorkerPool

_LEASES_SECONDS = 5.0


class ReplicaProcess:
    """The replica process. Must be made in a process without threads, because it forks."""

    def __init__(self, config: Config, listening: socket.socket) -> None:
        """``config`` has the actual port."""
        self._config = config
        self._listening = listening
        remove_spill_directories(config)
        page = SharedPage(len(config.users))
        file = os.memfd_create("pando publication", os.MFD_CLOEXEC)
        self._states = ConnectionStates(config.max_connections)
        self._counts = QueryCounts(config.worker_count + 1)
        self._failed_logins = FailedLogins(os.urandom(16), config.worker_count + 1)
        common = InheritedResources(config, page, file, self._states, self._counts, self._failed_logins)
        kinds = {"worker": partial(run_worker, common), "merge": partial(serve_merge_orders, config)}
        self._fork_server = ForkServer(kinds, close_in_children=[listening])
        self._publication = CatalogPublication(page, file)
        self._page = page

    def start(self, running: ExitStack, start_engine: Callable[[Engine, ExitStack], None], engine: Engine) -> None:
        """Starts workers, merge processes, engine and dispatcher; pushes the end of each on ``running``."""
        services = engine.services
        engine.link_start.follow_state(self._page.set_link_start)  # before any worker looks
        leases = LeaseBook(services.monotonic, partial(get_replica_delay_seconds, engine))
        shared = SharedServices(self._publication, SessionStore(services.monotonic, engine.end_session), leases)
        config = self._config
        bounds = Bounds(self._page, config.query_stop_grace_seconds, config.memory_limit_bytes)
        pool = WorkerPool(
            config.worker_count, self._fork_server, self._page, shared, bounds, config.worker_stuck_seconds
        )
        self._fork_server.start()
        running.callback(self._fork_server.stop)
        pool.start()
        running.callback(pool.stop, self._config.shutdown_wait_unfinished)
        merges = MergeProcesses(self._fork_server, len(os.sched_getaffinity(0)))
        running.callback(merges.stop)
        services.run_in_merge_process = merges.run
        engine.catalog.listener = self._publication
        services.shown_groups.on_change = self._publication.publish_group
        engine.list_other_processes = pool.processes
        engine.list_worker_rows = pool.rows
        start_engine(engine, running)
        running.callback(shared.close)
        running.callback(leases.close)
        pages = EngineStatusPages(engine, Metrics(engine, self._counts, self._config.worker_count))
        shared.open(engine, pages)
        services.housekeeping.add(shared.sessions.task, SWEEP_SECONDS)
        services.housekeeping.add(BackgroundTask("expire scan leases", partial(_expire, leases)), _LEASES_SECONDS)
        throttle = LoginThrottle(services.monotonic, self._failed_logins, self._config.worker_count)
        entry = RequestEntry(self._config, throttle, services.clock)
        application = make_status_page_application(pages, entry.check_page)
        door = ConnectionDispatcher(self._listening, self._config, self._states, pool.list_workers, application)
        running.callback(door.stop)
        door.start()
        pool.open(door)
        # The engine outlives the workers, for what they still do.
        running.callback(pool.stop, self._config.shutdown_wait_unfinished)
        running.callback(door.stop_accepting)


def _expire(leases: LeaseBook) -> float:
    leases.expire()
    return _LEASES_SECONDS
