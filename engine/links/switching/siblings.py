"""The siblings of a target: the other targets of its source, as the source last told them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from coordination.links.link_nodes import StoredLink
from coordination.links.positions import Origin
from coordination.links.version_vector import VersionVector
from coordination.nodes.gate_link import LinkMode
from engine.links.exchange.fields import get_flag, get_object, get_text
from engine.links.exchange.protocol import decode_vector
from engine.links.switching.local_tables import LocalTable, SwitchingServer
from engine.tables.capabilities.link_status import LinkProgress
from engine.tables.capabilities.table_links import OutgoingLink

_ASK_SECONDS = 15.0


@dataclass
class Sibling:
    """Another target of the source. What it answers is filled in by :meth:`ask_promise`."""

    server: SwitchingServer
    cluster: str
    uuid_of_cluster: str
    name: str
    """The link, as its target calls it."""
    uuid: str
    mode: str = LinkMode.ASYNC.value
    is_paused: bool = False
    database: str = ""
    table: str = ""
    table_number: int = 0
    vector: VersionVector | None = None

    def ask_promise(self, origin: str) -> bool:
        """Makes it take nothing more of the source's epoch. Returns false if it is gone."""
        own = self.server.cluster_membership.get_identity(self.server.replication.require_keeper())
        answer = self.server.links.connect(self.cluster).ask(
            "switching/promise",
            {"link": self.name, "uuid": self.uuid, "origin": origin, "asker": own.name, "asker_uuid": own.uuid},
            read_seconds=_ASK_SECONDS,
        )
        if get_flag(answer, "is_gone"):
            return False
        self.database, self.table = get_text(answer, "database"), get_text(answer, "table")
        self.vector = decode_vector(get_object(answer, "vector"))
        self.mode, self.is_paused = get_text(answer, "mode", self.mode), get_flag(answer, "is_paused")
        self.table_number = Origin.parse(get_text(answer, "own")).table
        return True

    def release(self) -> None:
        """Ends its promise, without a fork."""
        own = self.server.cluster_membership.get_identity(self.server.replication.require_keeper())
        self.server.links.connect(self.cluster).ask(
            "switching/release",
            {"link": self.name, "uuid": self.uuid, "asker_uuid": own.uuid},
            read_seconds=_ASK_SECONDS,
        )

    def as_registered(self) -> OutgoingLink:
        """Returns its link as one that takes changes from here, with the mode that it had."""
        return OutgoingLink(
            f"{self.cluster}/{self.name}",
            self.uuid,
            self.uuid_of_cluster,
            self.cluster,
            mode=LinkMode(self.mode),
            is_paused=self.is_paused,
        )

    def as_told(self) -> dict[str, str]:
        """Returns how it is named among those who must be told of a fork."""
        return {"cluster": self.cluster, "link": self.name, "uuid": self.uuid}


def name_siblings(links: Iterable[OutgoingLink], uuid: str) -> str:
    """Returns the other links of a source as the status of the link with this UUID has them; "" for none."""
    facts = [
        (
            each.target_cluster_name,
            each.target_cluster,
            each.name.partition("/")[2],
            each.uuid,
            each.mode.value,
            each.is_paused,
        )
        for each in links
        if each.uuid != uuid
    ]
    return json.dumps(sorted(facts), separators=(",", ":")) if facts else ""


def find_siblings(server: SwitchingServer, local: LocalTable, link: StoredLink) -> list[Sibling]:
    """Returns the siblings that the source named last, whichever server of this cluster ran the link."""
    progress = server.links.find_progress(link.definition.name)
    text = progress.siblings if progress is not None else ""
    if not text:
        (found,) = local.keeper.get_many([local.paths.linked.status(link.definition.name)])
        text = LinkProgress.parse(found[0]).siblings if found is not None else ""
    return parse_siblings(server, text)


def parse_siblings(server: SwitchingServer, text: str) -> list[Sibling]:
    """Parses what :func:`name_siblings` wrote."""
    return [Sibling(server, *each) for each in json.loads(text or "[]")]
