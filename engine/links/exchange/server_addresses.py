"""The HTTP addresses of a table's replicas."""

from __future__ import annotations

from coordination.keeper.interface import NoNode
from coordination.nodes.replica_activation import ReplicaAddress
from engine.tables.owned_table import OwnedTable
from parts.common.errors import CorruptionError


def list_http_urls(table: OwnedTable) -> tuple[str, ...]:
    """Returns the HTTP addresses of the active replicas, this one's first.

    A replica without HTTP has none.
    """
    replica = table.replication
    if replica is None:
        return ()
    keeper, paths = replica.require_keeper(), replica.paths
    try:
        names = keeper.children(paths.replicas)
    except NoNode:
        return ()
    names.sort(key=lambda name: name != replica.replica.name)
    active = keeper.exists_many([paths.replica(name).is_active for name in names])
    hosts = keeper.get_many([paths.replica(name).host for name, stat in zip(names, active, strict=True) if stat])
    return tuple(filter(None, (_read_url(answer[0]) for answer in hosts if answer is not None)))


def _read_url(data: bytes) -> str:
    try:
        address = ReplicaAddress.parse(data)
    except CorruptionError:
        return ""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"http://{host}:{address.http_port}" if address.http_port else ""
