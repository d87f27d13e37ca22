"""The server's own UUID: made at the first start, kept in the file ``uuid`` of its directory."""

from __future__ import annotations

import uuid
from pathlib import Path
from random import Random

from engine.table_files import write_durably


def server_uuid(path: Path, random: Random) -> str:
    file = path / "uuid"
    try:
        return str(uuid.UUID(file.read_text().strip()))
    except (FileNotFoundError, ValueError):
        made = str(uuid.UUID(int=random.getrandbits(128), version=4))
        write_durably(file, made + "\n")
        return made
