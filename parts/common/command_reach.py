"""The reach of a command on a table of several origins: the rows that it touches, in any cluster.

Each cluster numbers the rows of others anew, and rows arrive in another order in each. So a command does not go by
block numbers alone: it names for every origin the last commit of which it touches rows. Rows of later commits, and of
origins that it does not name, stay as they are. Rows without a position (0) are older than every reach: commands are
refused until every cluster's own rows have positions (``coordination.links.commands``).

A mutation's text has the reach as one of its lines (``sql.mutations.mutation``)::

    format version: 2
    reach: {"6b1f….4294967298.1-00c0ffee00c0ffee":4294967310}
    …

A server that does not know reaches refuses version 2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

REACH_LINE = "reach: "
_LATER_VERSION = "format version: 2\n"


@dataclass(frozen=True, slots=True)
class CommandReach:
    """The last commits, one an origin, whose rows a command touches: the origin's text, and a zxid."""

    positions: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, positions: Mapping[str, int]) -> CommandReach:
        """Returns the reach of these positions."""
        return cls(tuple(sorted(positions.items())))

    def find_last(self, origin: str) -> int:
        """Returns the zxid of the origin's last commit that it reaches; 0 for none."""
        return dict(self.positions).get(origin, 0)

    def covers(self, origin: str, position: int) -> bool:
        """Tells whether it touches the rows of this commit."""
        return position <= self.find_last(origin)

    def encode(self) -> str:
        """Returns the text: one line, without its end."""
        return json.dumps(dict(self.positions), separators=(",", ":"))

    @classmethod
    def decode(cls, text: str) -> CommandReach:
        """Parses the text. Raises ``ValueError``."""
        document = json.loads(text)
        if not isinstance(document, dict) or any(type(zxid) is not int or zxid < 0 for zxid in document.values()):
            raise ValueError(f"{text[:200]!r} is no reach of a command")
        return cls.of(document)


def add_reach(mutation: str, reach: CommandReach) -> str:
    """Returns the text of a mutation with a reach. It has none yet."""
    _, _, rest = mutation.partition("\n")
    return f"{_LATER_VERSION}{REACH_LINE}{reach.encode()}\n{rest}"


def find_reach(mutation: str) -> CommandReach | None:
    """Returns the reach in the text of a mutation; ``None`` without one. Raises ``ValueError``."""
    for line in mutation.splitlines():
        if line.startswith(REACH_LINE):
            return CommandReach.decode(line.removeprefix(REACH_LINE))
    return None
