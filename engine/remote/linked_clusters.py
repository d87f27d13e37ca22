"""The clusters that links may connect to: those of the configuration, which can be read again."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from engine.server.config import Config
from engine.server.links_config import LinkedClusterConfig, LinkKeys
from parts.common.errors import UserError

logger = logging.getLogger(__name__)


class LinkedClusters:
    """The linked clusters of one server, by name. Thread-safe."""

    def __init__(self, config: Config) -> None:
        self._file = config.file
        self.keys: LinkKeys = config
        """The keys of links, as they were read last."""
        self._clusters: Mapping[str, LinkedClusterConfig] = config.linked_clusters

    def names(self) -> list[str]:
        """Returns the names of the clusters, sorted."""
        return sorted(self._clusters)

    def get(self, name: str) -> LinkedClusterConfig:
        """Returns a cluster. Raises 36 (BAD_ARGUMENTS) if the configuration does not name it."""
        found = self._clusters.get(name)
        if found is None:
            known = ", ".join(self.names()) or "none"
            raise UserError(
                "BAD_ARGUMENTS", f"Cluster {name!r} is not among linked_clusters in the configuration ({known})"
            )
        return found

    def reload(self) -> None:
        """Reads the clusters from the configuration's file again. If it has a mistake, nothing changes.

        Raises ``ConfigError``, and 36 (BAD_ARGUMENTS) if the configuration came from no file.
        """
        if self._file is None:
            raise UserError("BAD_ARGUMENTS", "This server was not started with a configuration file")
        self.keys = Config.load(self._file)
        self._clusters = self.keys.linked_clusters
        logger.info("linked_clusters were read again: %s", ", ".join(self.names()) or "none")
