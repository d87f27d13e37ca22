"""clickhouse-connect and its SQLAlchemy dialect against a server; run by its own Python: ``… script.py port``."""

from __future__ import annotations

import datetime as dt
import decimal
import sys
import uuid

import clickhouse_connect
import pandas as pd
import pyarrow as pa
import sqlalchemy as sa
from clickhouse_connect import cc_sqlalchemy  # noqa: F401
from clickhouse_connect.cc_sqlalchemy.datatypes.sqltypes import Float64, LowCardinality, String, UInt32
from clickhouse_connect.cc_sqlalchemy.ddl.tableengine import MergeTree
from clickhouse_connect.driver.exceptions import DatabaseError

PORT = int(sys.argv[1])
TYPES = """
    u8 UInt8, i64 Int64, f Float64, s String, n Nullable(Int32), lc LowCardinality(String), d Date, t DateTime,
    t64 DateTime64(3), dec Decimal(12, 3), id UUID, e Enum8('red' = 1, 'blue' = 2), b Bool, a Array(Int32),
    m Map(String, UInt32), tup Tuple(Int32, String), fs FixedString(3), ip IPv4
"""
ROW = (
    200, -(2**60), 1.5, "naïve", None, "low", dt.date(2020, 2, 29), dt.datetime(2020, 2, 29, 12, 30, 5),
    dt.datetime(2020, 2, 29, 12, 30, 5, 250_000), decimal.Decimal("12.345"),
    uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"), "blue", True, [1, -2], {"x": 1}, (7, "seven"), b"abc",
    "10.0.0.1",
)  # fmt: skip


def queries(client: clickhouse_connect.driver.client.Client) -> None:
    result = client.query("SELECT number AS n, toString(number) AS s FROM numbers(3)")
    assert result.column_names == ("n", "s")
    assert result.result_rows == [(0, "0"), (1, "1"), (2, "2")]
    bound = client.query("SELECT {a:UInt32} AS c", parameters={"a": 5})
    assert bound.first_row == (5,)
    assert client.query("SELECT %(b)s AS c", parameters={"b": "it's"}).first_row == ("it's",)
    assert client.command("SELECT 7") == 7
    assert client.query("SELECT 1 WHERE 0").result_rows == []
    assert client.raw_query("SELECT 1 AS x", fmt="JSONEachRow") == b'{"x":1}\n'
    settings = client.query("SELECT getSetting('max_block_size')", settings={"max_block_size": 100})
    assert settings.first_row == (100,)
    problem = ""
    try:
        client.query("SELECT nothing FROM numbers(1)")
    except DatabaseError as error:
        problem = str(error)
    assert "code: 47" in problem, problem


def inserts(client: clickhouse_connect.driver.client.Client) -> None:
    client.command(f"CREATE TABLE typed ({TYPES}) ENGINE MergeTree ORDER BY u8")
    names = [piece.split()[0] for piece in client.query("DESCRIBE TABLE typed").result_columns[0]]
    client.insert("typed", [ROW], column_names=names)
    (row,) = client.query("SELECT * FROM typed").result_rows
    for name, expected, got in zip(names, ROW, row, strict=True):
        got = str(got) if name == "ip" else got
        assert got == expected or got.replace(tzinfo=None) == expected, (name, expected, got)
    client.insert("typed", [(1, "x")], column_names=["u8", "s"], column_type_names=["UInt8", "String"])
    assert client.command("SELECT count() FROM typed") == 2
    client.command("CREATE TABLE frames (k UInt32, v Float64, s Nullable(String)) ENGINE MergeTree ORDER BY k")
    client.insert_df("frames", pd.DataFrame({"k": [1, 2], "v": [0.5, 1.5], "s": ["a", None]}))
    client.insert_arrow("frames", pa.table({"k": pa.array([3], pa.uint32()), "v": [2.5], "s": ["c"]}))
    client.raw_insert("frames", ["k", "v", "s"], b"4,3.5,d\n", fmt="CSV")
    frame = client.query_df("SELECT * FROM frames ORDER BY k")
    assert frame["k"].tolist() == [1, 2, 3, 4]
    assert frame["v"].sum() == 8.0
    assert frame["s"].isna().tolist() == [False, True, False, False]
    table = client.query_arrow("SELECT k, s FROM frames ORDER BY k", use_strings=True)
    assert table.column("s").to_pylist() == ["a", None, "c", "d"]
    assert client.query_np("SELECT v FROM frames ORDER BY k").ravel().tolist() == [0.5, 1.5, 2.5, 3.5]


def streams(client: clickhouse_connect.driver.client.Client) -> None:
    with client.query_row_block_stream("SELECT number FROM numbers(200000)") as stream:
        assert sum(len(block) for block in stream) == 200_000
    with client.query_rows_stream("SELECT number FROM numbers(1000)") as stream:
        assert sum(row[0] for row in stream) == 499_500
    with client.query_df_stream("SELECT number FROM numbers(100000)") as stream:
        assert sum(len(frame) for frame in stream) == 100_000
    with client.query_arrow_stream("SELECT number FROM numbers(100000)") as stream:
        assert sum(batch.num_rows for batch in stream) == 100_000


def compression() -> None:
    for method in ("lz4", "zstd", "gzip", True, False):
        client = clickhouse_connect.get_client(host="127.0.0.1", port=PORT, compress=method)
        client.command("CREATE TABLE IF NOT EXISTS squeezed (k UInt64) ENGINE MergeTree ORDER BY k")
        client.insert("squeezed", [[number] for number in range(10_000)], column_names=["k"])
        assert client.query("SELECT number FROM numbers(50000)").row_count == 50_000
        client.close()


def sqlalchemy() -> None:
    engine = sa.create_engine(f"clickhousedb://default:@127.0.0.1:{PORT}/default")
    with engine.begin() as connection:
        assert connection.execute(sa.text("SELECT 1 + 1")).scalar() == 2
    metadata = sa.MetaData()
    people = sa.Table(
        "people",
        metadata,
        sa.Column("id", UInt32),
        sa.Column("name", String),
        sa.Column("city", LowCardinality(String)),
        sa.Column("height", Float64),
        MergeTree(order_by="id"),
    )
    metadata.create_all(engine)
    with engine.begin() as connection:
        rows = [
            {"id": 1, "name": "Ada", "city": "London", "height": 1.6},
            {"id": 2, "name": "Grace", "city": "New York", "height": 1.7},
            {"id": 3, "name": "Alan", "city": "London", "height": 1.8},
        ]
        connection.execute(sa.insert(people), rows)
        query = sa.select(people.c.city, sa.func.count(), sa.func.max(people.c.height)).group_by(people.c.city)
        got = sorted(tuple(row) for row in connection.execute(query.order_by(people.c.city)))
        assert got == [("London", 2, 1.8), ("New York", 1, 1.7)], got
        other = people.alias("other")
        pairs = sa.select(people.c.name, other.c.name).join(other, people.c.city == other.c.city)
        assert len(connection.execute(pairs.where(people.c.id < other.c.id)).fetchall()) == 1
    inspector = sa.inspect(engine)
    assert "people" in inspector.get_table_names()
    assert inspector.has_table("people")
    assert not inspector.has_table("nobody")
    assert "default" in inspector.get_schema_names()
    assert [column["name"] for column in inspector.get_columns("people")] == ["id", "name", "city", "height"]
    reflected = sa.Table("people", sa.MetaData(), autoload_with=engine)
    assert reflected.engine.name == "MergeTree"
    metadata.drop_all(engine)


def main() -> None:
    client = clickhouse_connect.get_client(host="127.0.0.1", port=PORT)
    assert client.ping()
    for part in (queries, inserts, streams):
        part(client)
        print(part.__name__, "ok", flush=True)
    client.close()
    for lone in (compression, sqlalchemy):
        lone()
        print(lone.__name__, "ok", flush=True)


main()
