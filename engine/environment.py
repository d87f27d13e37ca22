"""What a server takes from outside: services, ZooKeeper with the part exchange, the directory lock.

The services are time, randomness, threads and failpoints. fsync and the threads that work on parts belong to the
process and are replaceable elsewhere: in :mod:`parts.format.hashed_file` and :mod:`parts.common.thread_pool`. ``make
lint`` forbids direct use of the system's clock, randomness and threads in every module that ``pyproject.toml`` does not
list.

``ServerEnvironment()`` is the real world. The simulator (``engine.simulator``) makes one in which several servers live
in one thread, with a clock moved by hand and all randomness drawn from one seed.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

from engine.http_client.transport import MakeTransport, make_http_transport
from engine.interserver.replication import Replication
from engine.server.background_pool import BackgroundPool
from engine.server.config import Config
from engine.server.failpoints import failpoint
from engine.tables.services import Slots, TableServices
from parts.common import thread_pool
from parts.common.errors import UserError

_HOUSEKEEPING_THREADS = 4
_LINK_THREADS = 16


def make_system_services(config: Config) -> TableServices:
    """Returns services that use the system's clock, randomness and threads."""
    return TableServices(
        clock=time.time,
        monotonic=time.monotonic,
        wait=threading.Event.wait,
        wait_for=threading.Condition.wait_for,
        random=SystemRandom(),
        failpoint=failpoint,
        housekeeping=BackgroundPool("housekeeping", _HOUSEKEEPING_THREADS),
        workers=BackgroundPool("worker", config.background_pool_size + config.background_fetches_pool_size),
        writers=thread_pool.make_executor(os.cpu_count() or 2, "writer"),
        merging=Slots(config.background_pool_size),
        fetches=Slots(config.background_fetches_pool_size),
        max_fetches_bandwidth=config.max_replicated_fetches_network_bandwidth_for_server,
        max_sends_bandwidth=config.max_replicated_sends_network_bandwidth_for_server,
    )


def lock_directory(path: Path) -> Callable[[], None]:
    """Locks a data directory and returns the function that unlocks it.

    Without the lock two servers in one directory would both change its parts. Raises 76 (CANNOT_OPEN_FILE) when another
    process holds it.
    """
    lock = open(path / "status", "a+")  # noqa: SIM115
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise UserError(
            "CANNOT_OPEN_FILE", f"The directory {path} is in use by another Pando process; stop it first"
        ) from None
    return lock.close


@dataclass(frozen=True)
class ServerEnvironment:
    """The world of one server. With ``has_watchdog`` a thread enforces statements' time and memory limits."""

    make_services: Callable[[Config], TableServices] = make_system_services
    connect: Callable[[Config, Path, Callable[[str], None]], Replication] = Replication.from_config
    """Makes the connection to ZooKeeper and the part exchange. The last argument is called at each failpoint."""
    lock: Callable[[Path], Callable[[], None]] = lock_directory
    has_watchdog: bool = True
    make_transport: MakeTransport = make_http_transport
    """Makes the connections to servers of other clusters."""
    make_link_pool: Callable[[], BackgroundPool] = lambda: BackgroundPool("link", _LINK_THREADS)
    """Makes the threads that bring the changes of links, when the first link is found."""
    max_waiting_links: int = 12
    """With more links than these on a server, none waits at its source by itself: each wait holds a thread."""
    max_poll_seconds: float = 10.0
    """How long a request to another cluster may wait there for something new; 0 where nobody else runs meanwhile."""
