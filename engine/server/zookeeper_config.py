"""The sections of the configuration that say where ZooKeeper is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AliasChoices, Field, field_validator

from engine.server.config_section import Port, Section
from parts.common.errors import UserError
from parts.common.safe_names import check_znode_path


class ZooKeeperNode(Section):
    """A server of the ZooKeeper ensemble."""

    host: str
    """Its name or address."""
    port: Port = 2181
    """Its client port."""


class ZooKeeperConfig(Section):
    """One ZooKeeper ensemble, and the node below which Pando keeps everything."""

    nodes: Annotated[list[ZooKeeperNode], Field(min_length=1, validation_alias=AliasChoices("nodes", "node"))]
    """Its servers."""
    session_timeout_ms: Annotated[int, Field(ge=100)] = 30_000
    """Milliseconds without a request of the server after which ZooKeeper ends its session."""
    root: str = ""
    """The node below which all paths of this server lie; empty: ``/``."""

    @field_validator("nodes", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: object) -> object:
        return [value] if isinstance(value, dict) else value

    @field_validator("root")
    @classmethod
    def _root_is_absolute(cls, value: str) -> str:
        value = value.rstrip("/")
        if value:
            try:
                check_znode_path("the root", value)
            except UserError as error:
                raise ValueError(error.message.partition(", got")[0]) from None
        return value

    @property
    def hosts(self) -> str:
        """The servers as ZooKeeper clients expect them: ``host:port,host:port``."""
        return ",".join(f"{node.host}:{node.port}" for node in self.nodes)


class EmbeddedZooKeeperConfig(Section):
    """A ZooKeeper that the server starts beside itself."""

    port: Port = 2181
    """Its client port."""
    dir: Path | None = None
    """Its data; by default ``<path>/zookeeper``."""
