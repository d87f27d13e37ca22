"""Writes Pretty, PrettyCompact, PrettySpace and Vertical as ClickHouse 26 draws them.

At most ``output_format_pretty_max_rows`` rows are shown, the first and the last ones. So these formats hold a bounded
table in memory and may work value by value. A cell of several lines is drawn as several lines (``↴`` and ``↳``). A
number above a million that stands alone in its row is explained (``-- 1.23 million``).
"""

from __future__ import annotations

import unicodedata
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from parts.types import DataType, DecimalType, FloatType, IntegerType, strip_nullable
from sql.formats.converters.text_rendering import render_plain
from sql.formats.format_options import FormatOptions
from sql.formats.json.text_rendering import render_json
from sql.formats.text.text_writers import Batches, Columns, RunStatistics, slice_rows

NULL = "ᴺᵁᴸᴸ"
FOOTER_ROWS = 50
TIP_ABOVE = 1_000_000
_HASHES = (1e17, 1.844675e19)  # between these bounds a number is more likely a hash, and not explained
_UNITS = (
    "", " thousand", " million", " billion", " trillion", " quadrillion", " quintillion", " sextillion", " septillion",
    " octillion", " nonillion", " decillion", " undecillion", " duodecillion", " tredecillion", " quattuordecillion",
    " quindecillion", " sexdecillion", " septendecillion", " octodecillion", " novemdecillion", " vigintillion",
)  # fmt: skip
_NUMBERS = (IntegerType, FloatType, DecimalType)
# A table that reaches all three limits is written as Vertical.
_VERTICAL_MIN_COLUMNS, _VERTICAL_MIN_WIDTH, _VERTICAL_MAX_ROWS = 5, 250, 10


@dataclass
class _Grid:
    """The shown rows as texts.

    ``gap`` is the index of the first row behind the rows left out, or -1.
    """

    names: list[str]
    types: list[DataType]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    total: int = 0
    gap: int = -1

    def number(self, index: int) -> int:
        """Returns the number of a shown row in the result."""
        return index + 1 if self.gap < 0 or index < self.gap else self.total - len(self.rows) + index + 1

    @cached_property
    def right(self) -> list[bool]:
        """A flag for each column: its values are aligned to the right."""
        return [isinstance(strip_nullable(type_), _NUMBERS) for type_ in self.types]


def _collect(columns: Columns, batches: Batches, options: FormatOptions, *, ends: bool) -> _Grid:
    """Collects the first rows, and with ``ends`` the last ones when not all can be shown."""
    grid = _Grid([name for name, _ in columns], [type_ for _, type_ in columns])
    limit = options.pretty_max_rows
    head = (limit + 1) // 2 if ends else limit
    tail: deque[tuple[str, ...]] = deque(maxlen=max(limit - head, 0))
    for batch in slice_rows(batches):
        before, grid.total = grid.total, grid.total + batch.num_rows
        taken = min(max(head - before, 0), batch.num_rows)
        if taken:
            grid.rows += _render_cells(batch.slice(0, taken), columns, options)
        rest = batch.num_rows - taken
        if ends and rest:
            last = min(rest, limit - head)
            tail.extend(_render_cells(batch.slice(batch.num_rows - last), columns, options) if last else ())
    if grid.total > limit and ends:
        grid.gap = len(grid.rows)
    grid.rows += tail
    return grid


def _render_cells(batch: pa.RecordBatch, columns: Columns, options: FormatOptions) -> list[tuple[str, ...]]:
    texts = [
        _to_strings(pc.fill_null(render_plain(batch.column(i), type_, options), NULL))
        for i, (_, type_) in enumerate(columns)
    ]
    return list(zip(*texts, strict=True))


def _to_strings(texts: pa.Array) -> list[str]:
    try:
        return texts.to_pylist()
    except UnicodeDecodeError:  # a FixedString that is not UTF-8
        return [value.decode("utf-8", "replace") for value in texts.view(pa.binary()).to_pylist()]


def display_width(text: str, start: int = 0) -> int:
    """Returns how many columns of a terminal a text takes.

    ``start`` is the column where it begins, which matters for tabs.
    """
    if text.isascii() and text.isprintable():
        return len(text)
    column = start
    for char in text:
        column += 8 - column % 8 if char == "\t" else _character_width(char)
    return column - start


def _character_width(char: str) -> int:
    """Returns 2 for wide characters, 0 for combining and control characters, else 1."""
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf", "Cc"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def readable_number_tip(text: str, type_: DataType) -> str:
    """Returns a large number in words, with two digits; an empty text for others."""
    if not isinstance(strip_nullable(type_), _NUMBERS) or text == NULL:
        return ""
    value = float(text)
    size = abs(value)
    if not size > TIP_ABOVE or size == float("inf") or _HASHES[0] < size < _HASHES[1]:
        return ""
    unit = 0
    while unit + 1 < len(_UNITS) and abs(value) >= 1000:
        value /= 1000
        unit += 1
    number = f"{value:.2f}" if abs(value) < 1e60 else repr(value).replace("e+", "e")
    return f" -- {number}{_UNITS[unit]}"


# Tables ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Frame:
    """The strokes of a style. Rules are (left, fill, middle, right)."""

    bar: str
    edge: str
    row_rule: tuple[str, str, str, str] | None = None
    end_rule: tuple[str, str, str, str] | None = None


_FRAMES = {
    "Pretty": _Frame("│", "│", ("├", "─", "┼", "┤"), ("└", "─", "┴", "┘")),
    "PrettyCompact": _Frame("│", "│", None, ("└", "─", "┴", "┘")),
    "PrettySpace": _Frame(" ", ""),
}


def _render_named_tuples(array: pa.Array, type_: DataType, options: FormatOptions) -> pa.Array:
    """Renders named tuples as JSON over several lines, indented by blanks."""
    texts = render_json(array, type_, options, 0)
    return pc.replace_substring(pc.replace_substring(texts, "\n\t", "\n \t"), "\t", " ")


def write_pretty(
    columns: Columns,
    batches: Batches,
    options: FormatOptions,
    statistics: RunStatistics | None,
    *,
    style: str,
    is_plain: bool,
) -> Iterator[bytes]:
    """Writes all rows in one frame; ``is_plain`` forbids colours, whatever the settings say."""
    options = replace(options, pretty_color=options.pretty_color and not is_plain)
    grid = _collect(columns, batches, replace(options, named_tuple_texts=_render_named_tuples), ends=True)
    if not grid.total:
        return
    widths = _widths(grid, options, _first_column(grid, style, options))
    single = len(grid.rows) == 1 and len(columns) == 1
    limit = None if single else options.pretty_max_value_width
    if _is_too_wide(grid, widths):
        yield from _write_vertical_grid(grid, options)
        return
    yield ("\n".join(_Drawing(grid, widths, style, options, limit).lines()) + "\n").encode()


def _first_column(grid: _Grid, style: str, options: FormatOptions) -> int:
    """Returns the column of the line where the first column's texts begin."""
    numbers = len(str(grid.total)) + 2 if options.pretty_row_numbers else 0
    return numbers + (1 if style == "PrettySpace" else 2)


def _widths(grid: _Grid, options: FormatOptions, start: int) -> list[int]:
    limit = min(options.pretty_max_value_width, options.pretty_max_column_pad_width)
    widths: list[int] = []
    for index, name in enumerate(grid.names):
        size = display_width(name, start)
        for row in grid.rows:
            cell = row[index]
            lines = cell.split("\n") if "\n" in cell else (cell,)
            size = max(size, min(max(display_width(line, start) for line in lines), limit))
        widths.append(size)
        start += size + 3
    return widths


def _is_too_wide(grid: _Grid, widths: list[int]) -> bool:
    return (
        len(widths) >= _VERTICAL_MIN_COLUMNS and grid.total <= _VERTICAL_MAX_ROWS and sum(widths) >= _VERTICAL_MIN_WIDTH
    )


class _Drawing:
    def __init__(self, grid: _Grid, widths: list[int], style: str, options: FormatOptions, limit: int | None) -> None:
        self._grid, self._widths, self._style, self._options, self._limit = grid, widths, style, options, limit
        self._frame = _FRAMES[style]
        digits = len(str(grid.total))
        self._number_width = digits + 2 if options.pretty_row_numbers else 0
        self._margin = " " * self._number_width
        first = _first_column(grid, style, options)
        self._starts = [first + sum(widths[:index]) + 3 * index for index in range(len(widths))]

    def lines(self) -> list[str]:
        """Returns the lines of the table."""
        grid, frame = self._grid, self._frame
        lines = self._head()
        for index, row in enumerate(grid.rows):
            if index == grid.gap:
                lines += [self._rule(frame.row_rule)] if frame.row_rule else []
                lines.append(self._gap())
            if index and frame.row_rule:
                lines.append(self._rule(frame.row_rule))
            lines += self._row(index, row)
        lines += self._foot()
        if grid.total >= self._options.pretty_max_rows:
            lines += [""] if self._style == "PrettySpace" else []
            lines.append(f"Showed {len(grid.rows)} out of {grid.total} rows.")
        return lines

    def _rule(self, strokes: tuple[str, str, str, str]) -> str:
        left, fill, middle, right = strokes
        return self._margin + left + middle.join(fill * (size + 2) for size in self._widths) + right

    def _gap(self) -> str:
        if self._style == "PrettySpace":
            length = sum(size + 3 for size in self._widths) - 1
            return self._margin + ("─ " * ((length + 1) // 2))[:length].rstrip()
        length = sum(size + 3 for size in self._widths) + 1
        return self._margin + "─ " * (length // 2)

    def _bold(self, text: str) -> str:
        return f"\033[1m{text}\033[0m" if self._options.pretty_color else text

    def _titles(self) -> list[str]:
        return [
            self._pad(self._bold(name), size - display_width(name), right)
            for name, size, right in zip(self._grid.names, self._widths, self._grid.right, strict=True)
        ]

    def _pad(self, text: str, blanks: int, right: bool, fill: str = " ") -> str:
        return fill * blanks + text if right else text + fill * blanks

    def _compact_titles(self, left: str, middle: str, right: str) -> str:
        heads = [
            "─" + self._pad(self._bold(name), size - display_width(name), to_right, "─") + "─"
            for name, size, to_right in zip(self._grid.names, self._widths, self._grid.right, strict=True)
        ]
        return self._margin + left + middle.join(heads) + right

    def _head(self) -> list[str]:
        if self._style == "PrettyCompact":
            return [self._compact_titles("┌", "┬", "┐")]
        if self._style == "PrettySpace":
            return [self._space_titles(), ""]
        titles = f"{self._margin}┃ {' ┃ '.join(self._titles())} ┃"
        return [self._rule(("┏", "━", "┳", "┓")), titles, self._rule(("┡", "━", "╇", "┩"))]

    def _space_titles(self) -> str:
        return self._margin + " " + "   ".join(self._titles())

    def _foot(self) -> list[str]:
        end = self._frame.end_rule
        if len(self._grid.rows) < FOOTER_ROWS:
            return [self._rule(end)] if end else []
        if self._style == "PrettyCompact":
            return [self._compact_titles("└", "┴", "┘")]
        if self._style == "PrettySpace":
            return ["", self._space_titles(), ""]
        titles = f"{self._margin}┃ {' ┃ '.join(self._titles())} ┃"
        return [self._rule(("┢", "━", "╈", "┪")), titles, self._rule(("┗", "━", "┻", "┛"))]

    def _row(self, index: int, row: tuple[str, ...]) -> list[str]:
        cells = [cell.split("\n") for cell in row]
        height = max(len(cell) for cell in cells)
        edge, bar = self._frame.edge, self._frame.bar
        lines = []
        for line in range(height):
            drawn = bar.join(self._cell(cell, column, line) for column, cell in enumerate(cells))
            lines.append(f"{self._number(index) if line == 0 else self._margin}{edge}{drawn}{edge}")
        lines[-1] += readable_number_tip(row[-1], self._grid.types[-1])
        return lines

    def _cell(self, lines: list[str], column: int, line: int) -> str:
        size = self._widths[column]
        if line >= len(lines):
            return " " * (size + 2)
        text, end = lines[line], "↴" if line + 1 < len(lines) else " "
        if self._limit is not None and display_width(text) > self._limit:
            text, end = _cut_to_width(text, self._limit), "⋯"
        blanks = max(size - display_width(text, self._starts[column]), 0)
        return (" " if line == 0 else "↳") + self._pad(text, blanks, self._grid.right[column]) + end

    def _number(self, index: int) -> str:
        if not self._number_width:
            return ""
        text = f"{self._grid.number(index)}. ".rjust(self._number_width)
        return f"\033[90m{text}\033[0m" if self._options.pretty_color else text


def _cut_to_width(text: str, limit: int) -> str:
    used = 0
    for index, char in enumerate(text):
        used += _character_width(char)
        if used > limit:
            return text[:index]
    return text


# Vertical -------------------------------------------------------------------------------------------------------------


def write_vertical(
    columns: Columns, batches: Batches, options: FormatOptions, statistics: RunStatistics | None
) -> Iterator[bytes]:
    """Writes each value on a line of its own."""
    return _write_vertical_grid(_collect(columns, batches, options, ends=False), options)


def _write_vertical_grid(grid: _Grid, options: FormatOptions) -> Iterator[bytes]:
    size = max((display_width(name) for name in grid.names), default=0) + 2
    labels = [
        (f"\033[1m{name}:\033[0m" if options.pretty_color else f"{name}:") + " " * (size - display_width(name) - 1)
        for name in grid.names
    ]
    for index, row in enumerate(grid.rows):
        title = f"Row {index + 1}:"
        # The line is as long as the next row's title would be, as in ClickHouse.
        lines = ([""] if index else []) + [title, "─" * len(f"Row {index + 2}:")]
        for label, cell, type_ in zip(labels, row, grid.types, strict=True):
            lines.append(label + cell + readable_number_tip(cell, type_))
        yield ("\n".join(lines) + "\n").encode()
    if grid.total > len(grid.rows):
        yield f"\nShowed first {len(grid.rows)}.\n".encode()
