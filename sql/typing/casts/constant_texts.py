"""Constant strings beside values of another type (``d >= '2020-01-01'``, ``id IN ('5')``).

Such a string is a value of the other type. ClickHouse parses it once, before the query runs; so an invalid string is an
error even if no row is read. The accepted spellings are narrower than those of CAST: a Date takes no time of day.
"""

from __future__ import annotations

from parts.types import DataType, strip_nullable
from sql.typing.casts.casts import cast_to
from sql.typing.duckdb.sql_fragments import Fragment
from sql.typing.scalars.all_scalars import scalar_of
from sql.typing.typed_expressions import Typed


def convert_constant_text(value: Typed, target: DataType, zone: str) -> Fragment:
    """Returns a constant string as a value of ``target``.

    Raises ``UserError`` with the code of ClickHouse's parser of that type (53, 38, 41, 72, 376, 467, 675, 676).
    """
    if isinstance(value.value, str):
        check_constant_text(value.value, target)
    return cast_to(value, target, zone)


def check_constant_text(text: str, target: DataType) -> None:
    """Raises the errors of :func:`convert_constant_text`."""
    goal = strip_nullable(target)
    scalar = scalar_of(goal)
    if scalar is not None:
        scalar.check_constant(text, goal)
