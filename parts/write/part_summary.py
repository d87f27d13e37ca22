"""Make a part's small files and checksums from the facts that its writer knows at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import xxhash

from parts.format.checksums import Checksums, FileChecksum
from parts.format.content_hash import combine_column_digests
from parts.format.file_names import CHECKSUMS
from parts.format.part_files import PartMetadata, encode_small_files, get_format_version
from parts.table import row_exists_column
from parts.write.column_writer import ColumnSummary


@dataclass(frozen=True)
class WrittenColumns:
    """The facts known when all rows are written, ``columns`` and the checksums of the large files."""

    content: PartMetadata
    columns: Sequence[ColumnSummary]
    file_checksums: Mapping[str, FileChecksum]


def encode_metadata(
    written: WrittenColumns, *, is_packed: bool, is_wide: bool = False
) -> tuple[dict[str, bytes], Checksums]:
    """Returns name → bytes of all small files, with ``checksums`` last, and the checksums."""
    content, columns = written.content, written.columns
    meta = encode_small_files(content)
    files = {**written.file_checksums, **{name: compute_checksum(small) for name, small in meta.items()}}
    checksums = Checksums(
        files,
        combine_column_digests(
            [column.field for column in columns], [column.digest for column in columns], content.rows
        ),
        sum(column.uncompressed_bytes for column in columns),
        {column.field.name: (column.stored_bytes, column.uncompressed_bytes) for column in columns},
        max([get_format_version(files, is_packed=is_packed), *map(_version, columns)]),
        {column.field.name: column.digest.hex() for column in columns} if is_wide else {},
    )
    meta[CHECKSUMS] = checksums.encode()
    return meta, checksums


def _version(column: ColumnSummary) -> tuple[int, int]:
    return row_exists_column.ROW_EXISTS_VERSION if column.field.name == row_exists_column.ROW_EXISTS else column.version


def compute_checksum(data: bytes) -> FileChecksum:
    """Returns the size and hash of a file's bytes."""
    return FileChecksum(len(data), xxhash.xxh3_128_hexdigest(data))
