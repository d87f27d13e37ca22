"""``detached/attaching-<transaction>_<name>``: parts on their way back into the table.

A detached directory has this name from before anything of it is staged until its transaction is decided: then it goes,
or has its name again. So after whatever crash its rows are in the table or in ``detached/``, and never in both.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from parts.common.errors import UserError
from parts.format.hashed_file import sync_directory
from parts.store.detached_parts import DETACHED

_PREFIX = "attaching-"


class AttachingParts:
    """Those of the table in ``table_path``. A transaction belongs to one thread at a time."""

    def __init__(self, table_path: Path, should_sync: bool) -> None:
        self._path = table_path / DETACHED
        self._should_sync = should_sync

    def begin(self, names: Sequence[str], transaction: str) -> list[Path]:
        """Their places from now on. Raises 233 (BAD_DATA_PART_NAME) for what is not in ``detached/``."""
        places = []
        for name in names:
            places.append(self._path / f"{_PREFIX}{transaction}_{name}")
            try:
                os.rename(self._path / name, places[-1])
            except FileNotFoundError:
                raise UserError("BAD_DATA_PART_NAME", f"Detached part {name!r} not found") from None
        self._sync()
        return places

    def transactions(self) -> list[str]:
        """Those that are not ended, sorted."""
        found = (place.name.removeprefix(_PREFIX).partition("_")[0] for place in self._path.glob(f"{_PREFIX}*_*"))
        return sorted(set(found))

    def end(self, transaction: str, *, is_attached: bool) -> None:
        """Repeatable."""
        prefix = f"{_PREFIX}{transaction}_"
        for place in self._path.glob(f"{prefix}*"):
            if is_attached:
                shutil.rmtree(place, ignore_errors=True)
            else:
                os.rename(place, self._path / place.name.removeprefix(prefix))
        self._sync()

    def _sync(self) -> None:
        if self._should_sync:
            sync_directory(self._path)


def is_attaching(name: str) -> bool:
    """Whether a directory in ``detached/`` belongs to somebody who attaches it."""
    return name.startswith(_PREFIX)
