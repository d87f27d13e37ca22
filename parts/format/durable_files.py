"""Small files that are written, replaced and removed as a whole.

A crash or a power cut leaves no half of them.

All three sync the file before its name and the directory after it. A *draft* is the file under its temporary name, in
the same directory. A crash may leave it behind: it is never read, the next write of the same draft replaces it, and the
caller picks a name that its own readers pass over. An error leaves none, unless the disk refuses to delete it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from parts.format.hashed_file import sync_descriptor, sync_directory


def replace_file_durably(path: Path, content: bytes, draft: Path | None = None, mode: int | None = None) -> None:
    """Writes a file, in place of an older one.

    When this returns, the new content survives a power cut. After a crash or an error the file has the old or the new
    content, whole; after an error of the last step, the sync of the directory, readers see the new one and a power cut
    may bring back the old one. ``draft`` is ``<name>.new`` unless given. ``mode`` is the permissions from the first
    byte on; unless given, the process's usual ones.
    """
    if draft is None:
        draft = path.with_name(f"{path.name}.new")
    _write_draft(draft, content, mode)
    try:
        os.replace(draft, path)
    except BaseException:
        _forget(draft)
        raise
    sync_directory(path.parent)


def create_file_durably(path: Path, content: bytes, draft: Path) -> bool:
    """Writes a file unless there is one of that name; returns whether it did.

    Of several writers one succeeds, if each has a ``draft`` of its own. A crash leaves the whole file or none.
    """
    _write_draft(draft, content)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    sync_directory(path.parent)
    return True


def remove_durably(path: Path) -> None:
    """Deletes a file; a missing one is no error. When this returns, a power cut does not bring it back."""
    path.unlink(missing_ok=True)
    sync_directory(path.parent)


def _write_draft(draft: Path, content: bytes, mode: int | None = None) -> None:
    try:
        with open(draft, "wb") as stream:
            if mode is not None:
                os.fchmod(stream.fileno(), mode)
            stream.write(content)
            stream.flush()
            sync_descriptor(stream.fileno())
    except BaseException:
        _forget(draft)
        raise


def _forget(draft: Path) -> None:
    with suppress(OSError):
        draft.unlink(missing_ok=True)
