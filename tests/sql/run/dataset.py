"""Tables of all common types in both engines, and one query run by both.

The data is made by ClickHouse's own SQL (chdb) from ``numbers``, so that it is the same everywhere, and read into
Pando's storage types from its text."""

from __future__ import annotations

import io
import math
import re
from dataclasses import dataclass

import pyarrow as pa

from parts.common.errors import UserError
from parts.table.table_description import Column, TableSchema
from parts.types import DataType, parse_type
from sql.formats.registry import read_blocks, write_blocks
from sql.relations import UNKNOWN_POSITIONS, ArrowRelation, PartsRelation, TablePositions
from sql.run.query_engine import QueryEngine

TABLES: dict[str, tuple[str, str]] = {
    "types": (
        """id UInt32, u8 UInt8, u16 UInt16, u64 UInt64, i8 Int8, i16 Int16, i32 Int32, i64 Int64, f32 Float32,
        f64 Float64,
        b Bool, dec Decimal(12, 3), dec18 Decimal(18, 2), s String, fs FixedString(3), d Date, d32 Date32, dt DateTime,
        dtm DateTime('Europe/Moscow'), dt64 DateTime64(3), uid UUID, e Enum8('red' = 1, 'green' = 2, 'blue' = -3),
        ip IPv4, ns Nullable(String), ni Nullable(Int32), nf Nullable(Float64), lc LowCardinality(String),
        lcn LowCardinality(Nullable(String)), arr Array(Int32), sarr Array(String), m Map(String, UInt32),
        t Tuple(UInt8, String), nt Tuple(x Int32, y String)""",
        """SELECT number, number % 256, number * 37 % 65536, number * 1000000007 * 7919, toInt8(number % 200 - 100),
        toInt16(number) - 50, toInt32(number * 31337 % 100000) - 50000, toInt64(number) * -123456789, number / 7,
        if(number % 10 = 9, -1, 1) * number * 1.25, number % 2 = 0, toDecimal64(number, 3) * 11 / 8,
        toDecimal64(number * 99, 2), concat('str', toString(number % 13), if(number % 5 = 0, ' Über', '')),
        concat('f', toString(number % 10)), toDate('2019-12-25') + number, toDate32('1969-12-20') + number,
        toDateTime('2020-01-01 00:00:00') + number * 7777, toDateTime('2020-06-01 12:00:00') + number * 4321,
        toDateTime64('2021-02-03 04:05:06.789', 3) + number * 13.37,
        toUUID(concat('61f0c404-5cb3-11e7-907b-a6006ad3d', leftPad(toString(number), 3, '0'))), [1, 2, -3][number %
        3 + 1], toIPv4(concat('10.0.', toString(number % 4), '.', toString(number % 250))), if(number % 4 = 0,
        NULL, concat('n', toString(number % 6))), if(number % 3 = 0, NULL, toInt32(number) - 20), if(number % 7 =
        0, NULL, number / 3), concat('lc', toString(number % 3)), if(number % 5 = 0, NULL, concat('lcn',
        toString(number % 2))), range(number % 5)::Array(Int32), arrayMap(x -> concat('v', toString(x)),
        range(number % 3)), map('a', number % 9, 'k' || toString(number % 2), 7), (number % 100, concat('t',
        toString(number % 3))), (toInt32(number) * 3, 'y') FROM numbers(120)""",
    ),
    "visits": (
        "day Date, user UInt32, url String, duration Int32, region LowCardinality(String), revenue Decimal(10, 2)",
        """SELECT toDate('2024-01-01') + number % 60, number * 2654435761 % 97,
        concat('https://www.site', toString(number % 7),
        '.com/p/', toString(number % 31), '?q=', toString(number % 5)), toInt32(number * 7919 % 601) - 30,
        ['eu', 'us', 'asia'][number % 3 + 1], toDecimal64(number % 1000, 2) / 3 FROM numbers(2000)""",
    ),
    "users": (
        "user UInt32, name String, age UInt8, city Nullable(String)",
        """SELECT number * 3, concat('user_', toString(number)), 18 + number % 50, if(number % 6 = 0, NULL,
        ['Berlin', 'Paris', 'Rome', 'Oslo'][number % 4 + 1]) FROM numbers(40)""",
    ),
    "quotes": (
        "symbol String, at DateTime, price Float64",
        """SELECT ['A', 'B', 'C'][number % 3 + 1], toDateTime('2024-03-01 10:00:00') + number * 60, 100 + number % 17
        FROM numbers(60)""",
    ),
    "trades": (
        "symbol String, at DateTime, amount UInt16",
        """SELECT ['A', 'B', 'D'][number % 3 + 1], toDateTime('2024-03-01 09:59:30') + number * 95, number + 1
        FROM numbers(30)""",
    ),
    "floats": (
        "id UInt8, x Float64",
        "SELECT number, [1.5, nan, -2.5, inf, 0, -inf, nan, 2.5, 3.5][number + 1] FROM numbers(9)",
    ),
    "zeros": (
        "id UInt8, x Float64, f Float32, n Nullable(Float64), a Array(Float64)",
        """SELECT number, [0., -0., nan, 1.5, -0., 0., nan][number + 1] AS q, q, if(number = 3, NULL, q), [q, 1]
        FROM numbers(7)""",
    ),
    "ordered": (
        """id UInt8, a Array(Nullable(Int32)), f Array(Float64), nf Array(Nullable(Float64)),
        t Tuple(Nullable(Int32), Float64), s Array(Array(Nullable(String))), x Float64, n Nullable(Float64),
        m Map(String, Float64), u UUID, nu Nullable(UUID)""",
        """SELECT number, [[1, NULL], [1, 2], [NULL], [], [NULL, NULL], [3], [1]][number + 1], [[1., nan], [1, 2],
        [nan], [], [nan, 1], [3, inf], [1, -inf]][number + 1], [[NULL, 1.], [1, nan], [nan], [], [NULL], [3, NULL],
        [1]][number + 1], [(NULL, 1.), (1, nan), (1, 1), (2, 0), (NULL, nan), (0, inf), (1, 0)][number + 1],
        [[['a', NULL]], [['a', 'b']], [[NULL]], [[]], [], [['b']], [['a']]][number + 1],
        [nan, 1., -inf, 0, 2, -0., inf][number + 1], [NULL, nan, 1, -0., 0, NULL, -inf][number + 1],
        map(['a', 'a', 'b', 'b', 'a', 'a', 'c'][number + 1], [nan, 1., 1, 0, 2, 0, 0][number + 1]),
        toUUID(['2fdc5a2a-9a9a-4f9f-9a9a-000000000001',
        '00000000-0000-0001-9a9a-000000000002', 'ffffffff-0000-0001-8a9a-000000000002',
        '2fdc5a2a-0000-0001-9a9a-000000000001', '00000000-0000-0000-0000-000000000000',
        '2fdc5a2a-9a9a-4f9f-0000-000000000001', '2fdc5a2a-9a9a-4f9f-9a9a-000000000001'][number + 1]) AS q,
        if(number % 3 = 0, NULL, q) FROM numbers(7)""",
    ),
    "named": (
        "id UInt32, a Int32, s String, n Nullable(Int32), x Float64, arr Array(Int32), d Date",
        """SELECT number, number % 5, toString(number % 3), if(number % 4 = 0, NULL, number % 7), number / 3,
        range(number % 3), toDate('2020-01-01') + number FROM numbers(20)""",
    ),
    "others": ("id UInt32, b Int32", "SELECT number + 3, number FROM numbers(5)"),
    "instants": (
        """id UInt8, t DateTime64(3), u DateTime64(6, 'UTC'), w DateTime64(9), z DateTime64(0),
        b DateTime64(3, 'Europe/Berlin'), d Date32""",
        """SELECT number, toDateTime64(['1969-12-31 23:59:59.500', '1969-12-31 23:59:58.001', '1970-01-01 00:00:00.000',
        '1970-01-01 00:00:00.999', '1960-02-29 12:34:56.789', '1900-01-01 00:00:00.001',
        '2250-12-31 23:59:59.999'][number + 1], 3, 'UTC') AS q, q, q, q, q, toDate32(q) FROM numbers(7)""",
    ),
    "words": (
        """id UInt16, k String, w String, nk Nullable(String), lk LowCardinality(String),
        lnk LowCardinality(Nullable(String)), arr Array(String), n Int32""",
        """SELECT number, ['', 'a', 'b', 'ab', 'a\\0', '\\0', '\\0\\0', 'ünï', 'seven77', '日本',
        '日本x'][number % 11 + 1],
        ['short', 'eight888', 'übersee', '日本語', '', 'seven77\\0', 'much longer than seven bytes'][number % 7 + 1],
        if(number % 4 = 0, NULL, ['', 'x', 'x\\0', 'é'][number % 5 % 4 + 1]), ['p', '', 'pqr', 'ßß'][number % 4 + 1],
        if(number % 6 = 0, NULL, ['', 'u', 'uu'][number % 3 + 1]), arrayMap(x -> ['m', 'mm'][x % 2 + 1], range(number %
        4)), toInt32(number * 7 % 31) - 15 FROM numbers(600)""",
    ),
    "nothing": ("a UInt8, s String, n Nullable(Int32)", "SELECT 1, 'x', NULL FROM numbers(0)"),
}  # fmt: skip


@dataclass(frozen=True)
class MemoryRelation:
    schema: TableSchema
    table: pa.Table

    def read(self, columns: object) -> pa.Table:
        return self.table.select(list(columns))  # type: ignore[call-overload]


@dataclass(frozen=True)
class MemoryCatalog:
    tables: dict[str, ArrowRelation | PartsRelation]

    def relation(self, database: str | None, table: str) -> ArrowRelation | PartsRelation:
        if table not in self.tables:
            raise UserError("UNKNOWN_TABLE", f"Table {table} does not exist")
        return self.tables[table]

    @property
    def positions(self) -> TablePositions:
        return UNKNOWN_POSITIONS


def schema_of(text: str) -> TableSchema:
    """``a UInt8, b String`` as a schema."""
    parsed = parse_type(f"Tuple({text})")
    return TableSchema(tuple(Column(name or "", type_) for name, type_ in parsed.elements))  # type: ignore[attr-defined]


class Engines:
    """chdb and Pando with the same tables."""

    def __init__(self, session: object) -> None:
        self.session = session
        self.engine = QueryEngine()
        self.zone = self.session.query("SELECT timezone()", "TabSeparated").bytes().decode().strip()  # type: ignore[attr-defined]
        tables: dict[str, ArrowRelation | PartsRelation] = {}
        for name, (columns, query) in TABLES.items():
            self.session.query(f"CREATE TABLE {name} ({columns}) ENGINE = MergeTree ORDER BY tuple()")  # type: ignore[attr-defined]
            self.session.query(f"INSERT INTO {name} {query}")  # type: ignore[attr-defined]
            tables[name] = self._load(name, schema_of(columns))
        self.catalog = MemoryCatalog(tables)

    def _load(self, name: str, schema: TableSchema) -> MemoryRelation:
        text = self.session.query(f"SELECT * FROM {name}", "TabSeparated").bytes()  # type: ignore[attr-defined]
        blocks = list(read_blocks("TabSeparated", io.BytesIO(text), schema.columns)) if text else []
        table = pa.concat_tables(blocks) if blocks else schema.arrow.empty_table()
        return MemoryRelation(schema, table)

    def clickhouse(self, query: str) -> tuple[list[str], list[str], list[list[str]]]:
        """Names, types, rows of cells as TSV."""
        text = self.session.query(query, "TabSeparatedWithNamesAndTypes").bytes().decode()  # type: ignore[attr-defined]
        return parsed(text)

    def pando(self, query: str, catalog: MemoryCatalog | None = None) -> tuple[list[str], list[str], list[list[str]]]:
        result = self.engine.select(query, catalog=catalog or self.catalog, constants={"timezone": self.zone})
        columns: list[tuple[str, DataType]] = list(result.columns)
        text = b"".join(write_blocks("TabSeparatedWithNamesAndTypes", columns, result.batches)).decode()
        return parsed(text)


def parsed(text: str) -> tuple[list[str], list[str], list[list[str]]]:
    """Names, types, rows of a TabSeparatedWithNamesAndTypes."""
    names, types, *rows = [line.split("\t") for line in text.split("\n")[:-1]]
    return names, types, rows


def same_cell(left: str, right: str, type_: str) -> bool:
    """Equal text, or floats that differ by less than 1e-9 of their size."""
    if left == right:
        return True
    if "Float" not in type_:
        return False
    number = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")
    if number.sub("#", left) != number.sub("#", right):
        return False
    pairs = zip(number.findall(left), number.findall(right), strict=True)
    tolerance = 1e-5 if "Float32" in type_ else 1e-9
    return all(math.isclose(float(a), float(b), rel_tol=tolerance, abs_tol=1e-12) for a, b in pairs)
