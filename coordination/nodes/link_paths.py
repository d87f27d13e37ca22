"""The znode paths of a linked table: its vector, its links in both directions, and its definitions.

::

    links/vector links/marks links/in/<name>{,/leader,/status} links/out/<cluster>.<name> links/sync_leader
    links/lists/<name>/<number> definitions/<version>
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinkPaths:
    """The paths of one table. ``root`` is the table's own path."""

    root: str

    @property
    def vector(self) -> str:
        """The last change applied of each origin (``coordination.links.version_vector``)."""
        return f"{self.root}/links/vector"

    @property
    def moment_prefix(self) -> str:
        """The path for an ephemeral sequential node that is deleted at once: its zxid is that of this moment."""
        return f"{self.root}/links/moment-"

    @property
    def marks(self) -> str:
        """Up to when the table has every row of each origin (``coordination.links.stream.stable_times``)."""
        return f"{self.root}/links/marks"

    @property
    def incoming(self) -> str:
        """The parent of the links whose target the table is."""
        return f"{self.root}/links/in"

    def incoming_link(self, name: str) -> str:
        """The definition of a link that brings changes here (``coordination.links.link_definition``)."""
        return f"{self.root}/links/in/{name}"

    def leader(self, name: str) -> str:
        """The server that runs the link; ephemeral."""
        return f"{self.root}/links/in/{name}/leader"

    def status(self, name: str) -> str:
        """The state of the link, as the server that runs it last told."""
        return f"{self.root}/links/in/{name}/status"

    @property
    def outgoing(self) -> str:
        """The parent of the links whose source the table is."""
        return f"{self.root}/links/out"

    @property
    def sync_leader(self) -> str:
        """The server that carries out changes of links' modes at the source; ephemeral."""
        return f"{self.root}/links/sync_leader"

    def outgoing_link(self, target_cluster: str, name: str) -> str:
        """The registration of a link that takes changes from here, and what its target has."""
        return f"{self.root}/links/out/{target_cluster}.{name}"

    @property
    def lists(self) -> str:
        """The parent of the lists of large log entries (``list_nodes``)."""
        return f"{self.root}/links/lists"

    def list(self, name: str) -> str:
        """One list: the link that wrote it, and whether it is committed."""
        return f"{self.root}/links/lists/{name}"

    def list_piece(self, name: str, number: int) -> str:
        """One piece of a large log entry."""
        return f"{self.root}/links/lists/{name}/{number}"

    @property
    def definitions(self) -> str:
        """The parent of the definitions that ALTERs of a linked table made."""
        return f"{self.root}/definitions"

    def definition(self, version: int) -> str:
        """One definition (``definition_nodes``); its zxid is its place among the changes."""
        return f"{self.root}/definitions/{version}"
