"""Options of formats, read once from the session's settings, and errors about bad values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from parts.common.errors import UserError
from parts.common.query_status import QueryStatus
from parts.types import DataType
from sql.grammar.text_escapes import shorten_for_message
from sql.settings.supported_settings import (
    Settings,
)

NamedTupleTexts = Callable[[pa.Array, DataType, "FormatOptions"], pa.Array]
"""Renders named tuples for a format that shows them in its own way."""


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """The settings that formats use, with ClickHouse's 26.x names and defaults.

    ``timezone`` is that of DateTime columns that name none. ``status`` is the statement's: readers and writers call its
    ``check`` between pieces of some milliseconds, and account what they hold in its ``memory``.
    ``client_protocol_version`` is that of a client of ``FORMAT Native``.
    """

    timezone: str = "UTC"
    csv_delimiter: str = ","
    skip_unknown_fields: bool = True
    column_name_matching_mode: str = "auto"
    null_as_default: bool = True
    csv_empty_as_default: bool = True
    csv_detect_header: bool = True
    tsv_detect_header: bool = True
    defaults_for_omitted_fields: bool = True
    best_effort_times: bool = False
    quote_64bit_integers: bool = False
    quote_64bit_floats: bool = False
    quote_decimals: bool = False
    quote_denormals: bool = False
    escape_forward_slashes: bool = True
    named_tuples_as_objects: bool = True
    pretty_max_rows: int = 1000
    pretty_color: bool = False
    pretty_row_numbers: bool = True
    pretty_max_column_pad_width: int = 250
    pretty_max_value_width: int = 10000
    write_statistics: bool = True
    named_tuple_texts: NamedTupleTexts | None = None
    client_protocol_version: int = 0
    status: QueryStatus = field(default_factory=QueryStatus, compare=False)

    @staticmethod
    def of(settings: Settings, status: QueryStatus | None = None) -> FormatOptions:
        """Returns the options that the settings ask for. Raises 36 for a bad CSV delimiter."""
        delimiter = settings.format_csv_delimiter
        if delimiter in '"\n\r':
            raise UserError("BAD_ARGUMENTS", f"format_csv_delimiter must be one ASCII character, not {delimiter!r}")
        return FormatOptions(
            timezone=settings.timezone,
            csv_delimiter=delimiter,
            skip_unknown_fields=settings.input_format_skip_unknown_fields,
            column_name_matching_mode=settings.input_format_column_name_matching_mode,
            null_as_default=settings.input_format_null_as_default,
            csv_empty_as_default=settings.input_format_csv_empty_as_default,
            csv_detect_header=settings.input_format_csv_detect_header,
            tsv_detect_header=settings.input_format_tsv_detect_header,
            defaults_for_omitted_fields=settings.input_format_defaults_for_omitted_fields,
            best_effort_times=settings.date_time_input_format.startswith("best_effort"),
            quote_64bit_integers=settings.output_format_json_quote_64bit_integers,
            quote_64bit_floats=settings.output_format_json_quote_64bit_floats,
            quote_decimals=settings.output_format_json_quote_decimals,
            quote_denormals=settings.output_format_json_quote_denormals,
            escape_forward_slashes=settings.output_format_json_escape_forward_slashes,
            named_tuples_as_objects=settings.output_format_json_named_tuples_as_objects,
            pretty_max_rows=settings.output_format_pretty_max_rows,
            pretty_color=settings.output_format_pretty_color not in (0, "auto"),
            pretty_row_numbers=settings.output_format_pretty_row_numbers,
            pretty_max_column_pad_width=settings.output_format_pretty_max_column_pad_width,
            pretty_max_value_width=settings.output_format_pretty_max_value_width,
            write_statistics=settings.output_format_write_statistics,
            status=status if status is not None else QueryStatus(),
        )


class BadValueError(Exception):
    """A value that is not of its column's type. ``index`` counts rows of the converted array from 0."""

    def __init__(self, name: str, index: int, text: str, detail: str) -> None:
        super().__init__(detail)
        self.name = name
        self.index = index
        self.text = text
        self.detail = detail

    def with_index(self, index: int) -> BadValueError:
        """Returns the same error for another row."""
        return BadValueError(self.name, index, self.text, self.detail)

    def to_user_error(self, first_row: int, column: str, type_: DataType) -> UserError:
        """Returns the error for the user, naming row and column.

        ``first_row`` is the number (from 1) of the array's first row in the input.
        """
        where = f"(at row {first_row + self.index}, column {column} {type_})"
        return UserError(self.name, f"{self.detail}: {where}")


def parse_error(
    index: int, text: str, type_: DataType, name: str = "CANNOT_PARSE_INPUT_ASSERTION_FAILED"
) -> BadValueError:
    """Returns the error for a text that is no value of the type."""
    return BadValueError(
        name, index, text, f"Cannot parse input: expected {type_} before: {shorten_for_message(text)!r}"
    )


def range_error(index: int, text: str, type_: DataType) -> BadValueError:
    """Returns the error for a value out of the type's range."""
    return BadValueError(
        "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE",
        index,
        text,
        f"Value {shorten_for_message(text)} is out of range of type {type_}",
    )
