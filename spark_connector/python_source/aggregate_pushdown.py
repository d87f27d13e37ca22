"""Aggregates on the servers: each aggregates the rows of a task, and Spark merges the results.

All tasks read one state of the table, as in every scan (``engine.scan.leases``). Only a row for each group of a task
goes to Spark. The partial results are such that their merging cannot differ from what Spark makes of all rows. Sums of
64-bit integers are decimals, which do not overflow. NaN, the greatest number only in Spark, is counted apart. An
average is sum and count. The types are Spark's, and so is an overflow.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from parts.common.errors import UserError
from parts.types import (
    DataType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    IPv4Type,
    IPv6Type,
    LowCardinalityType,
    UUIDType,
    strip_nullable,
)
from spark_connector.python_source.session_options import read_session_options
from spark_connector.shared.options import format_column_list, parse_options, quote_identifier
from spark_connector.shared.transport import Transport
from spark_connector.shared.type_mapping import build_readable_schema, describe_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType as SparkType

_CALL = re.compile(r"\s*(\w+)\s*\(\s*(?:`((?:[^`]|``)+)`|(.*?))\s*\)\s*")
_FUNCTIONS = ("count", "sum", "min", "max", "avg")
_MOST_DIGITS, _MOST_SCALE = 28, 11
"""Limits of decimals whose averages can be computed in Spark's decimals without rounding twice."""
_Merge = Callable[[Sequence["Column"]], "Column"]


@dataclass(frozen=True)
class _Part:
    """The partial results that a server computes for an aggregate, and how Spark merges them."""

    columns: Sequence[str]
    merge: _Merge


def aggregate(
    spark: SparkSession,
    options: Mapping[str, str],
    group_by: Sequence[str] = (),
    *,
    aggregates: Mapping[str, str],
    filter: str = "",
) -> DataFrame:
    """Returns the same frame as ``groupBy(*group_by)`` and aggregating, computed by the servers.

    Spark merges one row for each group of a task. ``options`` are those of the format ``pando``. ``aggregates`` maps
    names of the result to ``count(*)`` or ``count``, ``sum``, ``min``, ``max``, ``avg`` of a column. ``filter`` is a
    condition of ClickHouse.

    Spark refuses what it would refuse itself. Besides, it raises ``UserError`` 36, 16 for a missing column, 48 for what
    cannot be merged.
    """
    wanted = {name: _parse_call(text) for name, text in aggregates.items()}
    if not wanted:
        raise UserError("BAD_ARGUMENTS", "Format pando: 'aggregates' is empty: give it names and calls like 'sum(x)'")
    given = {name: value for name, value in options.items() if name.lower() not in ("columns", "filter")}
    parsed = parse_options(options, read_session_options(spark))
    if parsed.query or parsed.task_query:
        raise UserError("BAD_ARGUMENTS", "Format pando: aggregate() is for a 'table', without 'query' and 'task_query'")
    names = list(dict.fromkeys([*group_by, *(column for _, column in wanted.values() if column != "*")]))
    with Transport(parsed, is_first=True) as transport:
        columns = describe_table(transport)
    types = {column.name: column.type for column in columns}
    schema = build_readable_schema(columns, names, parsed.full_name, parsed.nanoseconds)
    rows = spark.createDataFrame([], schema if names else "none INT")
    result = rows.groupBy(*map(_column, group_by)).agg(
        *(_spark_aggregate(*call).alias(name) for name, call in wanted.items())
    )
    parts = [_make_part(*call, types, result.schema[name].dataType) for name, call in wanted.items()]
    conditions = " AND ".join(f"({text}\n)" for text in (parsed.filter.strip(), filter.strip()) if text)
    prefix = "_"
    while any(column.name.startswith(prefix) for column in columns):  # in ClickHouse an alias would hide a column
        prefix += "_"
    keys = {name: f"{prefix}key{number}" for number, name in enumerate(group_by)}
    request = {
        "task_query": _build_query(keys, parts, prefix),
        "columns": format_column_list(names),
        "filter": conditions,
    }
    frame = spark.read.format("pando").options(**{**given, **request}).load()
    merged, position = [], 0
    for name, part in zip(wanted, parts, strict=True):
        own = [_column(f"{prefix}{position + number}") for number in range(len(part.columns))]
        merged.append(part.merge(own).cast(result.schema[name].dataType).alias(name))
        position += len(own)
    whole = frame.groupBy(*map(_column, keys.values())).agg(*merged)
    return whole.select(*(_column(key).alias(name) for name, key in keys.items()), *map(_column, wanted))


def _parse_call(text: str) -> tuple[str, str]:
    """Returns the function and its column, or ``*``."""
    found = _CALL.fullmatch(text)
    if found is None or found[1].lower() not in _FUNCTIONS:
        raise UserError(
            "NOT_IMPLEMENTED" if found else "BAD_ARGUMENTS",
            f"Format pando: {text!r} is not one of {', '.join(f'{name}(column)' for name in _FUNCTIONS)} or count(*): "
            "aggregate the frame of the table in Spark, or by the servers alone with the option 'query'",
        )
    return found[1].lower(), found[2].replace("``", "`") if found[2] else found[3]


def _build_query(keys: Mapping[str, str], parts: Sequence[_Part], prefix: str) -> str:
    """Builds the query of a task. Without rows it has no group, also where there are no keys."""
    columns = [column for part in parts for column in part.columns]
    items = [f"{quote_identifier(name)} AS {key}" for name, key in keys.items()]
    items += [f"{column} AS {prefix}{number}" for number, column in enumerate(columns)]
    groups = f"GROUP BY {', '.join(map(quote_identifier, keys))}" if keys else ""
    return f"SELECT {', '.join(items)} FROM slot {groups} HAVING count() > 0"


def _column(name: str) -> Column:
    from pyspark.sql.functions import col

    return col("`" + name.replace("`", "``") + "`")


def _spark_aggregate(function: str, name: str) -> Column:
    """Returns the aggregate as Spark computes it."""
    from pyspark.sql import functions

    if name == "*":
        return functions.count(functions.lit(1))
    column: Column = getattr(functions, function)(_column(name))
    return column


# -- the parts of aggregates -------------------------------------------------------------------------------------------


def _make_part(function: str, name: str, types: Mapping[str, DataType], result: SparkType) -> _Part:
    if function == "count":
        return _make_count("" if name == "*" else quote_identifier(name))
    type_ = strip_nullable(types[name])
    if isinstance(type_, LowCardinalityType):
        type_ = strip_nullable(type_.inner)
    if function in ("min", "max"):
        return _make_extreme(function, quote_identifier(name), type_)
    if not isinstance(type_, IntegerType | FloatType | DecimalType):
        raise UserError(
            "NOT_IMPLEMENTED", f"Format pando: {function}({name}) of {types[name]} is not merged; aggregate it in Spark"
        )
    total = _make_sum(quote_identifier(name), type_)
    return total if function == "sum" else _make_average(total, _make_count(quote_identifier(name)), type_, result)


def _make_count(column: str) -> _Part:
    from pyspark.sql.functions import coalesce, lit, sum

    return _Part([f"toInt64(count({column}))"], lambda parts: coalesce(sum(parts[0]), lit(0)))


def _make_sum(column: str, type_: DataType) -> _Part:
    from pyspark.sql.functions import sum

    text = f"sum({column})"
    if isinstance(type_, DecimalType):
        text = f"sum(toDecimal128({column}, {type_.scale}))"
    elif isinstance(type_, IntegerType):
        text = f"toInt64(sum({column}))" if type_.bits <= 32 else f"sum(toDecimal128({column}, 0))"
    return _Part([text], lambda parts: sum(parts[0]))


def _make_extreme(function: str, column: str, type_: DataType) -> _Part:
    from pyspark.sql import functions

    whole = getattr(functions, function)
    if isinstance(type_, FloatType):
        nan = functions.lit(float("nan"))

        def merge(parts: Sequence[Column]) -> Column:
            extreme, has_nan = whole(parts[0]), functions.max(parts[1]) > 0
            if function == "max":
                return functions.when(has_nan, nan).otherwise(extreme)
            return functions.coalesce(extreme, functions.when(has_nan, nan))

        return _Part([f"{function}(if(isNaN({column}), NULL, {column}))", f"max(isNaN({column}))"], merge)
    if type_.is_composite:
        raise UserError("NOT_IMPLEMENTED", f"Format pando: {function} of {type_} is not merged; aggregate it in Spark")
    if isinstance(type_, EnumType | UUIDType | IPv4Type | IPv6Type):
        column = f"toString({column})"
    return _Part([f"{function}({column})"], lambda parts: whole(parts[0]))


def _make_average(total: _Part, count: _Part, type_: DataType, result: SparkType) -> _Part:
    from pyspark.sql.functions import when

    def of_numbers(parts: Sequence[Column]) -> Column:
        rows = count.merge(parts[1:])
        return total.merge(parts[:1]).cast("double") / when(rows > 0, rows)

    def of_decimals(parts: Sequence[Column]) -> Column:
        """Divides the remainder apart: the digits of both would not fit into one quotient."""
        rows = count.merge(parts[1:]).cast("decimal(15,0)")
        rows, whole = when(rows > 0, rows), total.merge(parts[:1])
        rest = whole % rows
        fraction = rest.cast(f"decimal({15 + scale},{scale})") / rows
        return ((whole - rest) / rows).cast(f"decimal({digits - scale},0)") + fraction.cast(
            f"decimal({result.scale + 1},{result.scale})"
        )

    if isinstance(type_, FloatType) or (isinstance(type_, IntegerType) and (type_.signed or type_.bits < 64)):
        return _Part([*total.columns, *count.columns], of_numbers)
    digits, scale = (type_.precision, type_.scale) if isinstance(type_, DecimalType) else (20, 0)
    if digits > _MOST_DIGITS or scale > _MOST_SCALE:
        raise UserError(
            "NOT_IMPLEMENTED", f"Format pando: the average of {type_} is not merged: ask for its sum and its count"
        )
    return _Part([*total.columns, *count.columns], of_decimals)
