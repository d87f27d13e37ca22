"""The order of UUIDs: ClickHouse compares the second half first."""

from __future__ import annotations

from sql.typing.duckdb.macro_weights import define_macros
from sql.typing.duckdb.sql_fragments import Fragment, fragment


def swap_uuid_halves(uuid: Fragment) -> Fragment:
    """Swaps the halves of a UUID: ClickHouse compares the second one first."""
    return fragment("pando_swapped_halves({})", uuid)


MACROS = define_macros(
    "pando_swapped_halves(uuid) AS (uuid[9:16] || uuid[1:8])",
)
