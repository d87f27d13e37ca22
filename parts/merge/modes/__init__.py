"""The merge modes: what becomes of rows with equal keys. One module a mode, one line in the table an engine.

A module holds a :class:`parts.merge_mode.MergeMode` with its rule and the page of ClickHouse's documentation that it
follows. Its ``of_engine`` takes the engine's own arguments (without a replicated one's path and name) and the columns;
a wrong argument is a ``UserError``.

``ordinary``     keeps every row (MergeTree)
``deduplicate``  drops rows that repeat others, over any other mode (OPTIMIZE … DEDUPLICATE)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from parts.errors import UserError
from parts.merge.modes import ordinary
from parts.merge_mode import MergeMode
from parts.schema import TableSchema

MODES: Mapping[str, Callable[[Sequence[str], TableSchema], MergeMode]] = MappingProxyType(
    {
        "MergeTree": ordinary.of_engine,
    }
)
"""Engine name without ``Replicated`` → its mode."""


def mode_of_engine(engine: str, arguments: Sequence[str], schema: TableSchema) -> MergeMode:
    """The mode of ``engine``, replicated or not. Raises ``UserError`` 56 (UNKNOWN_STORAGE), 42 for wrong arguments."""
    of_engine = MODES.get(engine.removeprefix("Replicated"))
    if of_engine is None:
        raise UserError("UNKNOWN_STORAGE", f"Unknown table engine {engine}; the engines are: {', '.join(MODES)}")
    return of_engine(arguments, schema)
