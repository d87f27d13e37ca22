"""A table's columns, keys and settings, as far as they shape its parts.

``parts`` evaluates no SQL. ``sql`` compiles key expressions to a :class:`Key`, whose ``evaluate`` maps a block to the
arrays of the key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from parts.common.errors import UserError
from parts.table.merge_mode import ORDINARY, MergeMode
from parts.table.nested_columns import get_structure_name
from parts.table.schema_history import UNCHANGED, SchemaHistory
from parts.table.ttl_rules import NO_TTL, TableTtl
from parts.types import DataType, format_type, strip_low_cardinality


class ColumnDefault(Protocol):
    """A compiled expression for the values of an absent column; ``sql`` builds it. Thread-safe."""

    @property
    def columns(self) -> Sequence[str]:
        """The stored columns that it reads."""

    def evaluate(self, block: pa.Table, rows: int) -> pa.ChunkedArray:
        """Returns the values of ``rows`` rows in the column's storage type. ``block`` has :attr:`columns`."""


class ColumnConversion(Protocol):
    """A compiled conversion of values stored as a former type of the column; ``sql`` builds it."""

    def __call__(self, values: pa.ChunkedArray, type_: DataType, version: int) -> pa.ChunkedArray:
        """Converts ``values`` of ``type_``, the type in this version of the table, to the storage type.

        Raises ``UserError`` for a value that cannot be converted.
        """


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    ``codec`` is the text inside ``CODEC(…)`` or ``""`` for the default. ``default_kind`` is ``""``, ``DEFAULT``,
    ``MATERIALIZED`` or ``ALIAS``. ``default_expression`` is ClickHouse SQL, and ``default`` the same compiled, for
    parts written before the column was added; ``None``: the type's default. ``convert`` reads parts that were written
    before its type changed. ``ttl`` is the text of the column's TTL or ``""``.
    """

    name: str
    type: DataType
    codec: str = ""
    default_kind: str = ""
    default_expression: str = ""
    comment: str = ""
    default: ColumnDefault | None = field(default=None, compare=False, repr=False)
    convert: ColumnConversion | None = field(default=None, compare=False, repr=False)
    ttl: str = ""
    aggregate: str = ""
    """The function f of a column declared as SimpleAggregateFunction(f, T); ``type`` is T."""

    @property
    def type_text(self) -> str:
        """The type as it was declared."""
        return format_type(self.type, self.aggregate)

    @property
    def is_stored(self) -> bool:
        """Whether it has a file: ALIAS columns are computed when read."""
        return self.default_kind != "ALIAS"


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table, in declared order. Names are unique and case-sensitive.

    ``history`` tells how older parts store them.
    """

    columns: tuple[Column, ...]
    history: SchemaHistory = UNCHANGED

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """The hash, computed once: schemas are keys of caches."""
        return hash(self.columns)

    def __getstate__(self) -> dict[str, object]:
        """Leaves the hash out, because other processes compute another one."""
        return {"columns": self.columns, "history": self.history}

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for column in self.columns:
            if column.name in seen:
                raise UserError("DUPLICATE_COLUMN", f"Column {column.name!r} is given more than once")
            seen.add(column.name)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def column(self, name: str) -> Column:
        """Returns a column by name. Raises ``UserError`` 16 (NO_SUCH_COLUMN_IN_TABLE)."""
        column = self._by_name.get(name)
        if column is not None:
            return column
        known = ", ".join(column.name for column in self.columns)
        raise UserError("NO_SUCH_COLUMN_IN_TABLE", f"There is no column {name!r}; the columns are: {known}")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns, in order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def stored(self) -> TableSchema:
        """The columns that have files: all except ALIAS."""
        return TableSchema(tuple(column for column in self.columns if column.is_stored))

    @cached_property
    def nested(self) -> tuple[tuple[str, ...], ...]:
        """The stored columns of each Nested structure with more than one."""
        structures: dict[str, list[str]] = {}
        for column in self.stored.columns:
            structures.setdefault(get_structure_name(column.name, column.type), []).append(column.name)
        return tuple(tuple(names) for structure, names in structures.items() if structure and len(names) > 1)

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of a block of all these columns (see ``parts.types`` for the mapping)."""
        return pa.schema([pa.field(c.name, c.type.arrow, nullable=c.type.is_nullable) for c in self.columns])


@dataclass(frozen=True)
class Key:
    """A tuple of key expressions, compiled.

    ``expressions`` are canonical ClickHouse SQL texts, ``types`` their types, ``columns`` the table columns they read,
    ``reads`` those of each expression. ``evaluate(block)`` returns one array per expression, each as long as the block.
    """

    expressions: tuple[str, ...]
    types: tuple[DataType, ...]
    columns: tuple[str, ...]
    evaluate: Callable[[pa.Table], list[pa.ChunkedArray]] = field(compare=False, repr=False)
    reads: tuple[tuple[str, ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.expressions)

    @cached_property
    def plain_types(self) -> tuple[DataType, ...]:
        """The types without LowCardinality, as in indexes."""
        return tuple(strip_low_cardinality(type_) for type_ in self.types)

    def prefix(self, length: int) -> Key:
        """Returns the first ``length`` expressions as a key."""
        evaluate = self.evaluate
        return Key(
            self.expressions[:length],
            self.types[:length],
            self.columns,
            lambda block: evaluate(block)[:length],
            self.reads[:length],
        )


def make_column_key(schema: TableSchema, names: Sequence[str]) -> Key:
    """Returns a key of plain columns, which needs no SQL."""
    columns = tuple(names)
    return Key(
        columns,
        tuple(schema.column(name).type for name in columns),
        columns,
        lambda block: [block.column(name) for name in columns],
        tuple((name,) for name in columns),
    )


@dataclass(frozen=True)
class SkipIndex:
    """A summary of every ``granularity`` granules, by which queries skip them (``parts.skip_indexes``).

    ``kind`` and ``arguments`` define it; ``type_text`` is the definition as the user wrote it. A text index summarises
    single granules whatever ``granularity`` is.
    """

    name: str
    key: Key
    kind: str
    arguments: tuple[float | str, ...]
    granularity: int
    expression: str
    type_text: str


@dataclass(frozen=True)
class Constraint:
    """A condition on every inserted row.

    It is not checked if ``is_assumed``. ``key`` is the compiled form.
    """

    name: str
    expression: str
    key: Key
    is_assumed: bool = False


@dataclass(frozen=True, slots=True)
class PartSettings:
    """The table settings that shape parts.

    Names and defaults are ClickHouse's (``system.merge_tree_settings``).
    """

    index_granularity: int = 8192
    """Rows in a granule."""
    index_granularity_bytes: int = 10 * 1024 * 1024
    """Granules of long rows have fewer rows (``parts.write.index_granularity``); 0: always ``index_granularity``."""
    min_index_granularity_bytes: int = 1024
    """The lowest allowed ``index_granularity_bytes``."""
    min_bytes_for_wide_part: int = 10 * 1024 * 1024
    """Uncompressed bytes below which a part is compact (all columns in one file)."""
    min_rows_for_wide_part: int = 0
    """Rows below which a part is compact too."""
    min_bytes_for_full_part_storage: int = 64 * 1024
    """Uncompressed bytes below which a compact part is packed: one file with data and metadata."""
    fsync_after_insert: bool = True
    """Files of a part are synced to the disk before the INSERT is acknowledged."""
    fsync_part_directory: bool = True
    """The directory of a part is synced too."""
    old_parts_lifetime: int = 480
    """Seconds an outdated part is kept on disk."""
    default_compression_codec: str = "LZ4"
    """The codec of columns that name none."""
    enable_block_number_column: bool = False
    """Whether merges store the block number of every row."""

    def is_wide(self, expected_bytes: int | None, expected_rows: int | None) -> bool:
        """Tells whether a part of this size is written wide. A part of unknown size is."""
        return (expected_bytes is None or expected_bytes >= self.min_bytes_for_wide_part) and (
            expected_rows is None or expected_rows >= self.min_rows_for_wide_part
        )


@dataclass(frozen=True)
class TableDescription:
    """Everything ``parts`` needs to know about a table.

    ``primary_key`` is a prefix of ``sorting_key``. ``sampling_key`` is one of its expressions, or empty.
    ``metadata_version`` counts the changes of the definition. Parts keep the version they were written under, and
    ``schema.history`` tells how to read those of earlier ones. ``has_parts`` is false for tables whose parts are not
    shown to users.
    """

    schema: TableSchema
    sorting_key: Key
    primary_key: Key
    partition_key: Key
    sampling_key: Key
    settings: PartSettings = PartSettings()
    merge_mode: MergeMode = ORDINARY
    metadata_version: int = 0
    indexes: tuple[SkipIndex, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    has_parts: bool = True
    ttl: TableTtl = NO_TTL
