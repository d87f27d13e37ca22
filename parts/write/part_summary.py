"""What a part says of itself: its small files and its checksums, made of what its writer knows at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import xxhash

from parts.format.checksums import Checksums, FileChecksum
from parts.format.content_hash import combine
from parts.format.file_names import CHECKSUMS
from parts.format.part_files import PartContent, encode_small_files, version_of
from parts.table import row_exists_column
from parts.write.column_writer import ColumnFacts


@dataclass(frozen=True)
class WrittenColumns:
    """What is known when all rows are written: ``facts`` of each column, ``sums`` of the large files."""

    content: PartContent
    facts: Sequence[ColumnFacts]
    sums: Mapping[str, FileChecksum]


def summarize(written: WrittenColumns, *, is_packed: bool, is_wide: bool = False) -> tuple[dict[str, bytes], Checksums]:
    """Name → bytes of all small files, ``checksums`` the last of them, and the checksums."""
    content, columns = written.content, written.facts
    meta = encode_small_files(content)
    files = {**written.sums, **{name: checksum_of(small) for name, small in meta.items()}}
    checksums = Checksums(
        files,
        combine([column.field for column in columns], [column.digest for column in columns], content.rows),
        sum(column.uncompressed_bytes for column in columns),
        {column.field.name: (column.stored_bytes, column.uncompressed_bytes) for column in columns},
        max([version_of(files, is_packed=is_packed), *map(_version, columns)]),
        {column.field.name: column.digest.hex() for column in columns} if is_wide else {},
    )
    meta[CHECKSUMS] = checksums.encode()
    return meta, checksums


def _version(column: ColumnFacts) -> tuple[int, int]:
    return row_exists_column.VERSION if column.field.name == row_exists_column.ROW_EXISTS else column.version


def checksum_of(data: bytes) -> FileChecksum:
    return FileChecksum(len(data), xxhash.xxh3_128_hexdigest(data))
