"""The server's own UUID, created at the first start and kept in the file ``uuid`` of its directory."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

from engine.server.durable_texts import write_durably


def load_server_uuid(path: Path, new_uuid: Callable[[], uuid.UUID]) -> str:
    """Returns the UUID kept in the directory; a missing or damaged one is replaced by ``new_uuid()``."""
    file = path / "uuid"
    try:
        return str(uuid.UUID(file.read_text().strip()))
    except (FileNotFoundError, ValueError):
        made = str(new_uuid())
        write_durably(file, made + "\n")
        return made
