"""``detached/``: directories taken out of a table. Only a user's command deletes them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from parts.common.errors import PandoError
from parts.common.part_name import PartName
from parts.format.hashed_file import make_directories, sync_directory
from parts.read.part_reader import Part, open_part

DETACHED = "detached"
_TRY = re.compile(r"_try\d+\Z")
_PARTITION = re.compile(r"all|-?\d+(--?\d+)*|[0-9a-f]{32}")
"""Matches the ids that ``parts.blocks.partition_ids`` makes."""


def get_max_block(directory: str) -> int:
    """Returns the largest block number of the part in ``[<reason>_]<name>[_try<n>]``; 0 if it is none."""
    name = parse_detached_name(directory)[1]
    return name.max_block if name is not None else 0


def parse_detached_name(directory: str) -> tuple[str, PartName | None]:
    """Returns reason and part of ``[<reason>_]<name>[_try<n>]``; ``None`` for the part if it is none."""
    fields = _TRY.sub("", directory).split("_")
    for count in (5, 4):
        name = PartName.try_parse("_".join(fields[-count:]))
        if name is not None and _PARTITION.fullmatch(name.partition_id):  # not a reason that ends with a number
            return "_".join(fields[:-count]), name
    return "", None


def list_detached_by_users(directories: Iterable[str]) -> list[PartName]:
    """Lists the parts that a user detached, sorted: their directories have the plain part name."""
    found = ((directory, *parse_detached_name(directory)) for directory in directories)
    return sorted(name for directory, _, name in found if name is not None and directory == str(name))


class DetachedParts:
    """The detached directories of the table in ``table_path``. Used under the store's lock."""

    def __init__(self, table_path: Path, should_sync: bool, *, is_owner: bool = True) -> None:
        self._table_path = table_path
        self._path = table_path / DETACHED
        self._should_sync = should_sync
        if is_owner:
            if should_sync:
                make_directories(self._path)
            self._path.mkdir(parents=True, exist_ok=True)

    def move_in(self, taken: Part | Path, reason: str = "", name: str = "") -> str:
        """Moves a part, or any directory of the table, to ``[<reason>_]<name>``. Returns the new name.

        If the name is taken, ``_try1``, ``_try2`` … is appended. Call :meth:`sync` to make it durable.
        """
        old = taken if isinstance(taken, Path) else taken.path
        name = self._free_name(name or old.name, reason)
        if isinstance(taken, Path):
            os.rename(taken, self._path / name)
        else:
            taken.rename_directory(self._path / name)
        return name

    def sync(self) -> None:
        """Makes moves between the table and ``detached/`` durable."""
        if self._should_sync:
            sync_directory(self._path)
            sync_directory(self._table_path)

    def has_copy_of(self, part: Part) -> bool:
        """Tells whether the part's content is detached under its name."""
        try:
            return open_part(self._path / str(part.name), name=part.name).content_hash == part.content_hash
        except PandoError:  # broken, or of a later version
            return False

    def delete(self, name: str) -> None:
        """Deletes a directory if it exists, durably."""
        shutil.rmtree(self._path / name, ignore_errors=True)
        self.sync()

    def names(self) -> list[str]:
        """Lists the directories, sorted."""
        return sorted(entry.name for entry in self._path.iterdir() if entry.is_dir())

    def _free_name(self, name: str, reason: str) -> str:
        base = f"{reason}_{name}" if reason else name
        candidate, attempt = base, 0
        while (self._path / candidate).exists():
            attempt += 1
            candidate = f"{base}_try{attempt}"
        return candidate
