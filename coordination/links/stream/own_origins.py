"""The origins of a table's own changes: one for each of its epochs, in the order of their commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coordination.links.positions import Origin, Position


@dataclass(frozen=True, slots=True)
class OwnOrigins:
    """The present epoch of a table, and where its former ones ended."""

    present: Origin
    former: tuple[Position, ...] = ()
    """Each with a zxid that none of its commits is above and every later commit is above; ascending."""

    def find(self, zxid: int) -> Origin:
        """Returns the origin of what the table committed at a zxid."""
        return next((end.origin for end in self.former if zxid <= end.zxid), self.present)

    def has(self, origin: Origin) -> bool:
        """Tells whether the origin is the table's own, of whatever epoch."""
        return origin == self.present or any(end.origin == origin for end in self.former)

    @classmethod
    def of(cls, own: Origin | OwnOrigins) -> OwnOrigins:
        """Returns what is given; an origin alone had no other epoch."""
        return own if isinstance(own, OwnOrigins) else cls(own)


def list_former(own: Origin, epochs: Sequence[Position]) -> OwnOrigins:
    """Returns the origins of a table with this present one and these ended epochs."""
    return OwnOrigins(own, tuple(sorted(epochs, key=lambda each: each.zxid)))
