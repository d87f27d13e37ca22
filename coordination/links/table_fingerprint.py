"""The fingerprint of a table: equal fingerprints mean that parts can be taken as files.

It covers the texts of a table's definition in ZooKeeper: columns with types, defaults, codecs and the history of their
changes, skip indexes, constraints, TTL, keys and granularity. The merge mode is left out. It decides what merges do
with rows, not how a part is read: a Replacing table takes the files of a plain one.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from parts.common.errors import CorruptionError

_OF_MERGES = ("merge_mode", "merge_columns")


def make_table_fingerprint(metadata: str, columns: str) -> str:
    """Returns a hash of the two texts of a definition (``metadata`` and ``columns`` in ZooKeeper).

    Raises ``CorruptionError`` if ``metadata`` is no JSON object.
    """
    try:
        document: dict[str, Any] = json.loads(metadata)
        rest = {name: value for name, value in document.items() if name not in _OF_MERGES}
    except (ValueError, AttributeError) as error:
        raise CorruptionError(f"Cannot read the metadata {metadata[:200]!r}: {error}", name="CORRUPTED_DATA") from error
    text = json.dumps([rest, columns], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
