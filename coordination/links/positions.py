"""Positions: places in the order in which a table's changes were committed.

A position is written ``cluster.table.epoch:zxid``. The part before the colon is the *origin*:

=========  ===========================================================================================
cluster    the UUID of the cluster, made once in its ZooKeeper
table      the table's identity: the zxid that created its root node, decimal
epoch      ``counter-nonce``: a decimal counter, and 64 random bits as 16 hexadecimal digits. The random
           bits tell the epochs of a restored ZooKeeper from those that it had before.
zxid       the commit of the change, decimal
=========  ===========================================================================================

Only positions of one origin can be compared. Tarantool numbers changes in the same way: an instance UUID and an LSN.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from parts.common.errors import UserError

MAX_ZXID = 2**63 - 1
_NONCE_BITS = 64
_ORIGIN = re.compile(
    r"(?P<cluster>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"
    r"\.(?P<table>[0-9]{1,19})\.(?P<counter>[0-9]{1,19})-(?P<nonce>[0-9a-f]{16})"
)


@dataclass(frozen=True, slots=True, order=True)
class Epoch:
    """The time between two promotions of a table."""

    counter: int
    nonce: int

    def __post_init__(self) -> None:
        assert 0 <= self.counter <= MAX_ZXID
        assert 0 <= self.nonce < 2**_NONCE_BITS

    def __str__(self) -> str:
        return f"{self.counter}-{self.nonce:016x}"


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """The cluster, table and epoch in which a change was first made. The order only sorts lists."""

    cluster: str
    table: int
    epoch: Epoch

    def __str__(self) -> str:
        return f"{self.cluster}.{self.table}.{self.epoch}"

    @classmethod
    def parse(cls, text: str) -> Origin:
        """Parses an origin. Raises ``UserError`` 36 (BAD_ARGUMENTS)."""
        found = _ORIGIN.fullmatch(text.lower())
        if found is None or int(found["table"]) > MAX_ZXID or int(found["counter"]) > MAX_ZXID:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Cannot read the origin {text[:200]!r}: it must be <cluster UUID>.<table>.<epoch>, "
                "e.g. 6b1f0c2e-5f5d-4b57-9d0c-0f6f6f1f9a10.4294967298.1-00c0ffee00c0ffee",
            )
        return cls(found["cluster"], int(found["table"]), Epoch(int(found["counter"]), int(found["nonce"], 16)))

    def explain_difference(self, other: Origin) -> str:
        """Says what of ``other`` differs from this origin; "" if nothing does."""
        if self.cluster != other.cluster:
            return f"cluster {other.cluster} instead of {self.cluster}"
        if self.table != other.table:
            return f"table {other.table} instead of {self.table}: the table was made anew"
        if self.epoch != other.epoch:
            return f"epoch {other.epoch} instead of {self.epoch}: a promotion lies between them"
        return ""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the changes of one origin: everything up to ``zxid``."""

    origin: Origin
    zxid: int

    def __post_init__(self) -> None:
        assert 0 <= self.zxid <= MAX_ZXID

    def __str__(self) -> str:
        return f"{self.origin}:{self.zxid}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Parses the text of a position. Raises ``UserError`` 36 (BAD_ARGUMENTS)."""
        origin, colon, zxid = text.partition(":")
        if not colon:
            raise UserError(
                "BAD_ARGUMENTS", f"Cannot read the position {text[:200]!r}: it has no colon before its zxid"
            )
        if not (zxid.isascii() and zxid.isdecimal() and len(zxid) <= 19 and int(zxid) <= MAX_ZXID):
            raise UserError("BAD_ARGUMENTS", f"Cannot read the position {text[:200]!r}: {zxid[:40]!r} is no zxid")
        return cls(Origin.parse(origin), int(zxid))

    def require_origin(self, origin: Origin) -> None:
        """Raises ``UserError`` 36 (BAD_ARGUMENTS) if the position is of another origin.

        The error names the difference.
        """
        if difference := origin.explain_difference(self.origin):
            raise UserError("BAD_ARGUMENTS", f"Position {self} cannot be compared here: it is of {difference}")

    def __lt__(self, other: Position) -> bool:
        self.require_origin(other.origin)
        return self.zxid < other.zxid

    def __le__(self, other: Position) -> bool:
        self.require_origin(other.origin)
        return self.zxid <= other.zxid

    def __gt__(self, other: Position) -> bool:
        return other < self

    def __ge__(self, other: Position) -> bool:
        return other <= self
