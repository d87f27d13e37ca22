"""``system.distributed_ddl_queue``: the statements with ON CLUSTER, one row per statement and server."""

from __future__ import annotations

from collections.abc import Iterator

from coordination.ddl.ddl_entry import DdlEntry, DdlHost
from coordination.ddl.ddl_queue import DdlStatus
from engine.distributed_ddl.initiator import make_ddl_queue
from engine.queries.context import (
    Row,
    Server,
)
from engine.system_tables.system_table import (
    define_server_table,
)
from parts.common.errors import PandoError
from sql.grammar.password_hiding import hide_passwords
from sql.settings.setting_values import format_setting_value

_INACTIVE, _ACTIVE, _FINISHED, _REMOVING, _UNKNOWN = range(5)
"""The values of ``status``."""


def _entries(server: Server) -> Iterator[Row]:
    """Yields the rows. Raises 999 (KEEPER_EXCEPTION) while ZooKeeper does not answer."""
    if server.replication.keeper is None:
        return
    keeper = server.replication.require_keeper()
    queue = make_ddl_queue(server.config)
    names = queue.names(keeper)
    created = keeper.exists_many([queue.entry_path(name) for name in names])
    for name, (data, _), stat in zip(names, queue.read(keeper, names), created, strict=True):
        if stat is None:
            continue
        created_ms = stat.created_ms
        try:
            entry = DdlEntry.decode(data)
        except PandoError:
            yield (
                name, None, None, None, "", "", [], created_ms // 1000, None, None, _UNKNOWN if data else _REMOVING,
                None, None, None, None,
            )  # fmt: skip
            continue
        status = queue.status(keeper, name)
        for host in entry.hosts:
            yield (
                *_make_entry_columns(name, entry),
                created_ms // 1000,
                host.host,
                host.port,
                *_make_host_columns(host, status),
            )


def _make_entry_columns(name: str, entry: DdlEntry) -> tuple[object, ...]:
    """Returns the columns of the statement."""
    host, _, port = entry.initiator.rpartition(":")
    settings = [(key, format_setting_value(value)) for key, value in entry.settings.items()]
    return name, entry.version, host, int(port or 0), entry.cluster, hide_passwords(entry.statement), settings


def _make_host_columns(host: DdlHost, status: DdlStatus) -> tuple[object, ...]:
    """Returns the columns of its outcome on one server."""
    outcome = status.finished.get(host.id)
    if outcome is None:
        return _ACTIVE if host.id in status.active else _INACTIVE, None, None, None, None
    return (
        _FINISHED, outcome.code, outcome.error, status.finished_ms[host.id] // 1000, outcome.duration_ms,
    )  # fmt: skip


TABLES = (
    define_server_table(
        "distributed_ddl_queue",
        """
        entry String
        entry_version Nullable(UInt8)
        initiator_host Nullable(String)
        initiator_port Nullable(UInt16)
        cluster String
        query String
        settings Map(String, String)
        query_create_time DateTime
        host Nullable(String)
        port Nullable(UInt16)
        status Nullable(Enum8('Inactive' = 0, 'Active' = 1, 'Finished' = 2, 'Removing' = 3, 'Unknown' = 4))
        exception_code Nullable(UInt16)
        exception_text Nullable(String)
        query_finish_time Nullable(DateTime)
        query_duration_ms Nullable(UInt64)
        """,
        _entries,
    ),
)
