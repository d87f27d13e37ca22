"""The places of the rows of copied parts (``parts.table.row_version``).

A part of one commit brings its place, which the giver has filled in. A merged part stores those of its rows. Rows that
have none at the giver are older than places there, and stay so. But in a table that collects rows of several sources
(``commands_from = '*'``) every row needs a place: there they count as committed at the place of the copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from coordination.links.bootstrap_plan import HeldPart, HeldTable
from coordination.nodes.gate_commands import EACH_SOURCE
from engine.tables.capabilities.table_links import UncoveredSchema
from engine.tables.replicated.decide.command_source import goes_by_sources
from engine.tables.replicated.replica_state import ReplicaState
from parts.read.part_reader import Part
from parts.table.row_version import RowVersion, make_place
from parts.write.part_stamp import stamp_part


@dataclass(frozen=True)
class CopiedPlaces:
    """Gives copies of held parts their places.

    ``default`` is that of rows without one; ``None`` leaves them so.
    """

    state: ReplicaState
    default: RowVersion | None

    @classmethod
    def of(cls, state: ReplicaState, held: HeldTable) -> CopiedPlaces:
        """Returns the places of a table's copies."""
        return cls(state, make_place(str(held.origin), held.place) if goes_by_sources(state) else None)

    def give(self, found: Part, part: HeldPart, written: Sequence[Path]) -> bool:
        """Gives parts that were written of a held one, ``found``, its place; tells whether that changed files.

        Raises ``UncoveredSchema`` where the places of single rows would be lost.
        """
        version = make_place(part.origin, part.position) if part.origin else self.default
        if found.row_version.is_mixed and (self.default is not None or written != [found.path]):
            raise UncoveredSchema(
                f"Part {part.name} of the source has rows of several commits, whose places commands go by. Table "
                f"{self.state.definition.full_name} would lose them: it has another definition than the source, or "
                f"commands_from = '{EACH_SOURCE}'. Make it anew; the link then goes on by itself",
                part.rows,
            )
        if version is None or found.row_version.is_mixed:
            return False
        for directory in written:
            stamp_part(directory, version, self.state.description.settings)
        return True
