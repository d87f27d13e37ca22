"""The section ``remote_servers`` of the configuration: clusters, their shards and servers.

Source: ClickHouse documentation, "Distributed Table Engine".
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, AliasChoices, BaseModel, Field, field_validator, model_validator

from engine.server.config_section import Section, Text

HOST = r"[^\s:{}/?#@\\%]+|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%\w+)?"
"""A host name or an IP address, without any other part of a URL."""


class RemoteReplicaConfig(Section):
    """One server of a shard: the address of its HTTP interface, and the user who queries it."""

    host: Annotated[str, Field(pattern=f"^(?:{HOST})$")]
    """Its name or address."""
    port: Annotated[int, Field(ge=1, le=65535)] = 8123
    """Its HTTP port."""
    user: str = "default"
    """The user of the queries that are sent to it."""
    password: Annotated[Text, Field(repr=False)] = ""
    """The user's password."""
    default_database: str = ""
    """The database of tables that are named without one."""
    priority: Annotated[int, Field(ge=0)] = 1
    """Replicas with the lowest value are asked first."""


class ShardConfig(Section):
    """One shard, whose ``replicas`` hold the same rows.

    With ``internal_replication`` the replicas copy inserted rows among themselves. Without it an INSERT into a
    Distributed table writes to each of them.
    """

    weight: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    """Its share of the rows of a Distributed table."""
    name: Text = ""
    """Its name; by default its number."""
    internal_replication: bool = True
    """Whether an INSERT goes to one replica, which replicates it, or to each."""
    replicas: Annotated[
        list[RemoteReplicaConfig], Field(min_length=1, validation_alias=AliasChoices("replicas", "replica"))
    ]
    """The servers that hold the rows."""

    @field_validator("replicas", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: object) -> object:
        return [value] if isinstance(value, dict) else value


def _is_expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"not a regular expression ({error})") from None
    return text


def _shards(cluster: object) -> object:
    """Returns a cluster's list of shards, in ClickHouse's form or in the short one.

    In ClickHouse's form, with the key ``shard``, ``internal_replication`` defaults to false.
    """
    if not isinstance(cluster, dict):
        return cluster
    unknown = next((key for key in cluster if key not in ("shard", "shards", "secret")), None)
    keys = cluster.keys() & {"shard", "shards"}
    if unknown is not None or len(keys) != 1:
        shown = f", not {unknown}" if unknown is not None else ""
        raise ValueError(f"a cluster has the key shard, and may have secret{shown}")
    shards = cluster[keys.pop()]
    listed = [shards] if isinstance(shards, dict) else shards
    if not isinstance(listed, list):
        return listed
    return [{"internal_replication": False, **shard} if isinstance(shard, dict) else shard for shard in listed]


class AllowedHosts(Section):
    """The servers that statements may name; without this section any, with an empty one none.

    Each is a host with or without port, literal or as a regular expression that must match all of it.
    """

    host: list[Text] = Field(default_factory=list)
    """Hosts, with or without a port."""
    host_regexp: list[Annotated[str, AfterValidator(_is_expression)]] = Field(default_factory=list)
    """Expressions that match all of a host, with or without its port."""

    @field_validator("host", "host_regexp", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    def allows(self, host: str, port: int) -> bool:
        """Returns whether statements may name this server."""
        names = (host, f"{host}:{port}")
        return any(name in self.host for name in names) or any(
            re.fullmatch(expression, name) for expression in self.host_regexp for name in names
        )


class ClusterSections(BaseModel):
    """The part of the configuration that holds this section."""

    remote_servers: dict[str, Annotated[list[ShardConfig], Field(min_length=1)]] = Field(default_factory=dict)
    """Shards by the cluster's name."""
    remote_url_allow_hosts: AllowedHosts | None = None
    """Servers that the table function ``remote`` may query."""
    cluster_secrets: Annotated[dict[str, Text], Field(repr=False)] = Field(default_factory=dict)
    """The secret shared by a cluster's servers (``secret`` in ``remote_servers``), by the cluster's name."""

    @model_validator(mode="before")
    @classmethod
    def _secrets_of_clusters(cls, value: object) -> object:
        clusters = value.get("remote_servers") if isinstance(value, dict) else None
        if not isinstance(clusters, dict):
            return value
        found = {
            name: cluster["secret"]
            for name, cluster in clusters.items()
            if isinstance(cluster, dict) and cluster.get("secret")
        }
        return {"cluster_secrets": found, **value} if found else value  # type: ignore[dict-item]

    @field_validator("remote_servers", mode="before")
    @classmethod
    def _lists_of_shards(cls, value: object) -> object:
        return {name: _shards(cluster) for name, cluster in value.items()} if isinstance(value, dict) else value
