"""The siblings of a target: the other targets of its source, as the source last told them."""

from __future__ import annotations

import json
from dataclasses import dataclass

from coordination.links.link_nodes import StoredLink
from coordination.links.positions import Origin
from coordination.links.version_vector import VersionVector
from engine.links.exchange.fields import get_flag, get_object, get_text
from engine.links.exchange.protocol import decode_vector
from engine.links.switching.local_tables import LocalTable, SwitchingServer
from engine.tables.capabilities.link_status import LinkProgress
from engine.tables.capabilities.table_links import SourceTable

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

    def as_told(self) -> dict[str, str]:
        """Returns how it is named among those who must be told of a fork."""
        return {"cluster": self.cluster, "link": self.name, "uuid": self.uuid}


def name_siblings(source: SourceTable, uuid: str) -> str:
    """Returns the other links of a source as the status of the link with this UUID has them; "" for none."""
    others = [each for each in source.siblings if each.uuid != uuid]
    names = [(each.target_cluster_name, each.target_cluster, each.name.partition("/")[2], each.uuid) for each in others]
    return json.dumps(sorted(names), separators=(",", ":")) if names else ""


def find_siblings(server: SwitchingServer, local: LocalTable, link: StoredLink) -> list[Sibling]:
    """Returns the siblings that the source named last, whichever server of this cluster ran the link."""
    progress = server.links.find_progress(link.definition.name)
    text = progress.siblings if progress is not None else ""
    if not text:
        (found,) = local.keeper.get_many([local.paths.linked.status(link.definition.name)])
        text = LinkProgress.parse(found[0]).siblings if found is not None else ""
    return [Sibling(server, *each) for each in json.loads(text or "[]")]
