"""``select_sequential_consistency``: a read shows exactly the parts confirmed before it began.

While a replica is active, the parts it must get move in one direction:

    the log behind ``log_pointer`` → the queue → ZooKeeper's list of the replica's parts → the active parts on disk.

A pull takes the first step in one multi, the commit of a fetched part the second; an exchange makes its parts active
before it removes its entry. Parts move back only at the start of a session. So one attempt reads, after a ``sync``:

1. ``log_pointer``, then the log behind it
2. the queue, and then whether this activation still holds
3. a snapshot of the active parts that has everything that ZooKeeper lists for this replica
4. which parts are unconfirmed

**Every confirmed part is seen.** It is always in at least one of the places, and what leaves a place enters one that is
read later. The part of an entry that leaves the queue while it is read is in the snapshot. An entry that leaves the log
while it is read may have entered the queue after the queue was listed: then another attempt is made.

**No unconfirmed part is shown.** A part of the snapshot was marked as pending before this replica could get it. The
marks are read afterwards: the part is still pending, or has failed, or is confirmed.

**A part reported as missing is missing.** A part that step 1 or 2 named may be dropped before the snapshot. So the read
is refused (289) only when two attempts in a row miss the same part: it was still wanted after the first snapshot.

Of two parts that are confirmed while the read runs, it may show either one alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from coordination.inserts.quorum import parse_last_parts, read_unconfirmed_parts
from coordination.keeper.interface import Keeper
from coordination.log.log_entry import LogEntry
from coordination.log.part_set import PartSet
from coordination.nodes.active_keeper import ActivationEnded
from coordination.nodes.list_nodes import parse_entries
from coordination.nodes.paths import parse_sequence_number
from coordination.nodes.replica_activation import Activation
from parts.common.errors import UnavailableError
from parts.common.part_name import PartName

_LOOKS = 10


class _Part(Protocol):
    @property
    def name(self) -> PartName: ...


class Snapshot(Protocol):
    """The active parts of one moment, held until released."""

    @property
    def parts(self) -> Sequence[_Part]:
        """The parts, which stay on disk."""

    def release(self) -> None:
        """Releases the parts."""


S = TypeVar("S", bound=Snapshot)


def read_confirmed(keeper: Keeper, activation: Activation, take: Callable[[], S]) -> tuple[S, frozenset[PartName]]:
    """Returns a snapshot with every part confirmed before the call, and its parts that must not be shown.

    ``take`` takes a snapshot of the active parts with everything that ZooKeeper lists for the replica by then. No new
    session may begin meanwhile. Raises 289 (REPLICA_IS_NOT_IN_QUORUM) when the replica lacks a confirmed part, 242 when
    ``activation`` is over. Source: ClickHouse's ``select_sequential_consistency``.
    """
    missing: frozenset[PartName] = frozenset()
    for _ in range(_LOOKS):
        wanted = _find_wanted_parts(keeper, activation)
        if wanted is None:
            continue
        snapshot = take()
        try:
            hidden = read_unconfirmed_parts(keeper, activation.replica.table)
        except BaseException:
            snapshot.release()
            raise
        held = PartSet(part.name for part in snapshot.parts) if wanted else PartSet()
        former, missing = (
            missing,
            frozenset(part for part in wanted if part not in hidden and not held.find_covering(part)),
        )
        if not missing:
            return snapshot, hidden
        snapshot.release()
        if missing & former:
            break
    raise _not_in_quorum(activation.replica.name, missing)


def _not_in_quorum(replica: str, missing: frozenset[PartName]) -> UnavailableError:
    parts = f"part {min(missing)}" if missing else "every part"
    return UnavailableError(
        "REPLICA_IS_NOT_IN_QUORUM",
        f"Replica {replica} does not have {parts} that was written with quorum; read another replica or wait until "
        "this one has caught up",
    )


def _find_wanted_parts(keeper: Keeper, activation: Activation) -> list[PartName] | None:
    """Lists the confirmed parts that this replica may lack, without dropped ones.

    These are the last confirmed part of each partition, and the parts of entries that it has not executed. Returns
    ``None`` if the log was trimmed meanwhile: try again.
    """
    replica = activation.replica
    table = replica.table
    keeper.sync(table.root)
    pointer, last = keeper.get_many([replica.log_pointer, table.quorum_last_part])
    log, queue = keeper.children_many([table.log, replica.queue])
    if pointer is None or last is None or log is None or queue is None:
        raise ActivationEnded(activation)
    index = int(pointer[0] or b"0")
    queued = [replica.queue_entry(name) for name in queue]
    logged = [f"{table.log}/{name}" for name in log if parse_sequence_number(name) >= index]
    *answers, active, host = keeper.get_many([*queued, *logged, replica.is_active, replica.host])
    if not activation.holds(active and active[1], host and host[1]):
        raise ActivationEnded(activation)
    if None in answers[len(queued) :]:
        return None
    confirmed = [PartName.parse(part) for part in parse_last_parts(last[0]).values()]
    coming = parse_entries(keeper, table, (answer[0] for answer in answers if answer is not None))
    return confirmed + _list_coming_parts(coming)


def _list_coming_parts(entries: Sequence[LogEntry]) -> list[PartName]:
    """Lists the parts that these entries add with a quorum, or restore, and do not drop again."""
    ahead: list[PartName] = []
    for entry in entries:
        for gone in entry.removed_ranges:
            ahead = [part for part in ahead if not gone.covers(part)]
        if entry.quorum >= 2 or entry.is_restored:
            ahead += entry.created_parts
    return ahead
