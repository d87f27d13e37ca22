"""Commands on a table of several origins: which rows they reach, and who may give them. No I/O.

One cluster takes the commands (``coordination.nodes.gate_commands``). It reads the table's vector, with the zxid of its
own newest commit, before the command takes its block numbers; that is the command's reach
(``parts.common.command_reach``). Everywhere, at this cluster too, the command touches the rows of lower numbers that it
reaches. Each cluster has them all, below the command's number there:

- Here they were committed before the vector was read, so they have lower numbers.
- Elsewhere the command comes in a stream that has, before the command, everything that its sender had when it committed
  the command. A batch that fails because something else was committed first takes all its numbers anew.

What came later is out of reach everywhere, whichever number it has. Rows without a place are reached by every command.
So a cluster that begins to keep places writes a *mark* into its stream: a mutation of no partition, with no reach.
Commands are refused until the marks of all clusters have come. A cluster does not carry out a command that does not
reach up to where its own rows have places. So every cluster touches its older rows.

A table that only collects rows of several sources has no one that commands all of them. There a source's command
reaches the rows of its own origin (:func:`limit_to_own_rows`), and every row has a place.

``tests/links/command_model.py`` plays these rules, and those that were left out, in any order of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from coordination.links.positions import Origin
from coordination.links.stream.change import Change, Mutation
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate import Gate
from coordination.nodes.gate_commands import CommandSource
from parts.common.command_reach import CommandReach, add_reach, find_reach

NO_REACH = CommandReach(())
"""The reach of a mark."""


def is_mark(mutation: Mutation) -> bool:
    """Tells whether a mutation says that the table of its origin keeps the places of rows from here on."""
    return not mutation.numbers and find_reach(mutation.text) == NO_REACH


def find_marks(changes: Iterable[Change]) -> dict[str, int]:
    """Returns by origin the last mark in the changes."""
    marks: dict[str, int] = {}
    for change in changes:
        if any(map(is_mark, change.mutations)):
            marks[str(change.position.origin)] = change.position.zxid
    return marks


def with_marks(gate: Gate, marks: Mapping[str, int]) -> CommandSource:
    """Returns what a gate says of commands, with the marks of other clusters."""
    return (gate.commands or CommandSource("", "")).with_began(marks)


def make_reach(own: Origin, newest: int, vector: VersionVector) -> CommandReach:
    """Returns the reach of a command that is about to take its numbers.

    ``newest``: the zxid of the table's newest commit. ``vector`` was read behind it.
    """
    positions = {str(origin): entry.applied for origin, entry in vector.entries.items() if not entry.is_place}
    return CommandReach.of({**positions, str(own): newest})


def list_unready(
    commands: CommandSource, own: Origin, vector: VersionVector, peers: Collection[str], names: Mapping[str, str]
) -> list[str]:
    """Returns the clusters whose marks commands wait for, by name.

    ``peers``: the UUIDs of the clusters at the other ends of two-way links. ``names``: UUID → name of known clusters.
    """
    begun = {(origin.cluster, origin.table) for origin in map(Origin.parse, commands.began)}
    heard = {cluster for cluster, table in begun if (cluster, table) != (own.cluster, own.table)}
    others = {
        (origin.cluster, origin.table)
        for origin, entry in vector.entries.items()
        if not entry.is_forgotten and not entry.is_place
    }
    missing = {cluster for cluster, table in {*others, (own.cluster, own.table)} - begun} | (set(peers) - heard)
    return sorted(names.get(cluster, cluster) for cluster in missing)


def limit_to_own_rows(change: Change, make_drop: Callable[[str], str]) -> Change:
    """Returns a source's change as a table that collects rows of others carries it out.

    Its commands reach what its origin committed before. A drop becomes a mutation, whose text ``make_drop`` makes of
    the partition. Mutations that have a reach keep it.
    """
    reach = CommandReach.of({str(change.position.origin): change.position.zxid - 1})
    drops = [Mutation(add_reach(make_drop(p), reach), ((p, number),)) for p, number in change.drop_numbers()]
    mutations = [
        each if find_reach(each.text) is not None else replace(each, text=add_reach(each.text, reach))
        for each in change.mutations
    ]
    return replace(change, drops=(), mutations=(*drops, *mutations))


def explain_unreached(commands: CommandSource, own: Origin, reach: CommandReach) -> str:
    """Says why this table must not carry out a command of this reach; "" if it may.

    It must reach all of the table's own rows that have no place, in whichever epoch the table began to keep places.
    """
    found = {origin: Origin.parse(origin) for origin in commands.began}
    texts = [text for text, each in found.items() if (each.cluster, each.table) == (own.cluster, own.table)]
    if not texts:
        return "the table has not noted since when it keeps the places of rows: repeat the ALTER"
    for text in texts:
        zxid = commands.began[text]
        if reach.find_last(text) < zxid:
            return (
                f"it was given when its cluster did not have the rows that this one had without places: it reaches up "
                f"to {reach.find_last(text)} of origin {text}, whose rows have places behind {zxid}"
            )
    return ""
