"""An opened part: the content of its small files, and access to its data files.

Opening reads the small metadata and compares sizes of the data files; nothing else.

Invariants
- A part may be used by many threads at once. Only its place on disk ever changes (:meth:`OpenedPart.rename_directory`),
  and that in all its views (:meth:`OpenedPart.adapt_to_schema`) at once.
- Mapped files stay readable after the part's directory was renamed or deleted.
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Self, TypeVar

import numpy as np
import pyarrow as pa

from parts.common.errors import CorruptionError, PartLabel
from parts.common.part_name import PartName
from parts.format.checksums import Checksums, check_file_bytes
from parts.format.columns_file import ColumnsFile, to_python_value
from parts.format.file_names import CHECKSUMS, DATA_FILE, META_FILE, PRIMARY_INDEX, SKIP_INDEXES, get_column_file_name
from parts.format.hashed_file import check_size, map_file, refuse_other_files, stat_file
from parts.format.marks import ColumnMarks
from parts.format.packed_metadata import MetadataReader
from parts.format.part_files import (
    COLUMNS_FILE,
    COUNT_FILE,
    MARKS_FILE,
    METADATA_VERSION_FILE,
    MINMAX_FILE,
    PARTITION_FILE,
    PRIMARY_INDEX_FILE,
    TTL_FILE,
    UUID_FILE,
    DecodingContext,
    NamedArrays,
    PartMetadata,
    SmallFile,
    choose_row_version_file,
    find_data_file,
    is_small_file,
)
from parts.format.primary_index import PrimaryIndex, count_granules
from parts.read.column_mapping import STORED_PREFIX, map_columns
from parts.skip_indexes.minmax_index import NamedArrays as IndexValues
from parts.skip_indexes.skip_index_file import SkipIndexFile
from parts.table.block_number_column import BLOCK_NUMBER, make_block_number_column
from parts.table.part_name_columns import NAME_COLUMNS, make_name_column
from parts.table.row_exists_column import PART_OFFSET, PART_OFFSET_COLUMN, ROW_EXISTS, ROW_EXISTS_COLUMN
from parts.table.row_version import HIDDEN_NAMES, ORIGIN_POSITION, ROW_PLACE_NAMES, RowVersion, find_hidden_column
from parts.table.table_description import Column, SkipIndex, TableSchema
from parts.table.ttl_rules import PartTtl, TableTtl
from parts.types import DataType

TEMPORARY_NAME = PartName("tmp", 0, 0, 0)
_CONSTANT_COLUMNS = {ROW_EXISTS: ROW_EXISTS_COLUMN, PART_OFFSET: PART_OFFSET_COLUMN}
_OWN = ("table_schema", "_lock", "_maps", "_indexes", "skip_index_file", "other_index", "_cache_owner")
"""Attributes that belong to the process and are not sent to another one."""
T = TypeVar("T")


class OpenedPart:
    """A part on disk. ``written``: see :func:`parts.read.part_reader.open_part`."""

    is_frozen = False
    """Whether FREEZE has linked it since it was opened."""

    def __init__(
        self,
        path: Path,
        name: PartName | None = None,
        table_schema: TableSchema | None = None,
        written: bytes = b"",
        *,
        is_known: bool = False,
    ) -> None:
        self.name = name or PartName.try_parse(path.name) or TEMPORARY_NAME
        self._label = PartLabel(path.name if self.name is TEMPORARY_NAME else str(self.name), path)
        self.table_schema = table_schema
        self._lock = threading.Lock()
        self._maps: dict[str, pa.Buffer] = {}
        self._indexes: dict[str, tuple[SkipIndex, IndexValues | None]] = {}
        self._is_trusted = bool(written)
        if not written and not os.path.isdir(path):
            raise CorruptionError("Directory is missing", part=self._label, name="NO_FILE_IN_DATA_PART")
        self._meta = MetadataReader(path, self._label, written)
        self.part_type = "Compact" if self._meta.is_packed else "Wide"
        self.checksums = Checksums.decode(self._meta.read(CHECKSUMS), self._label)
        columns = self._value(COLUMNS_FILE)
        self.schema = columns.schema
        self.granularity = columns.granularity
        self.rows = self._value(COUNT_FILE)
        self.marks = count_granules(self.rows, self.granularity)
        self.sorting_key = columns.sorting_key
        self.content_hash = self.checksums.content_hash
        self.data_uncompressed_bytes = self.checksums.uncompressed_bytes
        self.uuid = self._value(UUID_FILE)
        self.metadata_version = self._value(METADATA_VERSION_FILE)
        self._map_columns()
        if not is_known:
            self._check_files()
        facts = stat_file(path / (META_FILE if self._meta.is_packed else CHECKSUMS), self._label)
        self.modification_time = facts.st_mtime
        self.bytes_on_disk = facts.st_size + sum(self.checksums.files[name].size for name in self._files_on_disk())
        self._meta.release_data()
        if not written:
            _ = self.partition, self.minmax, self.ttl, self.row_version  # decoded now, to find corruption

    @cached_property
    def partition_arrays(self) -> NamedArrays:
        """(expression, type, array of the one value) of the partition key."""
        return self._value(PARTITION_FILE)

    @cached_property
    def partition(self) -> tuple[object, ...]:
        return tuple(to_python_value(array[0]) for _, _, array in self.partition_arrays)

    @cached_property
    def minmax_arrays(self) -> dict[str, pa.Array]:
        """Column → array of its smallest and largest value, for the columns that the partition key reads."""
        return {column: array for column, _, array in self._value(MINMAX_FILE)}

    @cached_property
    def minmax(self) -> dict[str, tuple[object, object]]:
        arrays = self.minmax_arrays.items()
        return {name: (to_python_value(each[0]), to_python_value(each[1], upper=True)) for name, each in arrays}

    def to_part_metadata(self) -> PartMetadata:
        """Returns the content of its small files, for writing a part of the same rows."""
        return PartMetadata(
            ColumnsFile(self.schema, self.granularity, self.sorting_key),
            self.rows,
            self.partition_arrays,
            self._value(MINMAX_FILE),
            self._value(PRIMARY_INDEX_FILE),
            self._marks,
            self.uuid,
            self.metadata_version,
            self.ttl,
            self.row_version,
        )

    @cached_property
    def row_version(self) -> RowVersion:
        """The version of its rows (``parts.table.row_version``)."""
        return self._value(choose_row_version_file(self.checksums.files))

    @cached_property
    def ttl(self) -> PartTtl:
        """The TTL times of its rows, as known when it was written."""
        return self._value(TTL_FILE)

    def get_applicable_ttl(self, rules: TableTtl) -> PartTtl:
        """Returns its times of those rules whose columns it stores unconverted and under the same name."""
        names = [name for name in self._positions if self.stored_name(name) == name]
        return rules.limit_to_columns(names).select_known(self.ttl)

    @property
    def path(self) -> Path:
        return self._meta.directory

    def adapt_to_schema(self, table_schema: TableSchema) -> Self:
        """Returns the part as a table of this schema reads it."""
        if table_schema is self.table_schema:
            return self
        part = copy.copy(self)
        part.table_schema = table_schema
        part._map_columns()
        return part

    def _map_columns(self) -> None:
        mapping = map_columns(self.schema, self.metadata_version, self.table_schema)
        self._positions, self._converted = mapping.positions, mapping.converted
        if ORIGIN_POSITION in self.schema and not self.row_version.is_mixed:  # committed anew: that place counts
            self._positions = {name: at for name, at in self._positions.items() if name not in ROW_PLACE_NAMES}
        self.other_index: PrimaryIndex | None = None  # see ``parts.read.key_mapping``

    def reads_alike_always(self) -> bool:
        """Tells whether its metadata version makes no difference to how it is read."""
        versions = range(1 + (self.table_schema.history.version if self.table_schema is not None else 0))
        mappings = [map_columns(self.schema, version, self.table_schema) for version in versions]
        return all(not each.converted and each.positions == mappings[0].positions for each in mappings)

    def lacks_columns(self, columns: Iterable[str]) -> bool:
        """Tells whether some of the columns are not in its files. A column of another type is."""
        return not all(name in self._positions or name in self._converted for name in columns)

    def hide_columns(self, columns: Collection[str]) -> Self:
        """Returns the part as if it lacked these columns: they are read as their defaults."""
        part = copy.copy(self)
        part._positions = {name: at for name, at in self._positions.items() if name not in columns}
        part._converted = {name: column for name, column in self._converted.items() if name not in columns}
        return part

    @property
    def readable_columns(self) -> Sequence[str]:
        """The columns that can be read from the files as they are."""
        return [name for name in self._positions if not name.startswith(STORED_PREFIX)]

    @cached_property
    def has_deleted_rows(self) -> bool:
        """Whether some of :attr:`rows` may be deleted (``parts.table.row_exists_column``)."""
        return ROW_EXISTS in self.schema

    @property
    def converted_columns(self) -> Sequence[str]:
        """The columns whose type has changed since the part was written."""
        return tuple(self._converted)

    def __repr__(self) -> str:
        return f"Part({self.path.name}, {self.rows} rows)"

    @cached_property
    def primary_index(self) -> PrimaryIndex:
        """The primary index, loaded on first use."""
        entries = self._value(PRIMARY_INDEX_FILE)
        types: tuple[DataType, ...] = tuple(type_ for _, type_, _ in entries)
        keys = [array for _, _, array in entries]
        if any(len(array) != (self.marks + 1 if self.rows else 0) for array in keys):
            message = f"Index is not of {self.marks} granules"
            raise CorruptionError(message, part=self._label, file=PRIMARY_INDEX, offset=0, name="CORRUPTED_DATA")
        return PrimaryIndex(self.sorting_key, types, keys, self.rows, self.granularity)

    @property
    def index_bytes_in_memory(self) -> int:
        """The size of the primary index; 0 as long as no query has needed it."""
        index = self.__dict__.get("primary_index")
        return sum(key.nbytes for key in index.keys) if index is not None else 0

    @cached_property
    def skip_index_file(self) -> SkipIndexFile | None:
        """The skip indexes; ``None`` if the part has none."""
        if SKIP_INDEXES not in self.checksums.files:
            return None
        if SKIP_INDEXES in self._meta.packed_names:
            with self._lock:
                data = pa.py_buffer(self._meta.read(SKIP_INDEXES))
        else:
            data = self._mapped(SKIP_INDEXES)
        return SkipIndexFile(data, self._label)

    def read_skip_index(self, index: SkipIndex) -> IndexValues | None:
        """Returns the part's values of a skip index; ``None`` if it has none or its columns have changed."""
        if self.skip_index_file is None or any(self._is_other(name) for name in index.key.columns):
            return None
        with self._lock:
            if index.name not in self._indexes:
                self._indexes[index.name] = (index, self.skip_index_file.read_index(index))
            known, values = self._indexes[index.name]
        return values if known == index else self.skip_index_file.read_index(index)

    def _is_other(self, column: str) -> bool:
        return column not in self._positions or self.stored_name(column) != column

    def column_sizes(self) -> dict[str, tuple[int, int]]:
        """Returns column → (bytes on disk, uncompressed bytes)."""
        sizes = self.checksums.column_bytes
        return {name.removeprefix(STORED_PREFIX): sizes[self.stored_name(name)] for name in self._positions}

    def estimate_bytes_before(self, columns: Sequence[str], granules: np.ndarray) -> np.ndarray:
        """Returns roughly how many uncompressed bytes of stored ``columns`` precede each of the granules."""
        before = np.zeros(len(granules))
        for name in set(columns) & self._positions.keys():
            stored_name = self.stored_name(name)
            _, raw = self.checksums.column_bytes[stored_name]
            if self.part_type == "Wide" and self.marks:
                marks = self._marks[self._positions[name]]
                size = self.checksums.files[get_column_file_name(stored_name)].size
                starts = marks.frame_starts
                stored = np.interp(granules, np.append(starts, self.marks), np.append(marks.offsets[starts], size))
                before += stored * (raw / size)
            else:
                before += granules * (raw / max(self.marks, 1))
        return before

    def rename_directory(self, new_path: Path) -> None:
        """Renames the directory. Readers of this part continue with the files at their new place."""
        with self._lock:
            self.path.rename(new_path)
            self._meta.directory = self._label.directory = new_path

    def __copy__(self) -> OpenedPart:
        """Returns a view in this process that shares the lock and the mapped files."""
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)
        return view

    def __getstate__(self) -> dict[str, object]:
        """Returns the state for another process of this server, without open files."""
        return {name: value for name, value in self.__dict__.items() if name not in _OWN}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self.table_schema = None
        self._lock, self._maps, self._indexes = threading.Lock(), {}, {}
        self._map_columns()

    def verify(self, check: Callable[[], None] = lambda: None, known: Collection[str] = ()) -> None:
        """Reads every byte except of ``known`` files. Raises ``CorruptionError``, or an error of ``check``."""
        check()
        meta = MetadataReader(self.path, self._label)
        checksums = Checksums.decode(meta.read(CHECKSUMS), self._label)
        if checksums != self.checksums:
            raise CorruptionError("Checksums changed since the part was opened", part=self._label, file=CHECKSUMS)
        for name in meta.packed_names if meta.is_packed else filter(is_small_file, checksums.files):
            if name != CHECKSUMS:
                check_file_bytes(meta.read(name), name, checksums, self._label)
        for file in self.list_data_files():
            if file not in known:
                self._verify_data(file, check)
        self._check_no_other_files()

    @cached_property
    def _marks(self) -> list[ColumnMarks]:
        return self._value(MARKS_FILE, DecodingContext(self._label, len(self.schema.columns), self.marks))

    def _column(self, name: str) -> Column:
        if name in self._positions:
            stored = self.schema.columns[self._positions[name]]
            return stored if stored.name == name else replace(stored, name=name)
        if name in self._converted:
            return self._converted[name]
        if name == BLOCK_NUMBER:
            return make_block_number_column(self.name)
        if name in _CONSTANT_COLUMNS or name in NAME_COLUMNS:
            return _CONSTANT_COLUMNS.get(name) or make_name_column(name, self.name)
        table = self.table_schema or self.schema
        if name in HIDDEN_NAMES and (table is self.schema or name not in table):
            return find_hidden_column(name, self.name, self.row_version)
        return table.column(name)

    def _value(self, file: SmallFile[T], shape: DecodingContext | None = None) -> T:
        """Decodes a small file."""
        if file.default is not None and file.name not in self.checksums.files:
            return file.default
        with self._lock:
            data = self._meta.read(file.name)
        if not self._is_trusted:
            check_file_bytes(data, file.name, self.checksums, self._label)
        return file.decode(data, shape or DecodingContext(self._label))

    def stored_name(self, column: str) -> str:
        """Returns the name under which the part stores a column that it can read as it is."""
        return self.schema.columns[self._positions[column]].name

    def _file_of(self, column: str) -> str:
        return self._stored_file(self.stored_name(column))

    def _stored_file(self, stored_name: str) -> str:
        return get_column_file_name(stored_name) if self.part_type == "Wide" else DATA_FILE

    def list_data_files(self) -> list[str]:
        """Lists the files that are mapped, and those that this version does not know."""
        packed = self._meta.packed_names
        return [name for name in self.checksums.files if not is_small_file(name) and name not in packed]

    def _files_on_disk(self) -> Collection[str]:
        """Lists the files besides ``meta.bin`` or ``checksums``."""
        return self.list_data_files() if self._meta.is_packed else self.checksums.files

    def _check_files(self) -> None:
        """Checks that every file exists with its size."""
        files = self.checksums.files
        for column in self.schema.columns if self.part_type == "Wide" else self.schema.columns[:1]:
            if self._stored_file(column.name) not in files:
                message = f"The file of column {column.name!r} is not in the checksums"
                raise CorruptionError(message, part=self._label, file=CHECKSUMS, name="CORRUPTED_DATA")
        for name in self._files_on_disk():
            check_size(self.path / name, files[name].size, self._label)

    def _mapped(self, file: str) -> pa.Buffer:
        with self._lock:
            if file not in self._maps:
                self._maps[file] = self._meta.map_data() if file in self._meta.packed_names else self._map(file)
            return self._maps[file]

    def _map(self, file: str) -> pa.Buffer:
        return map_file(self.path / file, self.checksums.files[file].size, self._label)

    def _verify_data(self, file: str, check: Callable[[], None]) -> None:
        """Checks the file piece by piece, to find the offset of damage, and then as a whole."""
        data = self._map(file)  # mapped again: the file may have been replaced since
        check()
        entry = find_data_file(file)
        if entry is not None:
            entry.check(data, self._label, file, check)
        check_file_bytes(memoryview(data), file, self.checksums, self._label)  # type: ignore[arg-type]

    def _check_no_other_files(self) -> None:
        known = {META_FILE, *self.list_data_files()} if self._meta.is_packed else {CHECKSUMS, *self.checksums.files}
        refuse_other_files(self.path, known, self._label)
