"""Orders rows as a table takes them best: ``prepare(df, url, table)``.

An INSERT makes a part of each partition that its block has rows of, so rows of a partition belong into few tasks. And a
repeated task must cut the same blocks, so its rows need a stable order
(``spark_connector.python_source.batch_writer``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql import types as spark

from parts.common.errors import UserError
from spark_connector.shared.options import Options, parse_options
from spark_connector.shared.transport import Transport

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KEYS = """
SELECT partition_key, sorting_key FROM system.tables
WHERE database = {database:String} AND name = {table:String} FORMAT JSONEachRow
"""
_NAME = re.compile(r"`?(\w+)`?\Z")
_CALL = re.compile(r"(\w+)\(`?(\w+)`?(?:, (\d+))?\)\Z")
_REMAINDER = re.compile(r"`?(\w+)`? % (\d+)\Z")
_PERIODS: dict[str, Callable[[Column], Column]] = {
    "toDate": f.to_date,
    "toYYYYMM": lambda column: f.trunc(column, "month"),
    "toYYYYMMDD": f.to_date,
    "toYear": f.year,
    "toMonth": f.month,
    "toMonday": lambda column: f.trunc(column, "week"),
    "toStartOfMonth": lambda column: f.trunc(column, "month"),
    "toStartOfQuarter": lambda column: f.trunc(column, "quarter"),
    "toStartOfYear": lambda column: f.trunc(column, "year"),
    "toStartOfDay": f.to_date,
}
_OF_NUMBERS: dict[str, Callable[[Column, int], Column]] = {
    "modulo": lambda column, number: column % number,
    "intDiv": lambda column, number: f.floor(column / number),
}


def prepare(df: DataFrame, url: str, table: str, partitions: int | None = None, **options: str) -> DataFrame:
    """Returns the same rows grouped by partition of the table, and sorted.

    Without partitions, rows of neighbouring keys are together. Rows are sorted by the table's keys and then by all
    other columns. ``partitions`` is how many tasks write them. ``url``, ``table`` and ``options`` are those of the
    format ``pando``. A key that Spark cannot compute (a hash) is left out: the server sorts and divides every block in
    any case.

    Raises ``UserError`` 60 for a table that does not exist.
    """
    parsed = parse_options({**options, "url": url, "table": table})
    partition_key, sorting_key = _read_keys(parsed)
    parts = [column for item in partition_key if (column := _make_column(df, item)) is not None]
    order = list(_list_leading_columns(df, sorting_key))
    count = () if partitions is None else (partitions,)
    if parts:
        df = df.repartition(*count, *parts)
    elif order:
        df = df.repartitionByRange(*count, *order)
    elif partitions is not None:
        df = df.repartition(partitions)
    others = [field.name for field in df.schema if _has_order(field.dataType)]
    return df.sortWithinPartitions(*parts, *order, *(f.col(_quote(name)) for name in others))


def _read_keys(options: Options) -> tuple[list[str], list[str]]:
    """Returns the expressions of the partition key and of the sorting key."""
    names = {"param_database": options.database, "param_table": options.table}
    with Transport(options, is_first=True) as transport:
        answer = transport.try_servers(options.urls, lambda url: transport.query(url, _KEYS, names)[0])
    if not answer.strip():
        raise UserError("UNKNOWN_TABLE", f"Table {options.full_name} does not exist")
    row = json.loads(answer)
    return list(_split_items(row["partition_key"])), list(_split_items(row["sorting_key"]))


def _split_items(key: str) -> Iterator[str]:
    """Yields the pieces of ``a, f(b, 1)``."""
    depth, begin = 0, 0
    for position, letter in enumerate(key):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            yield key[begin:position].strip()
            begin = position + 1
    if key[begin:].strip():
        yield key[begin:].strip()


def _list_leading_columns(df: DataFrame, key: list[str]) -> Iterator[Column]:
    """Yields the first expressions that Spark can compute: behind another one the order means nothing."""
    for item in key:
        column = _make_column(df, item)
        if column is None:
            return
        yield column


def _make_column(df: DataFrame, item: str) -> Column | None:
    if named := _NAME.match(item):
        return _find_column(df, named[1])
    called = _CALL.match(_REMAINDER.sub(r"modulo(\1, \2)", item))
    if called is None:
        return None
    column = _find_column(df, called[2])
    if column is None:
        return None
    if called[3] is None:
        return _PERIODS[called[1]](column) if called[1] in _PERIODS else None
    return _OF_NUMBERS[called[1]](column, int(called[3])) if called[1] in _OF_NUMBERS else None


def _find_column(df: DataFrame, name: str) -> Column | None:
    fields = {field.name: field.dataType for field in df.schema}
    return f.col(_quote(name)) if name in fields and _has_order(fields[name]) else None


def _quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _has_order(type_: spark.DataType) -> bool:
    if isinstance(type_, spark.ArrayType):
        return _has_order(type_.elementType)
    if isinstance(type_, spark.StructType):
        return all(_has_order(field.dataType) for field in type_)
    return not isinstance(type_, (spark.MapType, spark.VariantType))
