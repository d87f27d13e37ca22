"""The configuration keys of replication between clusters.

They are this cluster's name, and the addresses of the others.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, Field, field_validator

from engine.server.config_section import Section, Text

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def check_cluster_name(text: str) -> str:
    """Returns a name for a cluster. Raises ``ValueError``."""
    if _NAME.fullmatch(text) is None:  # a point parts the fields of a position
        raise ValueError("a cluster's name has at most 64 letters, digits, '_' and '-'")
    return text


ClusterName = Annotated[Text, AfterValidator(check_cluster_name)]


class LinkedClusterConfig(Section):
    """Another cluster that links connect to."""

    urls: Annotated[list[str], Field(min_length=1)]
    """Where its servers answer HTTP; any of them answers for all."""
    user: str = "default"
    """The user that links log in as."""
    password: Annotated[Text, Field(repr=False)] = ""
    """The user's password."""
    ca_file: Path | None = None
    """A file with the certificates (PEM) of the authorities that may vouch for servers with ``https://``; by default
    those that this machine's Python trusts. Relative to the file."""

    @field_validator("urls")
    @classmethod
    def _are_servers(cls, value: list[str]) -> list[str]:
        # The whole list is checked, as the error for one text would show it, and it may have a password.
        if not all(map(is_server_url, value)):
            raise ValueError("a server is http://host:port or https://host:port; user and password are keys beside it")
        return [url.rstrip("/") for url in value]

    def relative_to(self, directory: Path) -> LinkedClusterConfig:
        """Returns the cluster with an absolute path; a relative one counts from the directory."""
        if self.ca_file is None:
            return self
        return self.model_copy(update={"ca_file": (directory / self.ca_file).absolute()})


def is_server_url(url: str) -> bool:
    """Tells whether the text is ``http://host:port`` or ``https://host:port``."""
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        return False
    has_more = parts.path.rstrip("/") or parts.query or parts.fragment or "@" in parts.netloc
    return parts.scheme in ("http", "https") and is_address and not has_more


class LinkKeys(BaseModel):
    """The keys of links, part of the server's configuration."""

    cluster_name: ClusterName | None = None
    """The name of the cluster that this server belongs to, the same on all its servers; without it there are no links
    with other clusters. At most 64 letters, digits, ``_`` and ``-``."""
    linked_clusters: dict[ClusterName, LinkedClusterConfig] = Field(default_factory=dict)
    """The clusters that links may connect to, by name. ``SYSTEM RELOAD CONFIG`` reads them again, and the keys
    ``replication_…``, and no other key."""
    replication_connect_quorum: Annotated[int, Field(ge=0)] = 0
    """After its start the server does not answer queries of linked tables until it has caught up with so many clusters
    from which links bring changes to its tables, or with all if there are fewer; 0: it answers at once."""
    replication_connect_timeout: Annotated[float, Field(ge=0)] = 30.0
    """Seconds after which it reads them although it has not caught up. Clients write to them only when it has."""
    replication_sync_lag: Annotated[float, Field(gt=0)] = 10.0
    """Seconds: the server has caught up with a cluster when it shows all that was there so long ago."""
    tracker_period: Annotated[float, Field(gt=0)] = 1.0
    """Seconds between two looks of the tracker at the targets of tables that have it on
    (``enable_replicated_table_tracker``)."""
    tracker_delay: Annotated[float, Field(ge=0)] = 10.0
    """Seconds for which a target must be healthy before the tracker makes its links synchronous, and unhealthy before
    it gives them up."""
    tracker_max_lag: Annotated[float, Field(gt=0)] = 10.0
    """Seconds: a target that is further behind is unhealthy for the tracker."""
    replication_orphan_mode: Literal["refuse", "readonly"] = "refuse"
    """Until then: ``refuse`` refuses reads (369) and writes (242) of linked tables, ``readonly`` the writes alone."""
