"""Give a written part its version, which is known only when its block number is taken.

The version is a file of its own, and so is the place (``parts.table.row_version``), but checksums list it. So those are
written again, in a packed part with the whole small file. The part must still be temporary: a crash in between leaves
what a start removes.
Files are replaced, never changed: a hard link of the part keeps what it has.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from parts.format.checksums import Checksums
from parts.format.file_names import CHECKSUMS, DRAFT_SUFFIX, META_FILE, ROW_PLACE, ROW_VERSION
from parts.format.hashed_file import HashedFile, sync_files
from parts.format.packed_metadata import pack_files, unpack_files
from parts.format.part_files import ROW_PLACE_FILE, ROW_VERSION_FILE, is_small_file
from parts.table.row_version import RowVersion
from parts.table.table_description import PartSettings
from parts.write.part_summary import compute_checksum


def stamp_part(directory: Path, version: RowVersion, settings: PartSettings, *, meta: bytes = b"") -> bytes:
    """Gives the temporary part in ``directory`` the version of its rows, in place of a former one.

    ``meta`` are the bytes of its ``meta.bin``, if the caller has them. Returns the new ones, or nothing for a part that
    has no such file. Everything is fsynced, as the table's ``settings`` say. Raises ``CorruptionError``.
    """
    packed_path = directory / META_FILE
    if not meta and not packed_path.exists():
        return _stamp_wide(directory, version, settings)
    files = unpack_files(meta or packed_path.read_bytes(), directory.name)
    file, data = _choose_file(version), version.encode()
    small = {name: held for name, held in files.items() if is_small_file(name) and name != CHECKSUMS}
    others = {name: held for name, held in files.items() if not is_small_file(name)}
    checksums = _add_to_checksums(files[CHECKSUMS], file, data, directory.name)
    new = pack_files({**small, file: data, CHECKSUMS: checksums, **others})
    _replace_files(directory, {META_FILE: new}, settings)
    return new


def _stamp_wide(directory: Path, version: RowVersion, settings: PartSettings) -> bytes:
    file, data = _choose_file(version), version.encode()
    checksums = _add_to_checksums((directory / CHECKSUMS).read_bytes(), file, data, directory.name)
    _replace_files(directory, {file: data, CHECKSUMS: checksums}, settings)
    return b""


def _choose_file(version: RowVersion) -> str:
    return ROW_PLACE if version.has_places else ROW_VERSION


def _add_to_checksums(encoded: bytes, file: str, data: bytes, part: str) -> bytes:
    checksums = Checksums.decode(encoded, part)
    since = ROW_PLACE_FILE.since if file == ROW_PLACE else ROW_VERSION_FILE.since
    return replace(
        checksums,
        files={**checksums.files, file: compute_checksum(data)},
        version=max(checksums.version, since),
    ).encode()


def _replace_files(directory: Path, files: dict[str, bytes], settings: PartSettings) -> None:
    for name in files:
        (directory / f"{name}{DRAFT_SUFFIX}").unlink(missing_ok=True)  # of an attempt that a kill ended
    drafts = [HashedFile(directory / f"{name}{DRAFT_SUFFIX}") for name in files]
    try:
        for draft, data in zip(drafts, files.values(), strict=True):
            draft.write([data])
        sync_files(drafts if settings.fsync_after_insert else ())
        for draft in drafts:
            draft.close()
            os.rename(draft.path, draft.path.with_name(draft.path.name.removesuffix(DRAFT_SUFFIX)))
        sync_files((), directory if settings.fsync_part_directory else None)
    except BaseException:
        for draft in drafts:
            draft.discard()
            draft.path.unlink(missing_ok=True)
        raise
