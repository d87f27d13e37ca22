"""The changes that each replica of a linked table keeps, as its node ``link_keeping`` tells.

::

    replicas/<name>/link_keeping    {"version":1,"period":1,"since":120,"pointer":7,"definitions":0,"failures":131}

``period`` is the gate's at which the replica began (:class:`coordination.nodes.gate.Gate`). Its journal has every
change after the zxid ``since``; 0 while it is beginning. The node is written before that zxid is chosen, so the zxid is
larger than that of everything that the replica did not keep. ``pointer`` is its log pointer then. ``definitions`` and
``failures`` are the zxids up to which it has the definitions and the failed quorums. Unknown keys are kept.

Log entries and mutations stay in ZooKeeper until every replica that is not lost has pulled or finished them.
Definitions and markers of failed quorums have no such rule of their own: they stay until every such replica has them in
its journal.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from coordination.keeper.interface import Keeper
from coordination.nodes.deletion import delete_all_present
from coordination.nodes.gate import Gate
from coordination.nodes.paths import TablePaths
from parts.common.errors import CorruptionError

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class KeptChanges:
    """The node of one replica."""

    period: int
    since: int = 0
    pointer: int = 0
    definitions: int = 0
    failures: int = 0
    extra: tuple[tuple[str, object], ...] = field(default=(), compare=False)

    def having(self, what: str, zxid: int) -> KeptChanges:
        """Returns the content with all ``definitions`` or ``failures`` up to the zxid."""
        return replace(self, definitions=zxid) if what == "definitions" else replace(self, failures=zxid)

    def to_bytes(self) -> bytes:
        """Returns the node's content."""
        fields = {name: getattr(self, name) for name in _FIELDS}
        return json.dumps({**dict(self.extra), "version": FORMAT_VERSION, **fields}, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, data: bytes) -> KeptChanges:
        """Parses the node's content. Raises ``CorruptionError``."""
        try:
            document: dict[str, Any] = json.loads(data)
            version = document.pop("version")
            if version != FORMAT_VERSION:
                raise ValueError(f"version {version}, this server understands {FORMAT_VERSION}")
            known = {name: int(document.pop(name)) for name in _FIELDS if name in document}
            return cls(**known, extra=tuple(document.items()))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"Cannot read what a replica keeps for links {data[:200]!r}: {error}"
            raise CorruptionError(message, name="CORRUPTED_DATA") from error


_FIELDS = ("period", "since", "pointer", "definitions", "failures")


def read_kept_changes(keeper: Keeper, table: TablePaths, replicas: Sequence[str]) -> dict[str, KeptChanges]:
    """Returns what those of the replicas keep that have the node."""
    answers = keeper.get_many([table.replica(name).link_keeping for name in replicas])
    return {
        name: KeptChanges.parse(answer[0]) for name, answer in zip(replicas, answers, strict=True) if answer is not None
    }


def list_not_keeping(kept: Mapping[str, KeptChanges], replicas: Iterable[str], period: int) -> list[str]:
    """Lists those of the replicas that do not keep the changes of this period yet."""
    return sorted(name for name in replicas if name not in kept or kept[name].period != period or not kept[name].since)


def is_in_journals(created_zxid: int, kept: Collection[KeptChanges], period: int, what: str) -> bool:
    """Tells whether all replicas have a node that was created at the zxid, or will begin behind it.

    ``what`` is ``definitions`` or ``failures``; ``kept`` is that of all replicas that are not lost. A replica of
    another period begins anew, with a larger zxid than any that exists now.
    """
    return all(
        each.since and (each.since >= created_zxid or getattr(each, what) >= created_zxid)
        for each in kept
        if each.period == period
    )


def select_in_journals(
    keeper: Keeper, table: TablePaths, zxids: Mapping[str, int], replicas: Sequence[str], what: str
) -> list[str]:
    """Selects the nodes (name → zxid) that no replica has to write into its journal any more.

    ``replicas`` are those that are not lost. All are selected while the table has no links: a link that comes later
    begins behind them.
    """
    gate = keeper.get_many([table.gate])[0]
    found = Gate.parse(gate[0]) if gate is not None else None
    if found is None or not found.links:
        return list(zxids)
    kept = read_kept_changes(keeper, table, replicas).values()
    return [name for name, zxid in zxids.items() if is_in_journals(zxid, kept, found.periods, what)]


def clean_definitions(keeper: Keeper, table: TablePaths, replicas: Sequence[str]) -> int:
    """Deletes the definitions that no replica has to write into its journal any more. Returns how many.

    ``replicas`` are those that are not lost.
    """
    names = keeper.children_many([table.linked.definitions])[0]
    if not names:
        return 0
    stats = keeper.exists_many([f"{table.linked.definitions}/{name}" for name in names])
    zxids = {name: stat.created_zxid for name, stat in zip(names, stats, strict=True) if stat is not None}
    gone = select_in_journals(keeper, table, zxids, replicas, "definitions")
    delete_all_present(keeper, [f"{table.linked.definitions}/{name}" for name in gone])
    return len(gone)
