"""The states of a link's mode, as changes of its source's gate.

::

    mode sync:    disabled ─► enabling ─► enabling, INSERTs wait ─► enabled
                                 ▲                │
                                 └── too long ────┘
    mode async, or the target disabled the link:
                  enabled ─► disabling, INSERTs wait ─► disabled        enabling ─► disabled

Each function returns the gate with the next state of one link, or the same gate if the state is another one by now. So
two servers that do the same step do no harm. A gate moves with the version that was read, and every commit of rows
checks that version: the set of targets with which an INSERT is made is the one of its staging.

Invariants:

- A link becomes ``enabled`` only out of ``enabling`` with its bar in place. Whoever takes that step has found
  everything below the bar's zxid visible at the target.
- A link that was ``enabled`` becomes ``disabled`` only through ``disabling``, during which no INSERT is committed.
"""

from __future__ import annotations

from dataclasses import replace

from coordination.nodes.gate import Bar, Gate, KeptOut
from coordination.nodes.gate_link import GateLink, LinkDirection, LinkMode, SyncState


def sync_bar_owner(uuid: str) -> str:
    """Returns the owner of the bar that a link's change of state puts up."""
    return f"sync {uuid}"


def find_source_link(gate: Gate, name: str, uuid: str = "") -> GateLink | None:
    """Returns the outgoing link of this name, and of this UUID if one is given."""
    link = gate.find_link(name)
    if link is None or link.direction is not LinkDirection.OUT or (uuid and link.uuid != uuid):
        return None
    return link


def is_shut(gate: Gate, link: GateLink) -> bool:
    """Tells whether the link's change of state keeps INSERTs out now."""
    return any(bar.owner == sync_bar_owner(link.uuid) for bar in gate.bars)


def request_mode(gate: Gate, link: GateLink, mode: LinkMode, *, is_paused: bool | None = None) -> Gate:
    """Returns the gate in which the link is on its way to the mode.

    ``is_paused``: ``None`` leaves it as it is.
    """
    wanted = replace(link, mode=mode, is_paused=link.is_paused if is_paused is None else is_paused)
    if wanted.wants_sync:
        return gate.with_link(_begun(wanted))
    if link.state is SyncState.ENABLED:
        return gate.with_link(replace(wanted, state=SyncState.DISABLING)).with_bar(_make_bar(link, "asynchronous"))
    if link.state is SyncState.ENABLING:
        return gate.with_link(replace(wanted, state=SyncState.DISABLED)).without_bar(sync_bar_owner(link.uuid))
    return gate.with_link(wanted)


def shut_for_enabling(gate: Gate, link: GateLink) -> Gate:
    """Returns the gate in which INSERTs wait until the target has everything."""
    if link.state is not SyncState.ENABLING or is_shut(gate, link):
        return gate
    return gate.with_bar(_make_bar(link, "synchronous"))


def give_up_enabling(gate: Gate, link: GateLink) -> Gate:
    """Returns the gate in which INSERTs go on although the target lacks something.

    The link stays ``enabling``.
    """
    return gate.without_bar(sync_bar_owner(link.uuid)) if link.state is SyncState.ENABLING else gate


def finish_enabling(gate: Gate, link: GateLink) -> Gate:
    """Returns the gate in which INSERTs are made together with the target."""
    if link.state is not SyncState.ENABLING or not is_shut(gate, link):
        return gate
    return gate.with_link(replace(link, state=SyncState.ENABLED)).without_bar(sync_bar_owner(link.uuid))


def finish_disabling(gate: Gate, link: GateLink) -> Gate:
    """Returns the gate in which INSERTs are made without the target."""
    if link.state is not SyncState.DISABLING:
        return gate
    new = _begun(replace(link, state=SyncState.DISABLED))
    return gate.with_link(new).without_bar(sync_bar_owner(link.uuid))


def _begun(link: GateLink) -> GateLink:
    if link.wants_sync and link.state is SyncState.DISABLED:
        return replace(link, state=SyncState.ENABLING)
    return link


def _make_bar(link: GateLink, wanted: str) -> Bar:
    return Bar(
        sync_bar_owner(link.uuid),
        KeptOut.INSERTS,
        waits=True,
        reason=f"Replication link {link.name} is becoming {wanted}, and INSERTs wait for that; try again",
    )
