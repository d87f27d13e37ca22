"""The words of :mod:`tests.fuzz.sentences`; ``<rule>`` stands for what that rule makes."""

from __future__ import annotations

from engine.system_tables import SYSTEM_DATABASES

OPERATORS = (
    "<column> + <column>", "<scalar> * <value>", "-<column>", "<column> % <value>", "<column> || <scalar>",
    "<column> = <column> ? <scalar> : <value>", "CASE WHEN <condition> THEN <scalar> ELSE <value> END",
    "CASE <column> WHEN <value> THEN <column> WHEN 1 THEN <value> END", "<column>::<type>",
    "CAST(<scalar> AS <type>)", "CAST(<column>, '<type>')", "<array>[<value>]", "(<column>, <scalar>)",
    "[<column>, <column>]", "(<subquery>)", "<array>[-1]", "(<column>, <value>).1", "tn.y", "untuple(t)",
    "{x:<type>}", "{n:UInt8} + <column>", "arrayMap(x -> x + <column>, <array>)",
    "arrayFilter((x, y) -> x > y, <array>, <array>)", "<condition>", "arraySort(x -> -x, <array>)",
    "arrayJoin(<array>)", "map(<column>, <column>)", "<column> + INTERVAL <value> DAY",
    "if(<condition>, <scalar>, <column>)", "multiIf(<condition>, <column>, <condition>, <value>, <scalar>)",
    "date_add(MONTH, <value>, <column>)", "EXTRACT(YEAR FROM <column>)",
    "toStartOfInterval(<column>, INTERVAL 3 hour)", "DATE '2020-01-01' - <column>", "(SELECT max(id) FROM t)",
    "toTypeName(<scalar>)", "dictGet('d', 'a', <column>)", "sumIf(<column>, <condition>)",
    "transform(<column>, [1, 2], [<value>, <value>], <value>)", "<value>", "COLUMNS('^s')", "identity(<scalar>)",
    "materialize(<value>)", "toString(<scalar>)", "ifNull(<column>, <value>)", "<scalar> AS x", "grouping(su8)",
    "tuple(<scalar>, tuple())", "EXISTS(<subquery>)",
)  # fmt: skip
CONDITIONS = (
    "<column> > <value>", "<column> = <column>", "<scalar> <= <scalar>", "<column> IN (<value>, <value>)", "su8 = 3",
    "id IN (<subquery>)", "<column> NOT IN (SELECT id FROM t)", "(id, su8) IN ((1, 2), (3, 4))", "s LIKE '%a%'",
    "<column> BETWEEN <value> AND <column>", "<column> IS NULL", "<scalar> IS NOT NULL", "NOT b", "s ILIKE <value>",
    "<scalar>", "id < 50", "id > 10", "sd >= '2001-01-01'", "match(s, <value>)", "has(<array>, <value>)", "1", "NULL",
    "EXISTS (<subquery>)", "su8 = ANY (<subquery>)", "si64 > ALL (<subquery>)", "toYYYYMM(sd) = 200001",
    "id IN (1, 2, 3)", "<column> <=> <value>", "xor(b, <scalar>)", "su8 GLOBAL IN (1, 2)", "_part = 'all_1_1_0'",
)  # fmt: skip
ORDERS = ("", "", "", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST", " DESC", "", " NULLS FIRST", " WITH FILL")
FRAMES = (
    "", "", "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", "ROWS UNBOUNDED PRECEDING",
    "RANGE BETWEEN 3 PRECEDING AND 3 FOLLOWING", "ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
    "GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
)  # fmt: skip
JOINS = (
    "t AS a JOIN parted AS b ON a.id = b.id", "t AS a LEFT JOIN kept AS b USING (id)",
    "t a ANY LEFT JOIN t b USING id", "t AS a FULL JOIN (<subquery>) AS b ON a.id = b.id",
    "t AS a SEMI JOIN t AS b ON a.su8 = b.si64 AND a.id < b.id", "t a ANTI LEFT JOIN t b ON a.s = b.sw",
    "t a ASOF JOIN t b ON a.su8 = b.su8 AND a.sdt >= b.sdt", "t CROSS JOIN small", "t, small",
    "t AS a RIGHT JOIN small AS b ON a.su8 = b.a", "t a JOIN t b ON <condition>", "t a GLOBAL JOIN t b USING (id)",
    "users JOIN visits USING user", "trades ASOF LEFT JOIN quotes USING (symbol, at)", "t a PASTE JOIN t b",
    "t AS a INNER JOIN t AS b USING (id) LEFT JOIN small AS c ON c.a = a.su8",
)  # fmt: skip
SOURCES = (
    "numbers(<value>)", "numbers(10)", "numbers(1000)", "numbers(5, 10)", "numbers(0, 100, 7)", "system.numbers",
    "system.one", "zeros(10)", "generateSeries(1, 10, 2)", "values('a UInt8, s String', (1, 'x'), (2, 'y'))",
    "values((1, 2), (<value>, 3))", "types", "types", "visits", "users", "words", "floats", "nothing", "small",
    "t SAMPLE 1/2", "types FINAL", "nowhere", "(SELECT * FROM t LIMIT 5)",
    "(SELECT number AS id, number % 3 AS su8 FROM numbers(20))", "view(<subquery>)", "c",
)  # fmt: skip
MODIFIERS = (
    "*", "t.*", "* EXCEPT (id)", "* EXCEPT id REPLACE (su8 + 1 AS su8)", "COLUMNS('^s') APPLY toString",
    "* APPLY(x -> x)", "COLUMNS('i') APPLY(x -> x + 1)", "* REPLACE (<scalar> AS su8)", "COLUMNS(id, su8)",
    "* APPLY max",
)  # fmt: skip
TYPES = (
    "UInt8", "Int32", "UInt64", "Float64", "String", "FixedString(4)", "Date", "Date32", "DateTime", "DateTime64(3)",
    "DateTime('Asia/Tokyo')", "Decimal(9, 2)", "Decimal(38, 10)", "UUID", "IPv4", "IPv6", "Bool", "Int128", "JSON",
    "Enum8('a' = 1, 'b' = 2)", "LowCardinality(String)", "LowCardinality(Nullable(String))", "Map(String, UInt8)",
    "Tuple(Int8, String)", "Tuple(a Int8, b Array(String))", "Nothing", "Array(Array(Date))", "Decimal(77, 1)",
    "Nested(x UInt8)",
)  # fmt: skip
VALUES = (
    "0", "1", "2", "7", "-1", "255", "300", "1.5", "'a'", "''", "'2020-01-01'", "'2020-01-01 00:00:00'", "'1.2.3.4'",
    "NULL", "true", "[1, 2]", "['a']", "(1, 'a')", "now()", "today()", "toDate('2001-02-03')", "'red'", "map('a', 1)",
    "1e10", "number", "'UTC'", "[]", "toDecimal64(1.5, 2)", "x -> x", "'%a%'", "INTERVAL 1 MONTH", "'é日'",
    "9999999999",
)  # fmt: skip
CODECS = ("NONE", "LZ4", "ZSTD(1)", "Delta, ZSTD(1)", "DoubleDelta", "Gorilla", "T64", "LZ4HC(9)", "Nope", "Delta(3)")
ENGINES = (
    "MergeTree", "MergeTree", "MergeTree()", "ReplicatedMergeTree('/f/{database}/made', '{replica}')", "Memory",
    "ReplicatedMergeTree", "ReplacingMergeTree", "ReplicatedMergeTree('/f/x', 'r1')", "MergeTree(a, b, 8192)", "Log",
)  # fmt: skip
OTHERS = (
    "SHOW TABLES", "SHOW TABLES FROM system LIKE <value>", "SHOW DATABASES", "SHOW CREATE TABLE t",
    "SHOW PROCESSLIST", "SHOW CREATE TABLE kept", "DESCRIBE TABLE t", "DESCRIBE (<subquery>)", "DESC numbers(10)",
    "EXISTS TABLE t", "EXISTS DATABASE default", "USE system", "USE nowhere", "SET max_threads = <value>",
    "SET a = <value>", "CREATE DATABASE d", "DROP DATABASE IF EXISTS d", "DROP TABLE IF EXISTS small",
    "TRUNCATE TABLE small", "RENAME TABLE small TO smaller", "DETACH TABLE small", "ATTACH TABLE small",
    "OPTIMIZE TABLE parted FINAL", "OPTIMIZE TABLE t DEDUPLICATE", "OPTIMIZE TABLE parted PARTITION <value>",
    "OPTIMIZE TABLE kept FINAL DEDUPLICATE BY id", "OPTIMIZE TABLE parted PARTITION ID '1' FINAL", "CHECK TABLE t",
    "CHECK TABLE kept PARTITION <value>", "CHECK TABLE t PART 'all_1_1_0'", "SYSTEM SYNC REPLICA kept",
    "SYSTEM SYNC REPLICA kept LIGHTWEIGHT", "SYSTEM STOP MERGES", "SYSTEM START MERGES t", "SYSTEM STOP FETCHES kept",
    "SYSTEM START FETCHES", "SYSTEM FLUSH LOGS", "SYSTEM RESTART REPLICA kept",
    "SYSTEM RESTORE REPLICA kept", "SYSTEM RESTART REPLICAS",
    "SYSTEM DROP REPLICA 'r9' FROM TABLE kept", "SYSTEM DROP REPLICA 'r9' FROM ZKPATH '/f/kept'",
    "SYSTEM STOP REPLICATION QUEUES", "SYSTEM RELOAD CONFIG", "KILL QUERY WHERE query_id = 'x' SYNC",
    "KILL QUERY WHERE query_id = <value>", "ALTER TABLE t ADD COLUMN z UInt8", "DELETE FROM t WHERE <condition>",
    "ALTER TABLE t DELETE WHERE <condition>", "GRANT SELECT ON t TO u", "TRUNCATE TABLE IF EXISTS kept",
    "DROP TABLE parted SYNC", "RENAME TABLE parted TO made, kept TO d.x", "SELECT 1; SELECT 2",
    "CREATE VIEW v AS <subquery>", "CREATE DATABASE IF NOT EXISTS system", "EXPLAIN <subquery>",
)  # fmt: skip
SYSTEM_TABLES = tuple(
    f"{database}.{table}" for database, tables in SYSTEM_DATABASES.items() for table in sorted(tables)
)
