"""The configuration keys of replication between clusters.

They are this cluster's name, and the addresses of the others.
"""

from __future__ import annotations

import re
from typing import Annotated
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

    @field_validator("urls")
    @classmethod
    def _are_servers(cls, value: list[str]) -> list[str]:
        # The whole list is checked, as the error for one text would show it, and it may have a password.
        if not all(map(is_server_url, value)):
            raise ValueError("a server is http://host:port or https://host:port; user and password are keys beside it")
        return [url.rstrip("/") for url in value]


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
    """The clusters that links may connect to, by name. ``SYSTEM RELOAD CONFIG`` reads them again, and no other key."""
