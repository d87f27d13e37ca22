"""Creates a table for a data frame: ``create_table(df, url, table, order_by="id")``.

Spark's types become those in which they are written and read back unchanged. A nullable column becomes Nullable, except
for columns that a key names, and arrays, maps and structs, which have no NULL in ClickHouse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import types as spark

from parts.common.errors import PandoError, UserError, make_error_from_code
from spark_connector.shared.options import Options, parse_options, quote_identifier
from spark_connector.shared.transport import Transport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REPLICATED = "Replicated"
_WORD = re.compile(r"\w+")


def create_table(
    df_or_schema: DataFrame | spark.StructType,
    url: str,
    table: str,
    *,
    engine: str = "",
    order_by: str | Sequence[str] = (),
    partition_by: str = "",
    zookeeper_path: str = "",
    types: Mapping[str, str] | None = None,
    settings: Mapping[str, object] | None = None,
    if_not_exists: bool = False,
    **options: str,
) -> str:
    """Creates the table on every server of ``url``, and returns the statement.

    ``engine`` is MergeTree or ReplicatedMergeTree; by default the latter if there are several servers or a
    ``zookeeper_path`` (by default ``/clickhouse/tables/{shard}/<database>/<table>``). ``order_by`` names columns, or is
    an expression of SQL like ``partition_by``. ``types`` gives ClickHouse's type of some columns, ``settings`` are
    those of the table, ``options`` those of the format ``pando``.

    Raises ``UserError`` 48 for a type that ClickHouse lacks, and what a server raises; the servers asked before that
    one have the table then.
    """
    schema = df_or_schema if isinstance(df_or_schema, spark.StructType) else df_or_schema.schema
    parsed = parse_options({**options, "url": url, "table": table})
    is_alone = len(parsed.urls) == 1 and not zookeeper_path
    engine = engine or ("MergeTree" if is_alone else _REPLICATED + "MergeTree")
    if not engine.startswith(_REPLICATED) and (zookeeper_path or len(parsed.urls) > 1):
        raise UserError(
            "BAD_ARGUMENTS",
            f"Format pando: a {engine} table is on one server and knows no ZooKeeper, and 'url' names "
            f"{len(parsed.urls)}{', zookeeper_path one' if zookeeper_path else ''}; use ReplicatedMergeTree",
        )
    key = (
        order_by
        if isinstance(order_by, str)
        else f"({', '.join(map(quote_identifier, order_by))})"
        if order_by
        else "tuple()"
    )
    sql = _build_statement(
        parsed,
        _build_columns(schema, f"{key} {partition_by}", types or {}),
        if_not_exists,
        _build_engine(engine, zookeeper_path or f"/clickhouse/tables/{{shard}}/{parsed.database}/{parsed.table}"),
        f" PARTITION BY {partition_by}" if partition_by else "",
        f" ORDER BY {key}",
        f" SETTINGS {', '.join(f'{name} = {_format_literal(value)}' for name, value in settings.items())}"
        if settings
        else "",
    )
    _run_everywhere(parsed, sql)
    return sql


def to_clickhouse_type(type_: spark.DataType, is_nullable: bool) -> str:
    """Returns ClickHouse's type for a Spark type. Raises ``UserError`` 48 if it lacks one."""
    match type_:
        case spark.ArrayType():
            return f"Array({to_clickhouse_type(type_.elementType, type_.containsNull)})"
        case spark.MapType():
            value = to_clickhouse_type(type_.valueType, type_.valueContainsNull)
            return f"Map({to_clickhouse_type(type_.keyType, False)}, {value})"
        case spark.StructType():
            fields = (
                f"{quote_identifier(field.name)} {to_clickhouse_type(field.dataType, field.nullable)}"
                for field in type_
            )
            return f"Tuple({', '.join(fields)})"
        case spark.DecimalType():
            name = f"Decimal({type_.precision}, {type_.scale})"
        case spark.VarcharType() | spark.CharType():
            name = "String"
        case _:
            name = _TYPES.get(type(type_), "")
    if not name:
        advice = "; cast it to TIMESTAMP" if isinstance(type_, spark.TimestampNTZType) else ""
        raise UserError("NOT_IMPLEMENTED", f"Spark's type {type_.simpleString()} has no counterpart{advice}")
    return f"Nullable({name})" if is_nullable else name


_TYPES: dict[type[spark.DataType], str] = {
    spark.ByteType: "Int8", spark.ShortType: "Int16", spark.IntegerType: "Int32", spark.LongType: "Int64",
    spark.FloatType: "Float32", spark.DoubleType: "Float64", spark.BooleanType: "Bool", spark.StringType: "String",
    spark.BinaryType: "String", spark.DateType: "Date32", spark.TimestampType: "DateTime64(6)",
}  # fmt: skip


def _build_columns(schema: spark.StructType, keys: str, types: Mapping[str, str]) -> str:
    unknown = sorted(types.keys() - set(schema.fieldNames()))
    if unknown:
        raise UserError("NO_SUCH_COLUMN_IN_TABLE", f"'types' names columns that are not there: {', '.join(unknown)}")
    words = set(_WORD.findall(keys))
    in_keys = {name for name in schema.fieldNames() if name in words or quote_identifier(name) in keys}
    return ", ".join(
        f"{quote_identifier(f.name)} "
        f"{types.get(f.name) or to_clickhouse_type(f.dataType, f.nullable and f.name not in in_keys)}"
        for f in schema
    )


def _build_statement(options: Options, columns: str, if_not_exists: bool, *clauses: str) -> str:
    condition = "IF NOT EXISTS " if if_not_exists else ""
    return f"CREATE TABLE {condition}{options.quoted_name} ({columns}) ENGINE = {''.join(clauses)}"


def _build_engine(engine: str, path: str) -> str:
    return f"{engine}({_format_literal(path)}, '{{replica}}')" if engine.startswith(_REPLICATED) else engine


def _format_literal(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(int(value)) if isinstance(value, bool) else str(value)


def _run_everywhere(options: Options, sql: str) -> None:
    done: list[str] = []
    with Transport(options, is_first=True) as transport:
        for url in options.urls:
            try:
                transport.try_servers((url,), lambda server: transport.query(server, sql))
            except PandoError as error:
                made = f". {', '.join(done)} made it: go on with if_not_exists=True, or drop it there" if done else ""
                raise make_error_from_code(
                    error.code, f"{options.full_name} is not made on {url}: {error.message}{made}"
                ) from None
            done.append(url)
