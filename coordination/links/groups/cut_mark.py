"""The mark of a cut in the log entries of a group's tables, and in the mutations that the cut brings.

::

    "cut": {"group": "<UUID>", "place": 4711, "previous": 4698, "joins": false, "ms": 0}

``place`` is the zxid of the source up to which the cut brings all tables of the group, ``previous`` that of the cut
before it; 0 if there was none. Every table of a group has one entry for each cut, even if nothing changed in it. So a
replica knows from its queue alone at which cut a table is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

from coordination.log.log_entry import LogEntry
from coordination.merges_mutations.mutation_set import MutationEntry

_Marked = TypeVar("_Marked", LogEntry, MutationEntry)
CUT_KEY = "cut"


@dataclass(frozen=True, slots=True, order=True)
class CutMark:
    """A cut, as the entry of one table names it."""

    place: int
    previous: int
    group: str
    """The group's UUID."""
    joins: bool = False
    """Whether the table enters the group with this cut."""
    commit_ms: int = 0
    """The time at the source when the cut was asked for."""

    def put_into(self, entry: _Marked) -> _Marked:
        """Returns the log entry, or the mutation, with the mark."""
        mark: dict[str, object] = {
            "group": self.group,
            "place": self.place,
            "previous": self.previous,
            "joins": self.joins,
        }
        mark["ms"] = self.commit_ms
        extra = {**dict(entry.extra), CUT_KEY: mark}
        return replace(entry, extra=tuple(extra.items()))

    @classmethod
    def of(cls, entry: LogEntry | MutationEntry) -> CutMark | None:
        """Returns the mark of a log entry or a mutation; ``None`` if it belongs to no cut."""
        found: Any = next((value for key, value in entry.extra if key == CUT_KEY), None)
        if found is None:
            return None
        return cls(
            int(found["place"]),
            int(found["previous"]),
            str(found["group"]),
            bool(found["joins"]),
            int(found.get("ms", 0)),
        )
