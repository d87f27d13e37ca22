"""The tables that clients ask: their columns are ClickHouse's, and what they say is so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError

SYSTEM = (
    "databases", "tables", "columns", "functions", "formats", "data_type_families", "table_engines", "settings",
    "merge_tree_settings", "time_zones", "collations", "build_options", "one",
)  # fmt: skip
INFORMATION = ("schemata", "tables", "columns", "key_column_usage", "referential_constraints", "statistics", "views")


@pytest.fixture(scope="module")
def clickhouse() -> Iterator[object]:
    from chdb.session import Session

    session = Session()
    yield session
    session.close()


@pytest.mark.parametrize(
    "table", [f"system.{name}" for name in SYSTEM] + [f"information_schema.{name}" for name in INFORMATION]
)
def test_columns_have_clickhouses_names_and_types(client: HttpClient, clickhouse: object, table: str) -> None:
    answer = clickhouse.query(f"DESCRIBE TABLE {table}", "TSV").bytes().decode()  # type: ignore[attr-defined]
    theirs = dict(line.split("\t")[:2] for line in answer.splitlines())
    ours = {row[0]: row[1] for row in client.rows(f"DESCRIBE TABLE {table}")}
    loose = {"tier", "origin", "type", "is_updatable", "is_insertable_into"}  # an Enum more or less
    loose |= {"constraint_catalog", "constraint_schema"}  # there the upper case ones are Nullable
    own = {"load_error"} if table == "system.tables" else set()
    for name, type_ in ours.items():
        if name in own:
            continue
        assert name in theirs
        assert type_ == theirs[name].replace("\\'", "'") or name.lower() in loose, name
    client.execute(f"SELECT * FROM {table}")


@pytest.fixture
def table(client: HttpClient) -> Iterator[str]:
    client.execute("CREATE DATABASE shown")
    client.execute(
        "CREATE TABLE shown.t (k UInt32 DEFAULT 5 COMMENT 'the key', d Date, p Nullable(Decimal(12, 3)), "
        "f FixedString(7), t DateTime64(3)) ENGINE = MergeTree PARTITION BY toYYYYMM(d) ORDER BY (k, d) "
        "SETTINGS index_granularity = 100 COMMENT 'shown'"
    )
    client.execute("INSERT INTO shown.t (k) VALUES (1), (2)")
    yield "shown.t"
    client.execute("DROP DATABASE shown")


def test_a_table(client: HttpClient, table: str) -> None:
    (row,) = client.rows(
        "SELECT engine, engine_full, sorting_key, total_rows, active_parts, comment, has_own_data FROM system.tables "
        "WHERE database = 'shown'"
    )
    full = "MergeTree PARTITION BY toYYYYMM(d) ORDER BY (k, d) SETTINGS index_granularity = 100"
    assert row == ["MergeTree", full, "k, d", 2, 1, "shown", 1]


def test_information_schema(client: HttpClient, table: str) -> None:
    columns = client.rows(
        "SELECT COLUMN_NAME, data_type, numeric_precision, numeric_scale, datetime_precision, column_key "
        "FROM INFORMATION_SCHEMA.COLUMNS WHERE table_schema = 'shown' ORDER BY ordinal_position"
    )
    assert columns == [
        ["k", "UInt32", 32, 0, None, "PRI"],
        ["d", "Date", None, None, 0, "PRI"],
        ["p", "Nullable(Decimal(12, 3))", 12, 3, None, ""],
        ["f", "FixedString(7)", None, None, None, ""],
        ["t", "DateTime64(3)", None, None, 3, ""],
    ]
    tables = "SELECT table_name, table_type, TABLE_ROWS FROM information_schema.tables WHERE table_schema = 'shown'"
    assert client.rows(tables) == [["t", "BASE TABLE", 2]]
    keys = "SELECT column_name FROM information_schema.key_column_usage WHERE table_name = 't'"
    assert client.rows(keys) == [["k"], ["d"]]
    assert ["shown"] in client.rows("SELECT schema_name FROM information_schema.schemata")


def test_functions_tell_aliases_and_case(client: HttpClient) -> None:
    rows = client.rows(
        "SELECT * EXCEPT (create_query, description) FROM system.functions WHERE name IN ('lower', 'lcase')"
    )
    assert {row[0]: row[1:4] for row in rows} == {"lower": [0, 1, ""], "lcase": [0, 1, "lower"]}


@pytest.mark.parametrize("database", ["system", "information_schema", "INFORMATION_SCHEMA"])
def test_made_up_databases_are_read_only(client: HttpClient, database: str) -> None:
    for statement in (
        f"CREATE TABLE {database}.t (a UInt8) ENGINE = MergeTree ORDER BY a",
        f"INSERT INTO {database}.tables VALUES (1)",
        f"DROP DATABASE {database}",
    ):
        with pytest.raises(PandoError) as caught:
            client.execute(statement)
        assert caught.value.code == 164, statement


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("SHOW SETTINGS LIKE 'max_block%'", [["max_block_size", "NonZeroUInt64", "65409"]]),
        ("SHOW CHANGED SETTINGS ILIKE 'MAX_BLOCK%'", []),
        ("SHOW SETTING max_block_size", [["65409"]]),
        ("SHOW COLUMNS FROM shown.t LIKE 'k'", [["k", "UInt32", "NO", "PRI SOR", "5", ""]]),
        ("SHOW FULL COLUMNS FROM t FROM shown NOT LIKE '_'", []),
        ("EXISTS DATABASE shown", [[1]]),
    ],
)
def test_show(client: HttpClient, table: str, statement: str, rows: list[list[object]]) -> None:
    assert client.rows(statement) == rows


def test_show_functions_and_engines(client: HttpClient) -> None:
    assert client.rows("SHOW FUNCTIONS LIKE 'lowerU%'")[0][0] == "lowerUTF8"
    engines = [row[0] for row in client.rows("SHOW ENGINES")]
    assert engines == sorted(engines)
    assert {"Distributed", "Log", "Memory", "Merge", "ReplicatedMergeTree", "SummingMergeTree", "View"} <= {*engines}
