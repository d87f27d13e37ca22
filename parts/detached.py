"""``detached/``: directories taken out of a table, for whoever looks into it. Nothing here is ever deleted."""

from __future__ import annotations

import os
import re
from pathlib import Path

from parts.disk import make_directories, sync_directory
from parts.errors import PandoError
from parts.part_name import PartName
from parts.reader import Part, open_part

DETACHED = "detached"
_TRY = re.compile(r"_try\d+\Z")


def last_block_of(directory: str) -> int:
    """The largest block number that the part in ``[<reason>_]<name>[_try<n>]`` can have; 0 if that is no part."""
    fields = _TRY.sub("", directory).split("_")
    names = (PartName.try_parse("_".join(fields[-count:])) for count in (4, 5))
    return max((name.max_block for name in names if name is not None), default=0)


class DetachedParts:
    """The detached directories of the table in ``table_path``. Used under the store's lock."""

    def __init__(self, table_path: Path, should_sync: bool) -> None:
        self._table_path = table_path
        self._path = table_path / DETACHED
        self._should_sync = should_sync
        if should_sync:
            make_directories(self._path)
        self._path.mkdir(parents=True, exist_ok=True)

    def take(self, taken: Part | Path, reason: str = "", name: str = "") -> str:
        """Moves a part, or any directory of the table, to ``[<reason>_]<name>``; a taken name gets ``_try1``, ``_try2``
        … Returns the directory's new name. Call :meth:`sync` before it counts."""
        old = taken if isinstance(taken, Path) else taken.path
        name = self._free_name(name or old.name, reason)
        if isinstance(taken, Path):
            os.rename(taken, self._path / name)
        else:
            taken.move(self._path / name)
        return name

    def sync(self) -> None:
        """Makes moves between the table and ``detached/`` durable."""
        if self._should_sync:
            sync_directory(self._path)
            sync_directory(self._table_path)

    def holds(self, part: Part) -> bool:
        """Whether the content of the part is here, under its name."""
        try:
            return open_part(self._path / str(part.name), name=part.name).content_hash == part.content_hash
        except PandoError:  # broken, or of a later version
            return False

    def names(self) -> list[str]:
        """Sorted."""
        return sorted(entry.name for entry in self._path.iterdir() if entry.is_dir())

    def _free_name(self, name: str, reason: str) -> str:
        base = f"{reason}_{name}" if reason else name
        candidate, attempt = base, 0
        while (self._path / candidate).exists():
            attempt += 1
            candidate = f"{base}_try{attempt}"
        return candidate
