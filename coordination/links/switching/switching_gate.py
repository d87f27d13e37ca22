"""The parts of a gate that belong to a switch of the source, and the bars that go with them.

::

    "switching": {"promotion":{"link":"orders"},                      this table is being promoted.
                  "promise":{"to":"north","uuid":"…","began_ms":1},   it takes nothing more until that is decided.
                  "ticket":{"id":"…","link":"north/orders","cluster":"north"},    a SWITCH closed this source.
                  "asked":{"id":"…","link":"orders","back":"…"},          a SWITCH that this target runs.
                  "voided":["<ticket>",…],                                tickets that no fork can use any more.
                  "telling":[{"of":"<origin>","cluster":"west","link":"orders","uuid":"…"},
                             {"of":…,"cluster":…,"link":…,"database":"d","table":"t","ticket":…,"back":…,…},…]}

``promise`` names the cluster that is promoted, and its UUID. ``asked`` has the ticket, the UUID that the link back will
have, and ``"void":true`` once it is cancelled and the source must still be told. ``telling`` lists who has not heard of
a fork, which ``of`` names: a sibling by the UUID of its link, the old source by its table. With ``ticket``, ``back``
and ``settings`` (of the link back, as JSON) it is the source that a SWITCH closed. ``ticket``, ``asked`` and what tells
such a source name the transactional group of links that is switched over as one, as ``"group":"trade"``: its tables
have one ticket. ``"links":"customers,orders"`` are those of which the source must be told together. What is not there
is left out; unknown keys are kept.

The bars, by owner: ``promotion`` while the fork is made, ``promise``, ``ticket``, and ``fork``: the table has met a
fork that it does not follow (:mod:`coordination.links.switching.lineage`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from coordination.links.switching.lineage import EpochFork, Lineage
from coordination.nodes.gate import Bar, Gate, KeptOut
from coordination.nodes.gate_link import LinkDirection
from parts.common.errors import UserError

SWITCHING_KEY = "switching"
PROMISE = "promise"
PROMOTION = "promotion"
TICKET = "ticket"
ASKED = "asked"
VOIDED = "voided"
TELLING = "telling"
FORK_OWNER = "fork"
_MOST_VOIDED = 20

Facts = Mapping[str, Any]


def read_fact(gate: Gate, name: str) -> Any:
    """Returns one of the parts; ``None`` if the gate has none."""
    found = gate.others.get(SWITCHING_KEY, {})
    return found.get(name) if isinstance(found, dict) else None


def write_facts(gate: Gate, **facts: object) -> Gate:
    """Returns the gate with these parts; ``None`` takes one away."""
    former = gate.others.get(SWITCHING_KEY, {})
    new = {name: value for name, value in {**former, **facts}.items() if value is not None}
    others = {key: value for key, value in gate.others.items() if key != SWITCHING_KEY}
    return replace(gate, others={**others, SWITCHING_KEY: new} if new else others)


def name_links(link: str, group: str) -> str:
    """Returns how a statement names what is switched over: a link, or the group that it is in."""
    return f"REPLICATION LINK GROUP {group}" if group else f"REPLICATION LINK {link.rpartition('/')[2]}"


def _name_target_links(gate: Gate, link: str) -> str:
    found = gate.find_link(link)
    return name_links(link, found.group if found is not None else "")


# -- promises -----------------------------------------------------------------------------------------------------


def promise(gate: Gate, link: str, asker: str, asker_uuid: str, began_ms: int) -> Gate:
    """Returns the gate of a sibling that takes nothing more until the asker's fork is decided.

    Raises ``UserError`` 36 (BAD_ARGUMENTS) for one that is being promoted itself, or that promised somebody else.
    """
    if read_fact(gate, PROMOTION) is not None or read_fact(gate, ASKED) is not None:
        raise UserError("BAD_ARGUMENTS", f"link {link!r} is being promoted itself")
    former = read_fact(gate, PROMISE)
    if former is not None and former["uuid"] != asker_uuid:
        raise UserError(
            "BAD_ARGUMENTS",
            f"link {link!r} has promised cluster {former['to']} to take nothing more until its promotion is decided; "
            f"SYSTEM PROMOTE {_name_target_links(gate, link)} CANCEL there ends that",
        )
    bar = Bar(
        PROMISE,
        KeptOut.ALL,
        reason=f"Cluster {asker} is being promoted, and link {link} has promised to take nothing more until that is "
        f"decided. If it is given up, SYSTEM PROMOTE {_name_target_links(gate, link)} CANCEL here ends the promise",
    )
    return write_facts(gate, promise={"to": asker, "uuid": asker_uuid, "began_ms": began_ms}).with_bar(bar)


def end_promise(gate: Gate, asker_uuid: str = "") -> Gate:
    """Returns the gate without the promise; with ``asker_uuid`` only if that cluster has it."""
    former = read_fact(gate, PROMISE)
    if former is None or (asker_uuid and former["uuid"] != asker_uuid):
        return gate
    return write_facts(gate, promise=None).without_bar(PROMISE)


# -- promotions ---------------------------------------------------------------------------------------------------


def begin_promotion(gate: Gate, link: str) -> Gate:
    """Returns the gate of a target that is being promoted: it promises nobody anything.

    Raises ``UserError`` 36 (BAD_ARGUMENTS) if it has promised somebody.
    """
    former = read_fact(gate, PROMISE)
    if former is not None:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Link {link!r} cannot be promoted: it has promised cluster {former['to']}, which is being promoted, to "
            "take nothing more. Wait for that, or end the promise with SYSTEM PROMOTE "
            f"{_name_target_links(gate, link)} CANCEL",
        )
    return write_facts(gate, promotion={"link": link})


def close_for_fork(gate: Gate, link: str) -> Gate:
    """Returns the gate that keeps out everything, so that what is read now is what the fork has."""
    reason = f"Link {link} is being promoted; the table takes writes when that is done"
    return gate.with_bar(Bar(PROMOTION, KeptOut.ALL, reason=reason))


def is_closed_by_switch(gate: Gate) -> bool:
    """Tells whether a SWITCH that asked for its ticket here has taken everything, and closed the target."""
    is_closed = any(bar.owner == PROMOTION for bar in gate.bars)
    return is_closed and read_fact(gate, PROMOTION) is None and read_fact(gate, ASKED) is not None


def end_promotion(gate: Gate) -> Gate:
    """Returns the gate of a target that is not being promoted."""
    return write_facts(gate, promotion=None).without_bar(PROMOTION)


# -- the source ---------------------------------------------------------------------------------------------------


def meet_fork(gate: Gate, lineage: Lineage, fork: EpochFork, link: str) -> Gate:
    """Returns the gate of a table whose epoch ended at a fork that it does not follow: it is shut.

    A table that has rejoined since somebody looked keeps its gate.
    """
    if lineage.find(fork.name) is not None:
        return gate
    known = gate.find_link(link)
    is_target = known is not None and known.direction is LinkDirection.IN
    name = name_links(link, known.group if known is not None and is_target else fork.group)
    bar = Bar(
        FORK_OWNER,
        KeptOut.ALL,
        reason=f"The table is not the source any more: cluster {fork.cluster} was promoted, and its epoch ended at the "
        f"fork {fork.describe()}. SYSTEM REJOIN {name} FROM CLUSTER {fork.cluster} shows what lies "
        f"behind it here, and with DETACH TAIL makes the table follow. SYSTEM PROMOTE {name} FORCE "
        "goes on without the others",
    )
    return lineage.meet(fork).write(end_promise(gate)).with_bar(bar)


def close_for_switch(gate: Gate, ticket: str, link: str, cluster: str, group: str = "") -> Gate:
    """Returns the gate of a source that a SWITCH closed with this ticket.

    Raises ``UserError`` 36 (BAD_ARGUMENTS) if another one did.
    """
    former = read_fact(gate, TICKET)
    if former is not None and former["id"] != ticket:
        raise UserError(
            "BAD_ARGUMENTS",
            f"The source is being switched over to cluster {former['cluster']} already. Go on there, or end it there "
            f"with SYSTEM SWITCH {name_links(former['link'], former.get('group', ''))} CANCEL",
        )
    name = name_links(link, group)
    bar = Bar(
        TICKET,
        KeptOut.ALL,
        reason=f"The table is being switched over to cluster {cluster}, which takes the writes when that is done. "
        f"SYSTEM SWITCH {name} goes on there, and SYSTEM SWITCH {name} CANCEL ends "
        f"it; if cluster {cluster} is gone for good, SYSTEM PROMOTE {name} FORCE here opens the table",
    )
    kept = {"id": ticket, "link": link, "cluster": cluster, **({"group": group} if group else {})}
    return write_facts(gate, ticket=kept).with_bar(bar)


def open_after_switch(gate: Gate, ticket: str) -> Gate:
    """Returns the gate without the ticket; another ticket stays."""
    former = read_fact(gate, TICKET)
    if former is None or former["id"] != ticket:
        return gate
    return write_facts(gate, ticket=None).without_bar(TICKET)


def void_ticket(gate: Gate, ticket: str) -> Gate:
    """Returns the gate of a target that wrote that the ticket is void: no fork can use it any more."""
    voided = [*(read_fact(gate, VOIDED) or ()), ticket][-_MOST_VOIDED:]
    return write_facts(end_promotion(gate), asked=None, voided=voided)
