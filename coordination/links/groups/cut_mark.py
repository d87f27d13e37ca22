"""The mark of a cut in the log entries of a group's tables.

::

    "cut": {"group": "<UUID>", "place": 4711, "previous": 4698, "joins": false, "ms": 0}

``place`` is the zxid of the source up to which the cut brings all tables of the group, ``previous`` that of the cut
before it; 0 if there was none. Every table of a group has one entry for each cut, even if nothing changed in it. So a
replica knows from its queue alone at which cut a table is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from coordination.log.log_entry import LogEntry

CUT_KEY = "cut"


@dataclass(frozen=True, slots=True, order=True)
class CutMark:
    """A cut, as the entry of one table names it."""

    place: int
    previous: int
    group: str
    """The group's UUID."""
    joins: bool = False
    commit_ms: int = 0
    """The time at the source when the cut was asked for."""
    """Whether the table enters the group with this cut."""

    def put_into(self, entry: LogEntry) -> LogEntry:
        """Returns the entry with the mark."""
        mark: dict[str, object] = {
            "group": self.group,
            "place": self.place,
            "previous": self.previous,
            "joins": self.joins,
        }
        mark["ms"] = self.commit_ms
        others = tuple((key, value) for key, value in entry.extra if key != CUT_KEY)
        return replace(entry, extra=(*others, (CUT_KEY, mark)))

    @classmethod
    def of(cls, entry: LogEntry) -> CutMark | None:
        """Returns the mark of an entry; ``None`` if it belongs to no cut."""
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
