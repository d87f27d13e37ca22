"""Bodies of type ``multipart/form-data``: further parameters, and external tables of a query.

A part without a file name is a parameter, as in the URL (``query``, ``param_x``, settings). A part with one is an
external table of the part's name. ``<name>_structure`` (``a UInt8, b String``) or ``<name>_types`` (``UInt8,String``:
the columns are ``_1``, ``_2`` …) and ``<name>_format`` (default TabSeparated) describe its bytes.

Source: ClickHouse documentation, "External Data for Query Processing"; RFC 7578.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message

import pyarrow as pa

from parts.common.errors import UserError
from parts.table.table_description import Column, TableSchema
from parts.types import parse_structure
from sql.definitions.column_defaults import complete_block
from sql.formats.registry import read_blocks
from sql.settings.supported_settings import (
    Settings,
)

MAX_FORM_BYTES = 256 << 20
"""The limit of a form, which is held in memory."""
_MOST_PARTS = 10_000
_OPTION = re.compile(r"(.+)_(structure|types|format)\Z")


@dataclass(frozen=True)
class Form:
    """A parsed form: parameters, and the bytes of external tables by name."""

    fields: list[tuple[str, str]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class ExternalTable:
    """A table sent with a query. Implements ``sql.relations.ArrowRelation``."""

    schema: TableSchema
    rows: pa.Table

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Returns the rows with these columns."""
        return self.rows.select(list(columns))


def get_boundary(content_type: str) -> str:
    """Returns a form's boundary; ``""`` for other content types. Raises 36 (BAD_ARGUMENTS) without one."""
    message = Message()
    message["content-type"] = content_type
    if message.get_content_type() != "multipart/form-data":
        return ""
    boundary = message.get_param("boundary")
    if not isinstance(boundary, str) or not 0 < len(boundary) <= 200 or not boundary.isascii():
        raise UserError("BAD_ARGUMENTS", "The Content-Type multipart/form-data has no boundary")
    return boundary


def is_external_table_option(name: str) -> bool:
    """Returns whether a parameter describes an external table."""
    return _OPTION.match(name) is not None


def read_form(body: bytes, boundary: str) -> Form:
    """Parses a form. Raises 36 (BAD_ARGUMENTS)."""
    form = Form()
    delimiter = b"--" + boundary.encode()
    pieces = (b"\r\n" + body).split(b"\r\n" + delimiter)
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        raise UserError("BAD_ARGUMENTS", "The form is cut off, or has another boundary than its Content-Type")
    if len(pieces) > _MOST_PARTS:
        raise UserError("BAD_ARGUMENTS", f"The form has more than {_MOST_PARTS} parts")
    for piece in pieces[1:-1]:
        head, found, content = piece.partition(b"\r\n\r\n")
        name, has_file = _parse_disposition(head) if found else ("", False)
        if not name:
            raise UserError("BAD_ARGUMENTS", f"A part of the form has no name: {piece[:100]!r}")
        if has_file:
            form.files[name] = content
        else:
            form.fields.append((name, _decode_field(name, content)))
    return form


def _parse_disposition(head: bytes) -> tuple[str, bool]:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-disposition":
            message = Message()
            message["content-disposition"] = value.strip().decode("utf-8", "replace")
            given = message.get_param("name", "", "content-disposition")
            file_name = message.get_param("filename", None, "content-disposition")
            return (given if isinstance(given, str) else ""), file_name is not None
    return "", False


def _decode_field(name: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UserError("BAD_ARGUMENTS", f"Field {name!r} of the form is not UTF-8 at byte {error.start}") from None


def make_external_tables(
    files: Mapping[str, bytes], options: Mapping[str, str], settings: Settings
) -> dict[str, ExternalTable]:
    """Parses external tables.

    Raises 36 (BAD_ARGUMENTS) without a structure, 8 (THERE_IS_NO_COLUMN), and the errors of the table's format.
    """
    tables = {}
    for name, data in files.items():
        schema = TableSchema(tuple(_parse_columns(name, options)))
        blocks = list(
            read_blocks(
                options.get(f"{name}_format", "TabSeparated"), io.BytesIO(data), schema.columns, settings=settings
            )
        )
        rows = pa.concat_tables(blocks) if blocks else pa.Table.from_batches([], schema.arrow)
        missing = [column for column in schema.names if column not in rows.column_names]
        if missing:
            raise UserError("THERE_IS_NO_COLUMN", f"The data of the external table {name} has no column {missing[0]!r}")
        tables[name] = ExternalTable(schema, complete_block(rows, schema, settings=settings))
    return tables


def _parse_columns(name: str, options: Mapping[str, str]) -> list[Column]:
    structure, types = options.get(f"{name}_structure"), options.get(f"{name}_types")
    if not structure and not types:
        raise UserError("BAD_ARGUMENTS", f"External table {name}: say {name}_structure or {name}_types")
    columns = parse_structure(str(structure or types))
    return [Column(given or f"_{number}", type_) for number, (given, type_) in enumerate(columns, 1)]
