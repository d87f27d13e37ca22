"""Makes a view of every table of a database in a Spark session."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from parts.common.errors import UserError
from parts.types import parse_type
from spark_connector.shared.options import parse_options
from spark_connector.shared.transport import Transport
from spark_connector.shared.type_mapping import TableColumn, build_readable_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS = """
SELECT table, name, type, default_kind FROM system.columns
WHERE database = {database:String} AND table IN
    (SELECT name FROM system.tables
     WHERE database = {database:String} AND (engine LIKE '%MergeTree' OR engine = 'Distributed')
       AND NOT startsWith(name, '.inner'))
ORDER BY table, position FORMAT JSONEachRow
"""


def register(spark: SparkSession, url: str, database: str = "default", prefix: str = "", **options: str) -> list[str]:
    """Makes a temporary view of each MergeTree table of ``database``; returns the views' names.

    Tables may be replicated or in shards. The inner tables of materialized views are left out. ``url`` and ``options``
    are those of the format ``pando``. One query asks for the columns of all tables. A view has the columns that its
    table has now, and the rows that are there when it is used.

    Raises ``UserError`` 36 for options, 81 (UNKNOWN_DATABASE) for a database without such tables, 48 for a column type
    that Spark lacks.
    """
    given = {**options, "url": url, "database": database}
    parsed = parse_options({**given, "table": "columns"})
    with Transport(parsed, is_first=True) as transport:
        answer = transport.try_servers(
            parsed.urls, lambda server: transport.query(server, _COLUMNS, {"param_database": database})[0]
        )
    tables: dict[str, list[TableColumn]] = {}
    for row in map(json.loads, answer.splitlines()):
        column = TableColumn(row["name"], parse_type(row["type"]), row["default_kind"])
        tables.setdefault(row["table"], []).append(column)
    if not tables:
        raise UserError("UNKNOWN_DATABASE", f"Format pando: there are no MergeTree tables in a database {database!r}")
    for table, columns in tables.items():
        reader = spark.read.format("pando").options(**given, table=table)
        schema = build_readable_schema(columns, (), f"{database}.{table}", parsed.nanoseconds)
        reader.schema(schema).load().createOrReplaceTempView(prefix + table)
    return [prefix + table for table in tables]
