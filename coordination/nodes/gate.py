"""The content of a table's gate: its epoch, its links, and the bars against commits.

::

    links/gate    {"version":1,"epoch":"1-00c0ffee00c0ffee","links":{},"periods":0,"bars":[{"owner":…,"keeps_out":…,…}]}

A *bar* keeps commits out of the table until its owner takes it away. A table without bars is open. ``links`` names the
links that the table is an end of (:mod:`coordination.nodes.gate_link`). ``periods`` counts how often the table became
linked: what a replica kept in a former period has holes. ``commands`` is in :mod:`coordination.nodes.gate_commands`;
tables whose rows have no places lack it. Keys that this version does not know are kept when it writes
the gate.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from coordination.nodes.gate_commands import EACH_SOURCE, CommandSource
from coordination.nodes.gate_commands import KEY as COMMANDS_KEY
from coordination.nodes.gate_link import GateLink, LinkDirection, LinkMode, SyncState
from parts.common.errors import CorruptionError, UnavailableError

FORMAT_VERSION = 1
_KEYS = ("version", "epoch", "links", "periods", "bars", COMMANDS_KEY)
_NONCE_MASK = 2**64 - 1


class CommitKind(Enum):
    """The kinds of commits that bars tell apart."""

    ROWS = "rows"
    """Rows come in: an INSERT, a transaction, an attached or moved partition."""
    OTHER = "other"
    """Anything else that this cluster commits: a drop, a mutation."""
    COMMAND = "command"
    """A mutation that says by the places of rows which ones it touches (``parts.common.command_reach``)."""
    DEFINITION = "definition"
    """An ALTER. The target of a link takes it, and nothing else of its own clients."""
    UPKEEP = "upkeep"
    """What a cluster does by itself, at a link's target too: expired rows go, lost parts are given up."""
    LINK = "link"
    """A batch of a link: what another cluster committed."""


class KeptOut(Enum):
    """The commits that a bar keeps out."""

    INSERTS = "inserts"
    """Commits that bring rows."""
    COMMITS = "commits"
    """Every commit of this cluster."""
    ALL = "all"
    """Every commit, those of links too."""

    def concerns(self, kind: CommitKind) -> bool:
        """Tells whether a commit of this kind is kept out."""
        if kind is CommitKind.LINK:
            return self is KeptOut.ALL
        return kind is CommitKind.ROWS or self is not KeptOut.INSERTS


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar. An owner has at most one in a table."""

    owner: str
    """Who takes it away again."""
    keeps_out: KeptOut
    waits: bool = False
    """Whether a commit waits for the bar to go; otherwise it fails."""
    reason: str = ""
    """Why, and what helps, for the error."""

    def to_json(self) -> dict[str, Any]:
        """Returns the bar as the gate's node holds it."""
        return {"owner": self.owner, "keeps_out": self.keeps_out.value, "waits": self.waits, "reason": self.reason}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Bar:
        """Reads one bar. Raises ``KeyError``, ``ValueError``."""
        return cls(
            document["owner"], KeptOut(document["keeps_out"]), bool(document["waits"]), document.get("reason", "")
        )


@dataclass(frozen=True, slots=True)
class Gate:
    """The gate of one table."""

    epoch: str
    """A counter, and 64 random bits that tell the epochs of a restored ZooKeeper from its former ones."""
    bars: tuple[Bar, ...] = ()
    links: tuple[GateLink, ...] = ()
    """The links that the table is an end of, sorted by name."""
    periods: int = 0
    """How often the table became linked."""
    others: Mapping[str, Any] = field(default_factory=dict)
    """The other keys of the node."""
    commands: CommandSource | None = None
    """Where commands come from; ``None`` as long as parts keep no places of rows."""

    @property
    def own_origin(self) -> str:
        """The origin of the table's own rows, as text; "" if parts keep no places."""
        return self.commands.make_origin(self.epoch) if self.commands is not None else ""

    @property
    def is_written_elsewhere(self) -> bool:
        """Whether links bring other clusters' own rows, and take this one's to them."""
        return any(link.is_two_way and not link.is_collecting for link in self.links)

    @property
    def has_commanding_cluster(self) -> bool:
        """Whether one cluster commands the rows of all origins."""
        return self.commands is not None and self.commands.cluster not in ("", EACH_SOURCE)

    def find_bar(self, kind: CommitKind) -> Bar | None:
        """Returns the first bar that keeps out commits of this kind.

        A link whose only writer is its source is a bar, too: against rows, drops and mutations. A two-way link is one
        against drops and mutations that do not go by the places of rows.
        """
        bar = next((bar for bar in self.bars if bar.keeps_out.concerns(kind)), None)
        if bar is None and kind in (CommitKind.ROWS, CommitKind.OTHER, CommitKind.COMMAND):
            bar = next(self._link_bars(), None)
        if bar is None and kind is CommitKind.OTHER:
            bar = next(self._two_way_bars(), None)
        return bar

    def _link_bars(self) -> Iterator[Bar]:
        for link in self.links_of(LinkDirection.IN):
            if not link.is_two_way:
                yield Bar(
                    f"link {link.name}",
                    KeptOut.COMMITS,
                    reason=f"The table is the target of replication link {link.name} from cluster "
                    f"{link.peer_name or link.peer}, so it is written there alone. ALTER REPLICATION LINK {link.name} "
                    "MODIFY SETTING two_way = 1 allows writes at both ends",
                )

    def _two_way_bars(self) -> Iterator[Bar]:
        """Bars against commands: they cover rows by number, and each cluster numbers the rows of others anew."""
        for link in self.links:
            if link.is_two_way and not link.is_collecting:
                yield Bar(
                    f"link {link.name}",
                    KeptOut.COMMITS,
                    reason=f"The table is written at both ends of replication link {link.name} (two_way = 1), so it "
                    f"{self._explain_refused()}: each cluster would apply them to other rows. {self._advise()}, or "
                    "DROP REPLICATION LINK first",
                )

    def _explain_refused(self) -> str:
        if self.has_commanding_cluster:
            return "takes no mutations but UPDATE and DELETE, and no other drops than DROP PARTITION and TRUNCATE"
        return "takes no mutations and no drops of rows"

    def _advise(self) -> str:
        if self.has_commanding_cluster:
            return "Use one of these"
        return (
            "ALTER TABLE … MODIFY SETTING commands_from = '<cluster>' at each of them lets one cluster command all "
            "rows. Or give the table last_writer_wins = 1, where DELETE and UPDATE are INSERTs"
        )

    def with_commands(self, commands: CommandSource) -> Gate:
        """Returns the gate with another source of commands."""
        return replace(self, commands=commands)

    def with_bar(self, bar: Bar) -> Gate:
        """Returns the gate with this bar in place of the owner's former one."""
        return replace(self.without_bar(bar.owner), bars=(*self.without_bar(bar.owner).bars, bar))

    def without_bar(self, owner: str) -> Gate:
        """Returns the gate without the owner's bar."""
        return replace(self, bars=tuple(bar for bar in self.bars if bar.owner != owner))

    def find_link(self, name: str) -> GateLink | None:
        """Returns the link of this name, or ``None``."""
        return next((link for link in self.links if link.name == name), None)

    def links_of(self, direction: LinkDirection) -> tuple[GateLink, ...]:
        """Returns the links of which the table is this side."""
        return tuple(link for link in self.links if link.direction is direction)

    @property
    def sync_targets(self) -> tuple[GateLink, ...]:
        """The links with whose targets INSERTs are made now."""
        return tuple(link for link in self.links_of(LinkDirection.OUT) if link.state is SyncState.ENABLED)

    @property
    def sync_links(self) -> tuple[GateLink, ...]:
        """The links that are synchronous, or to become so."""
        return tuple(link for link in self.links_of(LinkDirection.OUT) if link.mode is LinkMode.SYNC)

    def with_link(self, link: GateLink) -> Gate:
        """Returns the gate with this link in place of a former one of the same name."""
        links = sorted((link, *self.without_link(link.name).links), key=lambda each: each.name)
        return replace(self, links=tuple(links), periods=self.periods + (not self.links))

    def without_link(self, name: str) -> Gate:
        """Returns the gate without the link of this name."""
        return replace(self, links=tuple(link for link in self.links if link.name != name))

    def to_bytes(self) -> bytes:
        """Returns the node's content."""
        document = {
            **self.others,
            "version": FORMAT_VERSION,
            "epoch": self.epoch,
            "links": {link.name: link.to_json() for link in self.links},
            "periods": self.periods,
            "bars": [bar.to_json() for bar in self.bars],
            **({COMMANDS_KEY: self.commands.to_json()} if self.commands is not None else {}),
        }
        return json.dumps(document, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()

    @classmethod
    def parse(cls, data: bytes) -> Gate:
        """Parses the node's content. Raises ``CorruptionError``."""
        try:
            document = json.loads(data)
            if document["version"] != FORMAT_VERSION:
                raise ValueError(f"version {document['version']}, this server understands {FORMAT_VERSION}")
            links = tuple(GateLink.of(name, link) for name, link in sorted(document.get("links", {}).items()))
            others = {key: value for key, value in document.items() if key not in _KEYS}
            bars = tuple(map(Bar.of, document["bars"]))
            commands = CommandSource.of(document[COMMANDS_KEY]) if COMMANDS_KEY in document else None
            return cls(document["epoch"], bars, links, int(document.get("periods", 0)), others, commands)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptionError(f"Cannot read the gate {data[:200]!r}: {error}", name="CORRUPTED_DATA") from error


def format_epoch(counter: int, nonce: int) -> str:
    """Returns the text of an epoch. Of ``nonce``, a random number, the lowest 64 bits count."""
    return f"{counter}-{nonce & _NONCE_MASK:016x}"


class GateBarred(UnavailableError):
    """A bar keeps this commit out. Nothing was committed."""

    def __init__(self, root: str, bar: Bar) -> None:
        super().__init__("TABLE_IS_READ_ONLY", bar.reason or f"Table {root} is closed by {bar.owner}")
        self.root = root
        self.bar = bar

    def __reduce__(self) -> tuple[object, ...]:
        return (GateBarred, (self.root, self.bar))
