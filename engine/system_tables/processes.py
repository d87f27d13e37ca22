"""``system.one``, ``macros``, ``workers`` and ``processes``."""

from __future__ import annotations

from collections.abc import Iterator

from engine.queries.context import (
    Row,
    Server,
)
from engine.system_tables.system_table import (
    define_server_table,
)


def _processes(server: Server) -> Iterator[Row]:
    now = server.services.clock()
    for process in server.processes():
        statistics = process.statistics
        yield (
            process.user,
            process.query_id,
            now - process.started,
            int(process.is_cancelled),
            statistics.read_rows,
            statistics.read_bytes,
            statistics.written_rows,
            statistics.written_bytes,
            process.status.memory.total_bytes,
            process.status.memory.peak_bytes,
            process.query,
            process.database,
        )


TABLES = (
    define_server_table("one", "dummy UInt8", lambda _: [(0,)]),
    define_server_table(
        "macros", "macro String\nsubstitution String", lambda server: sorted(server.config.macros.items())
    ),
    define_server_table(
        "workers",
        """
        number UInt32
        pid UInt32
        state String
        uptime_seconds Float64
        connections UInt32
        queries UInt32
        memory_usage UInt64
        restarts UInt64
        """,
        lambda server: server.list_worker_rows(),
    ),
    define_server_table(
        "processes",
        """
        user String
        query_id String
        elapsed Float64
        is_cancelled UInt8
        read_rows UInt64
        read_bytes UInt64
        written_rows UInt64
        written_bytes UInt64
        memory_usage Int64
        peak_memory_usage Int64
        query String
        current_database String
        """,
        _processes,
    ),
)
