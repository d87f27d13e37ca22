"""The definition of a link: its two ends and its settings.

The definition stands in the target's ZooKeeper as JSON. Unknown keys are kept and written back; an unknown version is
refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from parts.common.errors import CorruptionError

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class LinkDefinition:
    """One link, of one table."""

    name: str
    """Unique in the target cluster."""
    uuid: str
    """Random; tells a link from a former one of the same name."""
    source_cluster: str
    """The name under ``linked_clusters`` in the configuration of the target's servers."""
    source_database: str
    source_table: str
    target_database: str
    target_table: str
    settings: Mapping[str, object] = field(default_factory=dict)
    """Values that were given (:mod:`coordination.links.link_settings`); others have their defaults."""
    database_link: str = ""
    """The database link that made this one; "" for none."""
    is_enabled: bool = True
    source_origin: str = ""
    """What the source was when the link began (identity and epoch); "" until then."""
    beginning: str = ""
    """The vector that the target gets when the link begins, as JSON; chosen once, and "" until then."""
    is_begun: bool = False
    """Whether the link has its place in the source's stream: until then it is being set up or bootstrapped."""
    wants_copy: bool = False
    """The source's table is to take the place of what the target has (SYSTEM BOOTSTRAP), before the link goes on."""
    group: str = ""
    """The transactional group that the link is in; "" for none."""
    extra: tuple[tuple[str, object], ...] = field(default=(), compare=False)

    def at_source(self, target_cluster: str) -> str:
        """Returns the name by which the source knows the link."""
        return f"{target_cluster}/{self.name}"

    def was_asked_to_copy(self, former: LinkDefinition) -> bool:
        """Tells whether SYSTEM BOOTSTRAP asked for a copy since the former definition was read."""
        return self.wants_copy and not former.wants_copy

    def with_settings(self, changed: Mapping[str, object]) -> LinkDefinition:
        """Returns the definition with these settings changed."""
        return replace(self, settings={**self.settings, **changed})

    def to_bytes(self) -> bytes:
        """Returns the node's content."""
        document = {name: getattr(self, name) for name in _FIELDS} | {"settings": dict(self.settings)}
        return json.dumps(
            {**dict(self.extra), "version": FORMAT_VERSION, **document}, separators=(",", ":"), ensure_ascii=False
        ).encode()

    @classmethod
    def parse(cls, data: bytes) -> LinkDefinition:
        """Parses the node's content. Raises ``CorruptionError``."""
        try:
            document: dict[str, Any] = json.loads(data)
            version = document.pop("version")
            if version != FORMAT_VERSION:
                raise ValueError(f"version {version}, this server understands {FORMAT_VERSION}")
            known = {name: document.pop(name) for name in (*_FIELDS, "settings") if name in document}
            return cls(**known, extra=tuple(document.items()))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptionError(f"Cannot read the link {data[:200]!r}: {error}", name="CORRUPTED_DATA") from error


_FIELDS = (
    "name",
    "uuid",
    "source_cluster",
    "source_database",
    "source_table",
    "target_database",
    "target_table",
    "database_link",
    "is_enabled",
    "source_origin",
    "beginning",
    "is_begun",
    "wants_copy",
    "group",
)
