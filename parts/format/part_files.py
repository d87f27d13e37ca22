"""The files a part may have, in one table, and the compatibility of format versions.

A small file (metadata, an index over granules) has an entry in :data:`SMALL_FILES`. It has the file's name, its encoder
from what the writer knows when all rows are written, its decoder, and the version that introduced it. A large file has
an entry in :data:`DATA_FILES`, with the pattern of its name and a check of its bytes beyond their hash. The names are
in ``parts.format.file_names``.

Versions

- A version is ``major.minor``. ``checksums`` has that of the part: the highest ``since`` of the part's files and of the
  methods of their frames. So a part that needs nothing new is written as version 1.0, byte for byte, for ever.
- **A newer minor version adds files that an older reader ignores**: it does not read them, but it keeps them, compares
  them with their checksums (CHECK TABLE, fetches) and sends them on with the part. New fields of the JSON in
  ``columns`` and ``checksums`` are ignored too. A merge does not carry over what it does not know.
- **A change that older readers would misread is a new major version**: a mask of deleted rows, another encoding, a file
  at another place. A newer major version is refused with 287 (UNKNOWN_FORMAT_VERSION), naming the part and its version.
  The part is neither moved nor fetched again; the table does not load until the server is upgraded.
- 1.0: the files of 1.0. 1.1: ``metadata_version``. 1.2: ``ttl``, ``skip.idx``. 2.0: *packed* parts, small compact ones
  with ``data.bin`` inside ``meta.bin``, so that a small INSERT syncs one file. ``min_bytes_for_full_part_storage = 0``
  writes none of them. Also 2.0: frames with the methods Split and Scale (``parts.format.codecs``), in large merged
  parts. 3.0: frames of strings with a dictionary (``parts.blocks.dictionary_strings``). 4.0: a column that marks
  deleted rows (``parts.table.row_exists_column``). 5.0: ``row_version``; an older merge would lose the versions. 6.0:
  ``row_place``, for the same reason.
- Fixed for ever, so that every version can read the version: ``checksums`` is one JSON object with ``version`` and ends
  with its hash; ``meta.bin`` begins with ``PANDOMT`` and a digit and ends with its hash.
- A missing optional file has the meaning of its ``default``.

The content hash (``parts.format.content_hash``) is over names, types and values of the columns alone. No small file
enters it, ``metadata_version`` and the skip indexes neither: replicas that wrote the same rows agree, whichever of them
had applied an ALTER that changes no column of the part.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pyarrow as pa

from parts.common.errors import CorruptionError
from parts.format.array_file import decode_named_arrays, encode_named_arrays
from parts.format.columns_file import ColumnsFile, decode_number
from parts.format.file_names import (
    BIN_SUFFIX,
    CHECKSUMS,
    COLUMNS,
    COUNT,
    FIRST_VERSION,
    MARKS,
    META_FILE,
    METADATA_VERSION,
    MINMAX,
    PARTITION,
    PRIMARY_INDEX,
    ROW_PLACE,
    ROW_VERSION,
    SKIP_INDEXES,
    TTL,
    UUID,
)
from parts.format.frames import check_frame
from parts.format.marks import ColumnMarks, decode_marks, encode_marks
from parts.table.row_version import NO_ROW_VERSION, RowVersion
from parts.table.ttl_rules import NO_KNOWN_TIMES, PartTtl
from parts.types import DataType

NamedArrays = list[tuple[str, DataType, pa.Array]]
"""(name, type, values): the content of a file of ``parts.format.array_file``."""
PACKED_VERSION = (2, 0)
"""Format version of parts whose data are inside ``meta.bin``."""
T = TypeVar("T")


@dataclass(frozen=True)
class PartMetadata:
    """The facts that the writer knows of a part when all rows are written."""

    columns: ColumnsFile
    rows: int
    partition: NamedArrays
    minmax: NamedArrays
    primary_index: NamedArrays
    marks: Sequence[ColumnMarks]
    part_uuid: uuid.UUID
    metadata_version: int
    ttl: PartTtl = NO_KNOWN_TIMES
    row_version: RowVersion = NO_ROW_VERSION


@dataclass(frozen=True, slots=True)
class DecodingContext:
    """The facts needed to decode a small file. ``columns`` and ``marks`` are 0 while unknown."""

    part: str
    columns: int = 0
    marks: int = 0


@dataclass(frozen=True, slots=True)
class SmallFile(Generic[T]):
    """One small file. ``encode`` returns ``None`` for a part that does not need it."""

    name: str
    encode: Callable[[PartMetadata], bytes | None]
    decode: Callable[[bytes, DecodingContext], T]
    since: tuple[int, int] = FIRST_VERSION
    default: T | None = None
    """The value for a missing file; ``None``: every part has the file (226, NO_FILE_IN_DATA_PART)."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """Large files whose whole name matches ``pattern``.

    ``check(bytes, part, file, status)`` raises ``CorruptionError`` for the place of the damage and calls ``status()``
    now and then.
    """

    pattern: re.Pattern[str]
    check: Callable[[pa.Buffer, str, str, Callable[[], None]], None]
    since: tuple[int, int] = FIRST_VERSION


def _value_file(name: str, values: Callable[[PartMetadata], NamedArrays]) -> SmallFile[NamedArrays]:
    return SmallFile(
        name,
        lambda content: encode_named_arrays(values(content)),
        lambda data, of: decode_named_arrays(data, of.part, name),
    )


def _check_frames(data: pa.Buffer, part: str, file: str, status: Callable[[], None]) -> None:
    offset = 0
    while offset < data.size:
        status()
        offset += check_frame(data, offset, part, file)


COLUMNS_FILE = SmallFile(
    COLUMNS, lambda content: content.columns.encode(), lambda data, of: ColumnsFile.decode(data, of.part)
)
COUNT_FILE = SmallFile(
    COUNT, lambda content: str(content.rows).encode(), lambda data, of: decode_number(data, of.part, COUNT)
)
PARTITION_FILE = _value_file(PARTITION, lambda content: content.partition)
MINMAX_FILE = _value_file(MINMAX, lambda content: content.minmax)
PRIMARY_INDEX_FILE = _value_file(PRIMARY_INDEX, lambda content: content.primary_index)
MARKS_FILE = SmallFile(
    MARKS,
    lambda content: encode_marks(content.marks),
    lambda data, of: decode_marks(data, of.columns, of.marks, of.part, MARKS),
)
UUID_FILE = SmallFile(
    UUID, lambda content: str(content.part_uuid).encode(), lambda data, of: _decode_uuid(data, of.part)
)
METADATA_VERSION_FILE = SmallFile(
    METADATA_VERSION,
    lambda content: str(content.metadata_version).encode() if content.metadata_version else None,
    lambda data, of: decode_number(data, of.part, METADATA_VERSION),
    since=(1, 1),
    default=0,
)
TTL_FILE = SmallFile(
    TTL,
    lambda content: content.ttl.encode() if content.ttl.rules else None,
    lambda data, of: _decode_ttl(data, of.part),
    since=(1, 2),
    default=NO_KNOWN_TIMES,
)
ROW_VERSION_FILE = SmallFile(
    ROW_VERSION,
    lambda content: (
        content.row_version.encode()
        if content.row_version != NO_ROW_VERSION and not content.row_version.has_places
        else None
    ),
    lambda data, of: _decode_row_version(data, of.part, ROW_VERSION),
    since=(5, 0),
    default=NO_ROW_VERSION,
)
ROW_PLACE_FILE = SmallFile(
    ROW_PLACE,
    lambda content: content.row_version.encode() if content.row_version.has_places else None,
    lambda data, of: _decode_row_version(data, of.part, ROW_PLACE),
    since=(6, 0),
    default=NO_ROW_VERSION,
)

SMALL_FILES: tuple[SmallFile[Any], ...] = (
    COLUMNS_FILE,
    COUNT_FILE,
    PARTITION_FILE,
    MINMAX_FILE,
    PRIMARY_INDEX_FILE,
    MARKS_FILE,
    UUID_FILE,
    METADATA_VERSION_FILE,
    TTL_FILE,
    ROW_VERSION_FILE,
    ROW_PLACE_FILE,
)
"""The small files in the order of writing, without ``checksums``, which lists them, and ``meta.bin``, which contains
them."""
DATA_FILES = (
    DataFile(re.compile(rf".*{re.escape(BIN_SUFFIX)}"), _check_frames),
    DataFile(re.compile(re.escape(SKIP_INDEXES)), lambda data, part, file, status: status(), since=(1, 2)),
)
_SMALL_NAMES = {file.name: file for file in SMALL_FILES}


def encode_small_files(content: PartMetadata) -> dict[str, bytes]:
    """Returns name → bytes of the small files that this part has."""
    encoded = ((file.name, file.encode(content)) for file in SMALL_FILES)
    return {name: data for name, data in encoded if data is not None}


def get_format_version(names: Iterable[str], *, is_packed: bool = False) -> tuple[int, int]:
    """Returns the version of a part with these files."""
    entries = (_SMALL_NAMES.get(name) or find_data_file(name) for name in names)
    newest = max((entry.since for entry in entries if entry is not None), default=FIRST_VERSION)
    return max(newest, PACKED_VERSION) if is_packed else newest


def is_small_file(name: str) -> bool:
    """Tells whether the file is read at once, never mapped."""
    return name in _SMALL_NAMES or name in (CHECKSUMS, META_FILE)


def find_data_file(name: str) -> DataFile | None:
    """Returns the entry of a large file; ``None`` if it is unknown."""
    return next((entry for entry in DATA_FILES if entry.pattern.fullmatch(name)), None)


def choose_row_version_file(names: Collection[str]) -> SmallFile[RowVersion]:
    """Returns the file that tells when and where the rows of a part with these files were inserted."""
    return ROW_PLACE_FILE if ROW_PLACE in names else ROW_VERSION_FILE


def _decode_uuid(data: bytes, part: str) -> uuid.UUID:
    try:
        return uuid.UUID(data.decode())
    except ValueError as error:
        raise CorruptionError("Not a UUID", part=part, file=UUID, offset=0, name="CORRUPTED_DATA") from error


def _decode_row_version(data: bytes, part: str, file: str) -> RowVersion:
    try:
        return RowVersion.decode(data) if file == ROW_VERSION else RowVersion.decode_place(data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = f"Not the version of rows ({error})"
        raise CorruptionError(message, part=part, file=file, name="CORRUPTED_DATA") from error


def _decode_ttl(data: bytes, part: str) -> PartTtl:
    try:
        return PartTtl.decode(data)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(f"Not the facts of TTL ({error})", part=part, file=TTL, name="CORRUPTED_DATA") from error
