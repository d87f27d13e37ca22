"""The state of a link, for system tables, metrics and the server that runs the link.

``LinkProgress`` is what changes while a link runs. The server that runs it writes it to ``links/in/<name>/status``, so
that every server of the target can show it::

    {"version":1,"upstream_status":"follow","message":"","lag":0.2,"rows_behind":17,…}

Keys that this version does not know are dropped: the next status is complete anyway.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import Any

from coordination.nodes.gate_link import LinkDirection
from parts.common.errors import CorruptionError

FORMAT_VERSION = 1
MAX_TEXT_CHARACTERS = 4000
"""Of a message. Errors of other clusters may have a megabyte, and ZooKeeper cuts the connection for larger nodes."""


class UpstreamStatus(Enum):
    """The work that a link does now."""

    FOLLOW = "follow"
    """It brings changes."""
    SYNC = "sync"
    """It brings them before the source answers."""
    BOOTSTRAP = "bootstrap"
    """It copies the table."""
    PAUSED = "paused"
    """It waits until the cause in the message is gone, and goes on by itself."""
    DISCONNECTED = "disconnected"
    """No server of the source answers."""
    STOPPED = "stopped"
    """A person must say what to do."""


@dataclass(frozen=True, slots=True)
class LinkProgress:
    """The part of a link's state that changes while it runs."""

    upstream_status: UpstreamStatus = UpstreamStatus.DISCONNECTED
    message: str = ""
    """The cause, the rows that wait, and the statement that helps; empty while nothing is wrong."""
    idle: float = 0.0
    """Seconds since the source's last answer."""
    lag: float = 0.0
    """Age in seconds of the last applied change while something is missing; 0 if the last heartbeat found nothing."""
    applied_position: str = ""
    """The place in the source's stream up to which the target has committed everything."""
    confirmed_position: str = ""
    """The place up to which ``link_quorum`` replicas of the target have everything: the source keeps what follows."""
    source_position: str = ""
    """The source's frontier, as it last told."""
    rows_behind: int = 0
    """Rows between the two."""
    bytes_behind: int = 0
    rows_applied: int = 0
    """Rows brought since the server that runs the link began to."""
    bytes_applied: int = 0
    blocks_applied: int = 0
    lost_rows: int = 0
    """Rows that the source had lost before they could be brought."""
    errors: int = 0
    """Attempts that failed since the server that runs the link began to."""
    last_exception: str = ""
    conflicts: int = 0
    """Versions of a ``last_writer_wins`` table that lost to another origin's, as merges saw them."""
    sync_state: str = ""
    """The state of the link's mode, as the source last told."""
    leader: str = ""
    """The server that runs the link; empty if none does."""
    siblings: str = ""
    """The other targets of the source, as it last told: JSON (``engine.links.switching.siblings``)."""

    def __post_init__(self) -> None:
        for name in ("message", "last_exception"):
            text: str = getattr(self, name)
            if len(text) > MAX_TEXT_CHARACTERS or not text.isascii():
                object.__setattr__(self, name, _shorten(text))

    def to_bytes(self) -> bytes:
        """Returns the node's content."""
        document = {**asdict(self), "upstream_status": self.upstream_status.value, "version": FORMAT_VERSION}
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def parse(cls, data: bytes) -> LinkProgress:
        """Parses the node's content; no bytes are a link that nobody has run yet. Raises ``CorruptionError``."""
        if not data:
            return cls()
        try:
            document: dict[str, Any] = json.loads(data)
            version = document.pop("version")
            if version != FORMAT_VERSION:
                raise ValueError(f"version {version}, this server understands {FORMAT_VERSION}")
            known = {name: document[name] for name in _PROGRESS if name in document}
            return cls(**{**known, "upstream_status": UpstreamStatus(document["upstream_status"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptionError(
                f"Cannot read the state of a link {data[:200]!r}: {error}", name="CORRUPTED_DATA"
            ) from error


def _shorten(text: str) -> str:
    """Returns a text of bounded length that UTF-8 can encode."""
    cut = text if len(text) <= MAX_TEXT_CHARACTERS else f"{text[: MAX_TEXT_CHARACTERS - 2]} …"
    return cut.encode(errors="replace").decode()


_PROGRESS = frozenset(each.name for each in fields(LinkProgress))


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """One link, as one end of it shows it: a row of ``system.replication_links``."""

    name: str
    """As its target knows it; at the source ``<target cluster>/<name>``."""
    direction: LinkDirection
    database: str
    """Of the table of this cluster."""
    table: str
    peer: str
    """The other cluster."""
    peer_database: str = ""
    """Of the other table, as far as this end knows it."""
    peer_table: str = ""
    uuid: str = ""
    database_link: str = ""
    """The database link that made this one; empty for none."""
    mode: str = "async"
    state: str = "enabled"
    """``enabled``, ``disabled``, or ``unreadable``: something of the link in ZooKeeper cannot be read."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """All settings, as text."""
    is_leader: bool = False
    """Whether this server runs the link."""
    progress: LinkProgress = LinkProgress()

    @property
    def start_position(self) -> str:
        """Returns the setting of this name: the state of the target when the link began."""
        return self.settings.get("start_position", "")


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    """The journal and outbox of one replica of a table: a row of ``system.link_outbox``."""

    database: str
    table: str
    first_position: str
    """The journal has everything behind it."""
    last_position: str
    """The newest change that the journal has."""
    trimmed_position: str
    """Blocks at or below it were given up; empty for none."""
    blocks: int
    size_bytes: int
    """Bytes of the blocks. Blocks that the table has too take no space of their own."""
    journal_bytes: int
    needed_by: tuple[str, ...]
    """The links that have not acknowledged everything."""
    missing_blocks: int = 0
    """Blocks that are not here yet, and may have to be asked for at other replicas."""
