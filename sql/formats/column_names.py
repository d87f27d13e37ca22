"""Finds the column that a name in the data means (``input_format_column_name_matching_mode``).

``auto`` takes the column of exactly that name. Where there is none it takes the only one that differs in the case of
ASCII letters. ``match_case`` and ``ignore_case`` do one of the two. Binary columnar formats (Parquet, Arrow, Native)
match case whatever the setting says, as in ClickHouse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from parts.common.errors import UserError
from parts.table.table_description import Column
from parts.types import parse_type
from sql.formats.format_options import FormatOptions


def fold_case(name: str) -> bytes:
    """Returns the name with its ASCII letters in lower case."""
    return name.encode("utf-8", "surrogateescape").lower()


class ColumnNames:
    """Finds columns by their names in the data."""

    def __init__(self, columns: Sequence[Column], options: FormatOptions) -> None:
        self.skips_unknown = options.skip_unknown_fields
        self._mode = options.column_name_matching_mode
        self._exact = {} if self._mode == "ignore_case" else {column.name: column for column in columns}
        self._small = {} if self._mode == "match_case" else {fold_case(column.name): column for column in columns}
        counts = Counter(map(fold_case, (column.name for column in columns)))
        self._ambiguous = {} if self._mode == "match_case" else {name for name, count in counts.items() if count > 1}
        self.listed = [column.name for column in columns]

    def are_exact(self, names: Iterable[str]) -> bool:
        """Returns whether each of the names is exactly a column's."""
        return all(name in self._exact for name in names)

    def find(self, name: str) -> Column | None:
        """Returns the column with this name. Raises 117 for a name that may mean several columns."""
        if (column := self._exact.get(name)) is not None:
            return column
        key = fold_case(name)
        if key in self._ambiguous:
            meant = ", ".join(other for other in self.listed if fold_case(other) == key)
            raise UserError("INCORRECT_DATA", f"Ambiguous field {name!r}: it may mean any of the columns {meant}")
        return self._small.get(key)

    def match_header(
        self, names: Sequence[str], format_name: str, *, skips_unknown: bool = True
    ) -> list[Column | None]:
        """Returns the columns of a header; ``None`` for a name that is skipped.

        Raises 117 for an unknown name that must not be skipped, and for a column that is there twice; 8 where no name
        is a column's.
        """
        found = [self.find(name) for name in names]
        for place, column in enumerate(found):
            if column is None and not (self.skips_unknown and skips_unknown):
                raise UserError("INCORRECT_DATA", f"Unknown field found in {format_name} header: {names[place]!r}")
            if column is not None and any(other is column for other in found[:place]):
                raise UserError("INCORRECT_DATA", f"Column {column.name!r} is twice in the {format_name} header")
        if not any(found):
            # Perhaps a typo or another delimiter: all rows would be lost.
            raise UserError(
                "THERE_IS_NO_COLUMN",
                f"None of the {format_name} header's columns ({', '.join(names)[:300]}) "
                f"is one of {', '.join(self.listed)[:300]}",
            )
        return found


def check_types(types: Sequence[str], fields: Sequence[Column | None]) -> None:
    """Raises 117 for a header's type that is not its column's."""
    if len(types) != len(fields):
        raise UserError("INCORRECT_DATA", f"The header names {len(fields)} columns but {len(types)} types")
    for text, field in zip(types, fields, strict=True):
        if field is not None and parse_type(text) != field.type:
            raise UserError("INCORRECT_DATA", f"Type of {field.name!r} must be {field.type}, not {text}")
