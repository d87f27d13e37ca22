"""``system.disks`` and ``storage_policies``: the server's only disk, below its ``path``."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from engine.queries.context import (
    Row,
    Server,
)
from engine.system_tables.system_table import (
    define_server_table,
)


def _disks(server: Server) -> Iterator[Row]:
    space, usage = server.services.disk, shutil.disk_usage(server.path)
    unreserved = space.unreserved_bytes(server.path)
    path = f"{server.path}/"
    yield ("default", path, usage.free, usage.total, unreserved, 0, "Local", "None", "None", 0, 0, 0, 0, 0, "")


def _policies(_: Server) -> Iterator[Row]:
    yield ("default", "default", 1, ["default"], 0, 0, 0.0, 0, 1, 0)


TABLES = (
    define_server_table(
        "disks",
        """
        name String
        path String
        free_space UInt64
        total_space UInt64
        unreserved_space UInt64
        keep_free_space UInt64
        type String
        object_storage_type String
        metadata_type String
        is_encrypted UInt8
        is_read_only UInt8
        is_write_once UInt8
        is_remote UInt8
        is_broken UInt8
        cache_path String
        """,
        _disks,
    ),
    define_server_table(
        "storage_policies",
        """
        policy_name String
        volume_name String
        volume_priority UInt64
        disks Array(String)
        volume_type Enum8('JBOD' = 0, 'SINGLE_DISK' = 1, 'UNKNOWN' = 2)
        max_data_part_size UInt64
        move_factor Float32
        prefer_not_to_merge UInt8
        perform_ttl_move_on_insert UInt8
        load_balancing Enum8('ROUND_ROBIN' = 0, 'LEAST_USED' = 1)
        """,
        _policies,
    ),
)
