"""The content of ``parts/<part>`` below a replica: what the replica states about its part.

JSON: ``{"version":1,"hash":…,"rows":…,"bytes":…,"columns":…}``. ``hash`` is the part's content hash, equal on all
replicas whatever the compression. ``bytes`` is the uncompressed size, which is equal too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from parts.common.errors import CorruptionError

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class PartRecord:
    """The hash, row count and uncompressed size of a replica's part."""

    content_hash: str
    rows: int
    size_bytes: int
    columns: str = ""
    """The part's columns as text, "" when they are the table's."""

    def to_bytes(self) -> bytes:
        """Returns the record as JSON."""
        document = {"version": FORMAT_VERSION, "hash": self.content_hash, "rows": self.rows, "bytes": self.size_bytes}
        if self.columns:
            document["columns"] = self.columns
        return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def parse(cls, data: bytes) -> PartRecord:
        """Parses a record. Raises ``CorruptionError`` for an unknown version or format."""
        try:
            document = json.loads(data)
            if document["version"] != FORMAT_VERSION:
                raise ValueError(f"version {document['version']}, this server understands {FORMAT_VERSION}")
            return cls(document["hash"], document["rows"], document["bytes"], document.get("columns", ""))
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptionError(f"Cannot read part record {data[:200]!r}: {error}", name="CORRUPTED_DATA") from error
