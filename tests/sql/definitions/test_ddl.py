"""The rules of CREATE TABLE."""

from __future__ import annotations

import pytest

from parts.common.errors import UserError
from parts.table.table_description import TableDescription
from sql.definitions.engines.deprecated_syntax import convert_deprecated_syntax
from sql.definitions.engines.replica_location import expand_macros, find_replica_location
from sql.definitions.engines.table_engine import ServerDefaults
from sql.definitions.table_description import build_description, write_out_column_types
from sql.grammar.statement_parser import parse_statement
from sql.grammar.statements.statement import CreateTable
from sql.settings.merge_tree_settings import MergeTreeSettings

COLUMNS = "(CounterID UInt32, EventDate Date, UserID UInt64, EventTime DateTime, n Nullable(Int8))"


def create(text: str) -> CreateTable:
    parsed = parse_statement(text).statement
    assert isinstance(parsed, CreateTable)
    return parsed


def describe(text: str, **settings: int) -> TableDescription:
    return build_description(create(text), ServerDefaults(MergeTreeSettings(**settings)))


def test_modern_syntax() -> None:
    table = describe(
        f"CREATE TABLE hits {COLUMNS} ENGINE = MergeTree PARTITION BY toYYYYMM(EventDate) "
        "ORDER BY (CounterID, EventDate, intHash32(UserID)) PRIMARY KEY (CounterID, EventDate, intHash32(UserID)) "
        "SAMPLE BY intHash32(UserID) SETTINGS index_granularity = 1024",
        old_parts_lifetime=5,
    )
    assert [str(column.type) for column in table.schema.columns][:2] == ["UInt32", "Date"]
    assert table.sorting_key.columns == ("CounterID", "EventDate", "UserID")
    assert len(table.primary_key.expressions) == 3
    assert [str(type_) for type_ in table.partition_key.types] == ["UInt32"]
    assert len(table.sampling_key.expressions) == 1
    assert (table.settings.index_granularity, table.settings.old_parts_lifetime) == (1024, 5)


def test_deprecated_syntax_is_the_modern_one() -> None:
    old = create(
        f"CREATE TABLE hits {COLUMNS} ENGINE = ReplicatedMergeTree('/clickhouse/tables/{{shard}}/hits', '{{replica}}', "
        "EventDate, intHash32(UserID), (CounterID, EventDate, intHash32(UserID), EventTime), 8192)"
    )
    new = create(
        f"CREATE TABLE hits {COLUMNS} ENGINE = ReplicatedMergeTree('/clickhouse/tables/{{shard}}/hits', '{{replica}}') "
        "PARTITION BY toYYYYMM(EventDate) ORDER BY (CounterID, EventDate, intHash32(UserID), EventTime) "
        "SAMPLE BY intHash32(UserID) SETTINGS index_granularity = 8192"
    )
    types = {column.name: column.type for column in old.columns}
    assert convert_deprecated_syntax(old, types) == new
    assert convert_deprecated_syntax(new, types) is new
    assert build_description(old) == build_description(new)


def test_primary_key_is_a_prefix() -> None:
    table = describe(
        f"CREATE TABLE t {COLUMNS} ENGINE = MergeTree ORDER BY (CounterID, EventDate) PRIMARY KEY CounterID"
    )
    assert table.primary_key.expressions == table.sorting_key.expressions[:1]


def test_no_order() -> None:
    table = describe(f"CREATE TABLE t {COLUMNS} ENGINE = MergeTree ORDER BY tuple()")
    assert not table.sorting_key
    assert not table.primary_key
    assert not table.partition_key


def test_types_are_inferred_from_defaults() -> None:
    table = describe(
        "CREATE TABLE t (a UInt8, d DEFAULT c + 1, c MATERIALIZED a + 1, e ALIAS toString(a)) "
        "ENGINE = MergeTree ORDER BY a"
    )
    assert [str(column.type) for column in table.schema.columns] == ["UInt8", "UInt32", "UInt16", "String"]
    assert table.schema.stored.names == ("a", "d", "c")


M = f"CREATE TABLE t {COLUMNS} ENGINE = MergeTree"
WRONG = [
    (M, 36, "ORDER BY"),
    (f"{M} ORDER BY (CounterID, EventDate) PRIMARY KEY EventDate", 36, "prefix"),
    (f"{M} ORDER BY CounterID SAMPLE BY intHash32(UserID)", 36, "Sampling"),
    (f"{M} ORDER BY nothing", 47, "nothing"),
    (f"{M} ORDER BY CounterID PARTITION BY nothing", 47, "nothing"),
    (f"{M} ORDER BY n", 44, "Nullable"),
    (f"{M} ORDER BY n SAMPLE BY n SETTINGS allow_nullable_key = 1", 59, "Nullable"),
    (f"{M} ORDER BY CounterID SETTINGS nonsense = 1", 115, "nonsense"),
    (f"{M} ORDER BY CounterID SETTINGS index_granularity = 'x'", 72, "index_granularity"),
    (f"{M} ORDER BY CounterID SETTINGS index_granularity = 0", 36, "index_granularity"),
    (f"{M}(1) ORDER BY CounterID", 42, "MergeTree"),
    (f"CREATE TABLE t {COLUMNS} ENGINE = ReplicatedMergeTree('/p') ORDER BY CounterID", 42, "ReplicatedMergeTree"),
    (f"CREATE TABLE t {COLUMNS} ENGINE = CoalescingMergeTree ORDER BY CounterID", 48, "CoalescingMergeTree"),
    (f"CREATE TABLE t {COLUMNS} ENGINE = ReplicatedCoalescingMergeTree ORDER BY CounterID", 48, "ReplicatedCoalescing"),
    (f"CREATE TABLE t {COLUMNS} ENGINE = Buffer", 48, "Buffer"),
    (f"CREATE TABLE t {COLUMNS} ENGINE = Nonsense", 56, "MergeTree, ReplicatedMergeTree"),
    (f"CREATE TABLE t {COLUMNS}", 119, "ENGINE"),
    ("CREATE TABLE t (a Nonsense) ENGINE = MergeTree ORDER BY a", 50, "Nonsense"),
    ("CREATE TABLE t (a UInt8, a UInt8) ENGINE = MergeTree ORDER BY a", 15, "a"),
    ("CREATE TABLE t (a UInt8 CODEC(Nonsense)) ENGINE = MergeTree ORDER BY a", 432, "Nonsense"),
    ("CREATE TABLE t (a Nullable(Int8) NULL) ENGINE = MergeTree ORDER BY a", 377, "Nullable(Int8)"),
    ("CREATE TABLE t (a Nullable(Int8) NOT NULL) ENGINE = MergeTree ORDER BY a", 377, "Nullable(Int8)"),
    ("CREATE TABLE t (a Decimal(38, 2) CODEC(Delta, LZ4)) ENGINE = MergeTree ORDER BY a", 36, "size 1, 2, 4, 8 bytes"),
    ("CREATE TABLE t (a UInt8 DEFAULT zz + 1) ENGINE = MergeTree ORDER BY a", 47, "zz"),
    ("CREATE TABLE t (a UInt8 DEFAULT a + 1) ENGINE = MergeTree ORDER BY a", 174, "a -> a"),
    ("CREATE TABLE t (a UInt8 DEFAULT b, b UInt8 ALIAS c, c UInt8 DEFAULT a) ENGINE = Memory", 174, "a -> b -> c -> a"),
    ("CREATE TABLE t (a UInt8 DEFAULT 'x') ENGINE = MergeTree ORDER BY a", 6, "default of column 'a'"),
    ("CREATE TABLE t (a UInt8, d Date DEFAULT '2020') ENGINE = MergeTree ORDER BY a", 38, "default of column 'd'"),
    ("CREATE TABLE t (a UInt8, b UInt8 ALIAS a) ENGINE = MergeTree ORDER BY b", 47, "b"),
    ("CREATE TABLE t (a ALIAS 1) ENGINE = MergeTree ORDER BY tuple()", 36, "stored"),
    (f"CREATE TABLE t {COLUMNS} ENGINE = MergeTree(EventDate, (CounterID), 8192) ORDER BY CounterID", 42, "deprecated"),
    (f"CREATE TABLE t {COLUMNS} ENGINE = MergeTree(nothing, (CounterID), 8192)", 47, "nothing"),
    (f"CREATE TABLE t {COLUMNS} ENGINE = MergeTree(UserID, (CounterID), 8192)", 169, "Date"),
    (f"CREATE TABLE t {COLUMNS} ENGINE = MergeTree(EventDate, (CounterID), x)", 36, "granularity"),
    (f"{M} ORDER BY Nonsense(CounterID)", 46, "Nonsense"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code", "named"), WRONG, ids=[text[-60:] for text, _, _ in WRONG])
def test_what_is_refused(text: str, code: int, named: str) -> None:
    with pytest.raises(UserError) as caught:
        describe(text)
    assert caught.value.code == code, caught.value
    assert named in caught.value.message


def test_replica_location() -> None:
    table = create(
        "CREATE TABLE hits (a UInt8) ENGINE = ReplicatedMergeTree('/clickhouse/{layer}-{shard}/{database}/{table}/', "
        "'{replica}') ORDER BY a"
    )
    macros = {"layer": "05", "shard": "02", "replica": "r1"}
    location = find_replica_location(table, macros=macros, database="d", table="hits")
    assert (location.zookeeper_path, location.replica_name) == ("/clickhouse/05-02/d/hits", "r1")


def test_replica_location_by_default() -> None:
    table = create("CREATE TABLE hits (a UInt8) ENGINE = ReplicatedMergeTree ORDER BY a")
    location = find_replica_location(
        table, macros={"shard": "{n}", "n": "1", "replica": "r"}, database="d", table="t", uuid="abc"
    )
    assert location.zookeeper_path == "/clickhouse/tables/abc/1"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [("'/p/{nonsense}', 'r'", 139), ("'p', 'r'", 36), ("'/p', ''", 237), ("'/p', 'a/b'", 237), ("p, 'r'", 36)],
)
def test_bad_replica_locations(arguments: str, code: int) -> None:
    table = create(f"CREATE TABLE t (a UInt8) ENGINE = ReplicatedMergeTree({arguments}) ORDER BY a")
    with pytest.raises(UserError) as caught:
        find_replica_location(table, macros={}, database="d", table="t")
    assert caught.value.code == code


def test_macros_that_never_end() -> None:
    with pytest.raises(UserError, match="without end"):
        expand_macros("{a}", {"a": "{b}x", "b": "{a}"})


def test_inferred_types_are_written_out() -> None:
    statement = create("CREATE TABLE t (a int, b DEFAULT a + 1) ENGINE = MergeTree ORDER BY a")
    typed = write_out_column_types(statement, build_description(statement).schema)
    assert [column.type for column in typed.columns] == ["Int32", "Int64"]
    assert build_description(typed) == build_description(statement)


@pytest.mark.parametrize("column", ["Nothing", "Nullable(Nothing)", "Array(Nothing)", "Nullable(Nothing) ALIAS 'x'"])
def test_a_column_of_nothing_is_refused(column: str) -> None:
    with pytest.raises(UserError) as caught:
        describe(f"CREATE TABLE t (a Int64, d {column}) ENGINE = MergeTree ORDER BY a")
    assert caught.value.code == 370
