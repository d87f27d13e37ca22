"""The server's own UUID: made at the first start, kept in the file ``uuid`` of its directory."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

from engine.server.durable_texts import write_durably


def load_server_uuid(path: Path, new_uuid: Callable[[], uuid.UUID]) -> str:
    file = path / "uuid"
    try:
        return str(uuid.UUID(file.read_text().strip()))
    except (FileNotFoundError, ValueError):
        made = str(new_uuid())
        write_durably(file, made + "\n")
        return made
