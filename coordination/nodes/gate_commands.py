"""Where the commands of a table of several origins come from, as the table's gate says it.

Mutations and drops of a table that is written at both ends of links are taken by one cluster alone, and go by the
places of rows (``parts.table.row_version``). The gate says which cluster that is, and since when parts keep places::

    "commands": {"from":"west", "table":"6b1f….4294967298", "began":{"<origin>":4294967310, …}}

``from`` is the cluster's name, or ``*`` in a table that collects the rows of several sources; "" after the setting was
taken back: places are kept for good. ``table`` are the first two parts of the table's own origin, "" if parts keep no
places; the third is the gate's epoch. Every commit checks the gate, so whatever a table commits after ``table`` was set
has a place.

``began`` says for origins behind which commit every row of theirs has a place. For the table's own origin it is 0 if
all rows have one; for others it is the mark that links brought (``coordination.links.commands``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

KEY = "commands"
EACH_SOURCE = "*"
"""The value of ``from`` of a table that collects rows: each source commands those of its own origin."""


@dataclass(frozen=True, slots=True)
class CommandSource:
    """The key ``commands`` of a gate."""

    cluster: str
    """The name of the cluster that takes commands, or ``EACH_SOURCE``; "" for none."""
    table: str
    """Cluster and identity of the table, as its own origin begins; "" if parts keep no places."""
    began: Mapping[str, int] = field(default_factory=dict)
    """By origin the commit behind which its rows have places."""
    extra: tuple[tuple[str, Any], ...] = field(default=(), compare=False)
    """Keys of a later version."""

    def make_origin(self, epoch: str) -> str:
        """Returns the table's own origin in an epoch, as text; "" if parts keep no places."""
        return f"{self.table}.{epoch}" if self.table else ""

    def with_cluster(self, cluster: str) -> CommandSource:
        """Returns it with another cluster."""
        return replace(self, cluster=cluster)

    def with_began(self, began: Mapping[str, int]) -> CommandSource:
        """Returns it with what is known of further origins. What is known stays."""
        return replace(self, began={**began, **self.began})

    def to_json(self) -> dict[str, Any]:
        """Returns the value of the key."""
        began = dict(sorted(self.began.items()))
        return {**dict(self.extra), "from": self.cluster, "table": self.table, "began": began}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> CommandSource:
        """Reads the key. Raises ``KeyError``, ``ValueError``, ``TypeError`` and ``AttributeError``."""
        rest = dict(document)
        cluster, table, began = str(rest.pop("from")), str(rest.pop("table")), rest.pop("began")
        return cls(cluster, table, {str(o): int(zxid) for o, zxid in began.items()}, tuple(rest.items()))
