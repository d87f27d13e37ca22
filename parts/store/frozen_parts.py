"""``shadow/<name>/<table>/<part>``: hard links to the files of frozen parts, for backups.

A part is whole under its name, or does not exist: it is linked under another name, and renamed. Source: ClickHouse
documentation, "ALTER TABLE … FREEZE PARTITION".
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from parts.common.errors import UserError
from parts.common.part_name import PartName
from parts.format.durable_files import replace_file_durably
from parts.format.hashed_file import link_files, make_directories, sync_directory
from parts.read.part_reader import Part

SHADOW = "shadow"
_COUNTER = "increment.txt"
_lock = threading.Lock()
"""Serialises backups."""


def freeze_parts(shadow: Path, name: str | None, table: str, parts: Sequence[Part], check: Callable[[], None]) -> None:
    """Links the parts into ``shadow/<name>/<table>``, all or none. ``check`` may stop it.

    ``name`` ``None`` takes the next number. Raises 84 (DIRECTORY_ALREADY_EXISTS).
    """
    with _lock:
        make_directories(shadow)
        home = shadow / (name if name is not None else _next_number(shadow)) / table
        for part in parts:
            if (home / str(part.name)).exists():
                raise UserError("DIRECTORY_ALREADY_EXISTS", f"Directory {home / str(part.name)} already exists")
        frozen: list[Path] = []
        try:
            for part in parts:
                check()
                frozen.append(_link(part, home))
                part.is_frozen = True
        except BaseException:
            for place in frozen:
                shutil.rmtree(place, ignore_errors=True)
            _remove_empty(home, shadow)
            raise


def unfreeze_parts(shadow: Path, name: str, table: str, is_meant: Callable[[PartName], bool]) -> None:
    """Removes the chosen parts of a table from a backup, if they exist."""
    with _lock:
        home = shadow / name / table
        for place in sorted(home.iterdir()) if home.exists() else ():
            part = PartName.try_parse(place.name)
            if part is not None and is_meant(part):
                shutil.rmtree(place)
        _remove_empty(home, shadow)


def unfreeze_backup(shadow: Path, name: str) -> None:
    """Removes a backup with the parts of all tables, if it exists."""
    with _lock:
        if (shadow / name).exists():
            shutil.rmtree(shadow / name)


def _link(part: Part, home: Path) -> Path:
    make_directories(home)
    draft, place = home / f"tmp_{part.name}", home / str(part.name)
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    try:
        link_files(part.path, draft, should_sync=True)
        os.rename(draft, place)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    sync_directory(home)
    return place


def _next_number(shadow: Path) -> str:
    file = shadow / _COUNTER
    number = 1 + (int(file.read_text()) if file.exists() else 0)
    replace_file_durably(file, str(number).encode())
    return str(number)


def _remove_empty(home: Path, shadow: Path) -> None:
    with contextlib.suppress(OSError):  # something else is in there
        while home != shadow:
            home.rmdir()
            home = home.parent
