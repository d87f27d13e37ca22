"""Log entries that are too large for one node: the content stands in pieces.

The log entry names them: it has the key ``list``::

    "list": {"name": "<name>", "pieces": 3, "size": 1200000, "sha256": "<of all pieces together>"}

A whole entry keeps that key, so that it is written as the short one again (``LogEntry.to_bytes``).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from coordination.log.log_entry import LIST_KEY, LogEntry
from parts.common.errors import CorruptionError


def describe_list(name: str, data: bytes, pieces: int) -> dict[str, object]:
    """Returns the value of the key ``list`` for an entry whose bytes were cut into pieces."""
    return {"name": name, "pieces": pieces, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def list_name(entry: LogEntry) -> str | None:
    """Returns the name of the list that the entry stands for; ``None`` if it is whole."""
    told: Any = dict(entry.extra).get(LIST_KEY)
    return None if told is None else str(told["name"])


def count_pieces(entry: LogEntry) -> int:
    """Returns the number of pieces of the entry's list."""
    told: Any = dict(entry.extra)[LIST_KEY]
    return int(told["pieces"])


def read_list(entry: LogEntry, pieces: Sequence[bytes]) -> LogEntry:
    """Returns the whole entry.

    Raises ``CorruptionError`` if the pieces are not those that the entry names.
    """
    told: Any = dict(entry.extra)[LIST_KEY]
    data = b"".join(pieces)
    if len(pieces) != told["pieces"] or hashlib.sha256(data).hexdigest() != told["sha256"]:
        raise CorruptionError(
            f"List {told['name']} has {len(pieces)} pieces of {len(data)} bytes in all, and its log entry names "
            f"{told['pieces']} of {told['size']} bytes, or other ones",
            name="CHECKSUM_DOESNT_MATCH",
        )
    whole = LogEntry.parse(data)
    return replace(whole, has_leftovers=entry.has_leftovers, extra=(*whole.extra, (LIST_KEY, told)))
