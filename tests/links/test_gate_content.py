"""What a gate holds, and which commits its bars keep out."""

from __future__ import annotations

import json

import pytest

from coordination.nodes.gate import Bar, CommitKind, Gate, KeptOut, format_epoch
from coordination.nodes.gate_commands import CommandSource
from coordination.nodes.gate_link import GateLink, LinkDirection
from parts.common.errors import CorruptionError

ROWS, OTHER = CommitKind.ROWS, CommitKind.OTHER


def test_what_is_written_is_read() -> None:
    gate = Gate(format_epoch(3, 2**64 + 255)).with_bar(Bar("a", KeptOut.INSERTS, waits=True, reason="why"))
    assert Gate.parse(gate.to_bytes()) == gate
    assert gate.epoch == "3-00000000000000ff"


def test_keys_of_a_later_version_are_kept() -> None:
    link = {"direction": "out", "uuid": "u", "peer": "p", "peer_name": "west", "two_way": True, "mode": "sync"}
    content = {"version": 1, "epoch": "1-0", "bars": [], "links": {"west/l": link}, "periods": 2, "later": [1]}
    written = Gate.parse(json.dumps(content).encode()).with_bar(Bar("a", KeptOut.ALL)).without_bar("a").to_bytes()
    assert json.loads(written) == content


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"version":2}', b'{"version":1,"epoch":"1","bars":[{}]}'])
def test_what_cannot_be_read(data: bytes) -> None:
    with pytest.raises(CorruptionError, match="Cannot read the gate"):
        Gate.parse(data)


@pytest.mark.parametrize(
    ("keeps_out", "kinds"),
    [
        (KeptOut.INSERTS, [ROWS]),
        (KeptOut.COMMITS, [ROWS, OTHER, CommitKind.COMMAND, CommitKind.DEFINITION, CommitKind.UPKEEP]),
        (KeptOut.ALL, list(CommitKind)),
    ],
)
def test_what_a_bar_keeps_out(keeps_out: KeptOut, kinds: list[CommitKind]) -> None:
    gate = Gate("1-0").with_bar(Bar("a", keeps_out))
    assert [kind for kind in CommitKind if gate.find_bar(kind) is not None] == kinds


def test_an_owner_has_one_bar_and_takes_away_its_own() -> None:
    gate = Gate("1-0").with_bar(Bar("a", KeptOut.INSERTS)).with_bar(Bar("b", KeptOut.ALL))
    gate = gate.with_bar(Bar("a", KeptOut.COMMITS))
    assert sorted((bar.owner, bar.keeps_out) for bar in gate.bars) == [("a", KeptOut.COMMITS), ("b", KeptOut.ALL)]
    assert [bar.owner for bar in gate.without_bar("a").bars] == ["b"]
    assert gate.without_bar("c") == gate


def test_links_of_a_gate() -> None:
    gate = Gate("1-0")
    out, back = GateLink("west/l", LinkDirection.OUT, "u", "p"), GateLink("l", LinkDirection.IN, "v", "p", "west", True)
    gate = gate.with_link(out).with_link(back)
    assert (gate.links, gate.periods) == ((back, out), 1)
    assert (gate.links_of(LinkDirection.OUT), gate.find_link("l"), gate.find_link("m")) == ((out,), back, None)
    assert gate.with_link(out) == gate == Gate.parse(gate.to_bytes())
    gate = gate.without_link("l").without_link("west/l")
    assert gate.with_link(back).periods == 2


def test_a_target_keeps_up_its_table_by_itself() -> None:
    gate = Gate("1-0").with_link(GateLink("l", LinkDirection.IN, "v", "p", "west"))
    barred = [ROWS, OTHER, CommitKind.COMMAND]
    assert [kind for kind in CommitKind if gate.find_bar(kind) is not None] == barred


def test_the_source_of_commands() -> None:
    """A two-way link keeps out what does not go by the places of rows, and says what it takes."""
    link = GateLink("l", LinkDirection.IN, "v", "p", "west", is_two_way=True)
    gate = Gate("2-0").with_link(link)
    assert (gate.own_origin, Gate.parse(gate.to_bytes()).commands) == ("", None)
    commands = CommandSource("west", "c.7").with_began({"c.7.2-0": 0, "d.8.1-0": 5})
    kept = gate.with_commands(commands)
    assert Gate.parse(kept.to_bytes()) == kept
    assert kept.own_origin == "c.7.2-0"
    assert commands.with_began({"d.8.1-0": 9}) == commands, "the first mark counts"
    for each, advice in ((gate, "commands_from"), (kept, "but UPDATE and DELETE")):
        assert [kind for kind in CommitKind if each.find_bar(kind) is not None] == [OTHER]
        bar = each.find_bar(OTHER)
        assert bar is not None
        assert advice in bar.reason
    with pytest.raises(CorruptionError, match="Cannot read the gate"):
        Gate.parse(kept.to_bytes().replace(b'"began"', b'"begun"'))
