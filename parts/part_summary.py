"""What a part says of itself: its small files and its checksums, made of what its writer knows at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import xxhash

from parts.checksums import Checksums, FileChecksum
from parts.column_writer import ColumnFacts
from parts.content_hash import combine
from parts.layout import CHECKSUMS
from parts.part_files import PartContent, encode_small_files, version_of


def summarize(
    content: PartContent, columns: Sequence[ColumnFacts], data: Mapping[str, FileChecksum], *, is_packed: bool
) -> tuple[dict[str, bytes], Checksums]:
    """Name → bytes of all small files, ``checksums`` the last of them, and the checksums. ``data`` are those of the
    large files."""
    meta = encode_small_files(content)
    files = {**data, **{name: checksum_of(small) for name, small in meta.items()}}
    checksums = Checksums(
        files,
        combine([column.field for column in columns], [column.digest for column in columns], content.rows),
        sum(column.uncompressed_bytes for column in columns),
        {column.field.name: (column.stored_bytes, column.uncompressed_bytes) for column in columns},
        max([version_of(files, is_packed=is_packed), *(column.version for column in columns)]),
    )
    meta[CHECKSUMS] = checksums.encode()
    return meta, checksums


def checksum_of(data: bytes) -> FileChecksum:
    return FileChecksum(len(data), xxhash.xxh3_128_hexdigest(data))
