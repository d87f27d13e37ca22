"""``detached/attaching-<transaction>_<name>``: detached parts that are being attached.

A detached directory has this name from before any of it is staged until its transaction is decided. Then it is deleted,
or gets its name back. So after any crash its rows are either in the table or in ``detached/``.
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
    """The parts being attached to the table in ``table_path``.

    A transaction belongs to one thread at a time.
    """

    def __init__(self, table_path: Path, should_sync: bool) -> None:
        self._path = table_path / DETACHED
        self._should_sync = should_sync

    def begin(self, names: Sequence[str], transaction: str) -> list[Path]:
        """Renames detached parts for a transaction and returns their paths.

        Raises 233 (BAD_DATA_PART_NAME) for one that is not in ``detached/``.
        """
        places = []
        for name in names:
            places.append(self._path / f"{_PREFIX}{transaction}_{name}")
            try:
                os.rename(self._path / name, places[-1])
            except FileNotFoundError:
                raise UserError("BAD_DATA_PART_NAME", f"Detached part {name!r} not found") from None
        self._sync()
        return places

    def list_transactions(self) -> list[str]:
        """Lists the transactions that have not ended, sorted."""
        found = (place.name.removeprefix(_PREFIX).partition("_")[0] for place in self._path.glob(f"{_PREFIX}*_*"))
        return sorted(set(found))

    def end(self, transaction: str, *, is_attached: bool) -> None:
        """Deletes the transaction's directories if attached, otherwise renames them back. Repeatable."""
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
    """Tells whether a directory in ``detached/`` is being attached."""
    return name.startswith(_PREFIX)
