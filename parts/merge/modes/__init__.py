"""The merge modes, which decide what happens to rows with equal keys. One module each.

A module has a :class:`parts.table.merge_mode.MergeMode`, its rule, and the page of ClickHouse's documentation that it
follows. Its ``make_mode`` takes the columns named by the engine's arguments (without a replicated table's path and
name), those of the table, and the keys. It raises ``UserError`` for wrong ones.

``ordinary``     keeps every row (MergeTree);
``replacing``    keeps the row of the greatest version, or the last one (ReplacingMergeTree);
``summing``      adds up the numbers (SummingMergeTree);
``aggregating``  applies the functions of the columns (AggregatingMergeTree);
``collapsing``   cancels rows of opposite signs (CollapsingMergeTree);
``versioned_collapsing``  the same within a version, in any order (VersionedCollapsingMergeTree);
``graphite``     combines old rows of a metric (GraphiteMergeTree);
``deduplicating``  removes rows that repeat others, on top of another mode (OPTIMIZE … DEDUPLICATE).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from parts.common.errors import UserError
from parts.merge.modes import aggregating, collapsing, graphite, ordinary, replacing, summing, versioned_collapsing
from parts.table.merge_mode import NO_KEY_COLUMNS, KeyColumns, MergeMode
from parts.table.table_description import TableSchema

_OfEngine = Callable[[Sequence[str], TableSchema, KeyColumns], MergeMode]


@dataclass(frozen=True, slots=True)
class ModeOfEngine:
    """How an engine's mode is made, and its arguments."""

    make: _OfEngine
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    takes_list: bool = False
    """Whether the argument may be a list of columns in parentheses."""
    takes_section: bool = False
    """Whether the argument names a section of the server's configuration, as a string."""

    @property
    def most(self) -> int:
        """The largest number of arguments."""
        return len(self.required) + len(self.optional)

    def check_count(self, engine: str, count: int) -> None:
        """Raises 42 for a wrong number of arguments."""
        least, most = len(self.required), self.most
        if least <= count <= most:
            return
        number = "no" if not most else str(most) if least == most else f"{least} to {most}"
        names = ", ".join((*self.required, *(f"[{name}]" for name in self.optional)))
        message = f"Engine {engine} is given {count} arguments; it takes {number}{': ' if names else ''}{names}"
        raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", message)


MODES: Mapping[str, ModeOfEngine] = MappingProxyType(
    {
        "MergeTree": ModeOfEngine(ordinary.make_ordinary_mode),
        "ReplacingMergeTree": ModeOfEngine(replacing.make_mode, optional=("version", "is_deleted column")),
        "SummingMergeTree": ModeOfEngine(summing.make_mode, optional=("list of columns to sum",), takes_list=True),
        "AggregatingMergeTree": ModeOfEngine(aggregating.make_mode),
        "CollapsingMergeTree": ModeOfEngine(collapsing.make_mode, required=("sign column",)),
        "VersionedCollapsingMergeTree": ModeOfEngine(
            versioned_collapsing.make_mode, required=("sign column", "version")
        ),
        "GraphiteMergeTree": ModeOfEngine(
            graphite.make_mode, required=("'config_element_for_graphite_schema'",), takes_section=True
        ),
    }
)
"""Engine name without ``Replicated`` → its mode."""


def mode_of_engine(
    engine: str, columns: Sequence[str], schema: TableSchema, keys: KeyColumns = NO_KEY_COLUMNS
) -> MergeMode:
    """Returns the mode of ``engine``, replicated or not.

    Raises ``UserError`` 56 (UNKNOWN_STORAGE), 16, 36 and 169 for wrong columns, 139 for a missing section of the
    configuration.
    """
    mode = MODES.get(engine.removeprefix("Replicated"))
    if mode is None:
        raise UserError("UNKNOWN_STORAGE", f"Unknown table engine {engine}; the engines are: {', '.join(MODES)}")
    return mode.make(columns, schema, keys)
