"""The table function ``file``: reads files below ``user_files_path``, and INSERT INTO FUNCTION file.

The hidden columns ``_path``, ``_file``, ``_size`` and ``_hash`` (XXH3-128 of the file, Pando's own) describe each row's
file; a query of them alone reads no rows of Parquet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import cast

import pyarrow as pa

from engine.queries.context import Context
from engine.server.user_files import UserFile
from parts.common.errors import UserError
from parts.table.table_description import Column, TableSchema
from parts.types import IntegerType, LowCardinalityType, StringType, parse_structure
from sql.definitions.column_defaults import complete_block
from sql.formats.columnar.arrow_and_parquet import count_parquet_rows
from sql.formats.columnar.schema_inference import SELF_DESCRIBING, infer_columns
from sql.formats.format_options import FormatOptions
from sql.formats.registry import find_format, read_blocks, write_blocks
from sql.grammar.statements.statement import FileArguments

_TEXT = LowCardinalityType(StringType())
_HIDDEN = (
    Column("_path", _TEXT), Column("_file", _TEXT), Column("_size", IntegerType(64, signed=False)),
    Column("_hash", _TEXT),
)  # fmt: skip
_ENDINGS = {
    "parquet": "Parquet", "arrow": "Arrow", "feather": "Arrow", "arrows": "ArrowStream", "csv": "CSV",
    "tsv": "TabSeparated", "jsonl": "JSONEachRow", "ndjson": "JSONEachRow", "native": "Native",
}  # fmt: skip
_FIRST_ROWS = 65_536


@dataclass(frozen=True)
class FilesRelation:
    """Files of one format and schema. Implements ``sql.relations.StreamedRelation``."""

    files: Sequence[UserFile]
    format: str
    schema: TableSchema
    context: Context

    @property
    def hidden(self) -> Sequence[Column]:
        """The hidden columns that no column of the files has the name of."""
        return [column for column in _HIDDEN if column.name not in self.schema]

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Returns all rows with these columns."""
        return pa.concat_tables(self.blocks(columns))

    def blocks(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yields all rows with these columns, block by block."""
        stored = [column for column in self.schema.columns if column.name in columns]
        for file in self.files:
            facts = {
                column.name: _get_hidden_value(file, column.name) for column in self.hidden if column.name in columns
            }
            for rows, block in self._blocks(file, stored):
                arrays = [_repeat_value(facts[name], rows) if name in facts else block.column(name) for name in columns]
                yield pa.Table.from_arrays(arrays, names=list(columns))

    def _blocks(self, file: UserFile, columns: Sequence[Column]) -> Iterator[tuple[int, pa.Table]]:
        """Yields a file's blocks: the number of rows, and their columns."""
        settings, status = self.context.settings, self.context.status
        with file.open() as stream:
            if not columns and self.format == "Parquet":
                rows = count_parquet_rows(stream, FormatOptions.of(settings, status))
                yield from ((min(_FIRST_ROWS, rows - start), pa.table({})) for start in range(0, rows, _FIRST_ROWS))
                return
            schema = self.schema
            if columns and self.format in SELF_DESCRIBING:  # reads only the selected columns
                schema = TableSchema(tuple(columns))
                settings = replace(settings, input_format_skip_unknown_fields=True)
            first_row = 1
            for block in read_blocks(self.format, stream, schema.columns, settings=settings, status=status):
                status.check()
                yield block.num_rows, complete_block(block, schema, settings=settings, first_row=first_row)
                first_row += block.num_rows


def resolve_files(path: str, format: str, structure: str, context: Context) -> FilesRelation:
    """Returns the matching files as a relation.

    Raises 107 (FILE_DOESNT_EXIST), 291 (DATABASE_ACCESS_DENIED), 636 (CANNOT_EXTRACT_TABLE_STRUCTURE), and 164
    (READONLY) in a read-only session.
    """
    if context.settings.readonly == 1:
        raise UserError("READONLY", "Cannot use the table function file in readonly mode")
    name = _find_format(path, format)
    files = context.server.config.user_files.find(path)
    if structure:
        columns = _parse_columns(structure)
    elif files:
        with files[0].open() as stream:
            columns = infer_columns(name, stream, FormatOptions.of(context.settings, context.status))
    else:
        raise UserError(
            "CANNOT_EXTRACT_TABLE_STRUCTURE", f"There are no files with provided path {path!r}: give the structure"
        )
    return FilesRelation(files, name, TableSchema(tuple(columns)), context)


def write_file(
    arguments: FileArguments, columns: Sequence[Column], batches: Iterator[pa.RecordBatch], context: Context
) -> None:
    """Writes the rows to a new file, which appears when it is complete.

    Raises 641 (CANNOT_APPEND_TO_FILE), 291 (DATABASE_ACCESS_DENIED).
    """
    settings = context.settings
    rows = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in batches:
            context.status.check()
            rows += batch.num_rows
            yield batch

    pairs = [(column.name, column.type) for column in columns]
    pieces = write_blocks(
        _find_format(arguments.path, arguments.format), pairs, counted(), settings=settings, status=context.status
    )
    with context.server.config.user_files.create_file(
        arguments.path, context.server.services.new_uuid().hex, replaces=settings.engine_file_truncate_on_insert
    ) as file:
        for piece in pieces:
            file.write(piece)
    context.statistics.written_rows += rows
    context.statistics.written_bytes += file.bytes


def parse_structure_argument(arguments: FileArguments) -> list[Column] | None:
    """Returns the columns of the structure argument, if there is one."""
    return _parse_columns(arguments.structure) if arguments.structure else None


def _find_format(path: str, format: str) -> str:
    """Returns the given format, or else that of the path's ending. Raises 73 (UNKNOWN_FORMAT)."""
    if format and format.lower() != "auto":
        return find_format(format).name
    name = _ENDINGS.get(PurePath(path).suffix[1:].lower())
    if name is None:
        raise UserError("UNKNOWN_FORMAT", f"The format of {path!r} is not known by its ending: give it")
    return name


def _parse_columns(text: str) -> list[Column]:
    """Parses a structure such as ``id UInt64, name String``."""
    columns = parse_structure(text)
    if any(name is None for name, _ in columns):
        raise UserError("BAD_ARGUMENTS", f"A structure is a list of names and types, got {text!r}")
    return [Column(cast(str, name), type_) for name, type_ in columns]


def _get_hidden_value(file: UserFile, name: str) -> str | int:
    if name == "_size":
        return file.size
    return file.hash() if name == "_hash" else str(file.path) if name == "_path" else file.path.name


def _repeat_value(value: str | int, rows: int) -> pa.Array:
    if isinstance(value, int):
        return pa.repeat(pa.scalar(value, pa.uint64()), rows)
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), pa.array([value], pa.string()))
