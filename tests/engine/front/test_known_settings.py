"""Every setting of ClickHouse: at its default from everywhere, and what becomes of other values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.front.http.http_server import HttpServer
from engine.http_client.http_client import HttpClient
from engine.server.config import Config
from parts.common.errors import PandoError, UserError
from sql.settings.clickhouse_settings import load_clickhouse_settings
from sql.settings.merge_tree_settings import find_table_setting_kind, parse_table_setting
from sql.settings.session_settings import (
    find_setting_kind,
    make_settings,
    parse_setting,
)
from sql.settings.supported_settings import (
    DEFAULT_SETTINGS,
    SUPPORTED_SETTINGS,
)
from tests.engine.front.conftest import RunningServer

TABLE = load_clickhouse_settings()
ALL = {
    **{name: known.default for name, known in TABLE.session.items()},
    **{alias: TABLE.session[name].default for alias, name in TABLE.aliases.items()},
}
CREATE = "CREATE TABLE {} (a UInt8) ENGINE = MergeTree ORDER BY a"


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t") + "'"


def test_how_many_there_are() -> None:
    """docs/clients.md has these numbers."""
    session = Counter(find_setting_kind(name) for name in TABLE.session)
    tables = Counter(find_table_setting_kind(name) for name in TABLE.merge_tree)
    document = (Path(__file__).parents[3] / "docs" / "clients.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| (honoured|harmless|binding): [^|]* \| ([\d,]+) \| (\d+) \|$", document, re.MULTILINE)
    assert told == [(kind, f"{session[kind]:,}", str(tables[kind])) for kind in ("honoured", "harmless", "binding")]
    assert (len(TABLE.session), len(TABLE.aliases), len(TABLE.merge_tree)) == (1810, 47, 369)


def test_honoured_settings_have_clickhouses_types_and_defaults() -> None:
    others = {
        "select_sequential_consistency",  # a number there
        "wait_end_of_query",  # a parameter of URLs there
        "insert_transaction",  # Pando's own, and so is the next
        "insert_transaction_attempt",
        "link_min_position",
        "link_read_cut",
        "link_wait_timeout_ms",
        "max_link_lag_seconds",
        "require_sync_replica",
        "insert_timeout",
    }
    for name in SUPPORTED_SETTINGS.keys() - others:
        assert SUPPORTED_SETTINGS[name].type == TABLE.session[name].type, name
    different = {"http_response_buffer_size", "enable_http_compression", "date_time_input_format"}
    for name in SUPPORTED_SETTINGS.keys() - others - different:
        assert parse_setting(name, TABLE.session[name].default) == getattr(DEFAULT_SETTINGS, name), name


def test_every_default_in_a_settings_clause(client: HttpClient) -> None:
    clause = ", ".join(f"{name} = {quoted(value)}" for name, value in ALL.items())
    assert client.rows(f"SELECT 1 SETTINGS {clause}") == [[1]]
    clause = ", ".join(f"{name} = DEFAULT" for name in ALL)
    assert client.rows(f"SELECT 1 SETTINGS {clause}") == [[1]]


def test_every_default_by_set(server: RunningServer) -> None:
    with server.client(settings={"session_id": "defaults"}) as client:
        client.execute("SET " + ", ".join(f"{name} = {quoted(value)}" for name, value in ALL.items()))
        assert client.rows("SELECT 1") == [[1]]


def test_every_default_as_url_parameter(client: HttpClient) -> None:
    ours = {"readonly", "default_format"}  # these would change the answer's way
    given = [item for item in ALL.items() if item[0] not in ours]
    for start in range(0, len(given), 150):
        assert client.rows("SELECT 1", settings=dict(given[start : start + 150])) == [[1]]


def test_every_default_of_tables(client: HttpClient) -> None:
    clause = ", ".join(f"{name} = {quoted(known.default)}" for name, known in TABLE.merge_tree.items())
    client.execute(CREATE.format("all_table_settings") + f" SETTINGS {clause}")
    client.execute("INSERT INTO all_table_settings VALUES (1)")
    assert client.rows("SELECT * FROM all_table_settings") == [[1]]
    client.execute("DROP TABLE all_table_settings")


@pytest.mark.parametrize("query", ["SELECT 1 SETTINGS nonsense = 1", "SET nonsense = 1"])
def test_unknown_setting(client: HttpClient, query: str) -> None:
    with pytest.raises(PandoError) as caught:
        client.execute(query)
    assert caught.value.code == 115
    with pytest.raises(PandoError) as caught:
        client.execute("SELECT 1", settings={"nonsense": 1})
    assert caught.value.code == 115


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("max_insert_threads", "auto(4)", 0),
        ("max_threads", "auto", 0),
        ("join_algorithm", "hash, grace_hash", "hash, grace_hash"),
        ("load_balancing", "in_order", "in_order"),
        ("http_response_headers", "{}", "{}"),
        ("insert_keeper_max_retries", "3", 3),
        ("log_queries_probability", "0.5", 0.5),
        ("replication_alter_partitions_sync", 0, 0),
        ("final", 1, True),
        ("session_timezone", "Asia/Tokyo", "Asia/Tokyo"),
    ],
)
def test_accepted_value(name: str, text: object, value: object) -> None:
    assert parse_setting(name, text) == value


@pytest.mark.parametrize(
    ("name", "text", "code", "message"),
    [
        ("max_rows_in_set", "10", 48, "Setting max_rows_in_set = '10' is not supported; accepted is '0'"),
        ("dialect", "kusto", 48, "'kusto' is not supported; accepted are 'clickhouse', "),
        ("dialect", "klingon", 36, "'spark'"),
        ("load_balancing", "best", 36, "'first_or_random', 'hostname_levenshtein_distance'"),
        ("session_timezone", "Mars", 36, "Mars"),
        ("optimize_move_to_prewhere", "often", 467, "often"),
        ("compatibility", "recent", 36, "recent"),
        ("max_thread", 1, 115, "Maybe you meant max_threads"),
    ],
)
def test_refused_value(name: str, text: object, code: int, message: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_setting(name, text)
    assert (caught.value.code, message in caught.value.message) == (code, True), caught.value


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [("storage_policy", "hot_cold", 48), ("index_granularity", "x", 72), ("index_granulraity", 1, 115)],
)
def test_refused_table_setting(name: str, value: object, code: int) -> None:
    with pytest.raises(UserError) as caught:
        parse_table_setting(name, value)
    assert caught.value.code == code
    assert name in caught.value.message


def test_a_limit_of_queries_of_no_size() -> None:
    """Of a table it counts for queries that read so many marks, and by default for none."""
    assert parse_table_setting("max_concurrent_queries", 1) == 1
    with pytest.raises(UserError) as caught:
        parse_table_setting("min_marks_to_honor_max_concurrent_queries", 1)
    assert caught.value.code == 48


def test_compatibility_gives_older_defaults() -> None:
    older = make_settings({"compatibility": "23.8"})
    assert older.output_format_json_quote_64bit_integers
    assert not make_settings({"compatibility": "23.8", "output_format_json_quote_64bit_integers": 0}).changes[
        "output_format_json_quote_64bit_integers"
    ]
    assert make_settings({"compatibility": "26.9"}).output_format_pretty_max_rows == 1000
    assert make_settings({"compatibility": ""}).output_format_pretty_max_rows == 1000


def test_default_takes_back(server: RunningServer) -> None:
    with server.client(settings={"session_id": "back"}) as client:
        client.execute("SET max_block_size = 7, replication_alter_partitions_sync = 0")
        assert client.rows("SELECT value FROM system.settings WHERE name = 'max_block_size'") == [["7"]]
        client.execute("SET max_block_size = DEFAULT")
        assert client.rows("SELECT value, changed FROM system.settings WHERE name = 'max_block_size'") == [["65409", 0]]
        changed = client.rows("SELECT name FROM system.settings WHERE changed")
        assert ["alter_sync"] in changed


def test_session_timezone(client: HttpClient) -> None:
    query = "SELECT toString(toDateTime(0)), timezone(), serverTimezone()"
    assert client.rows(query, settings={"session_timezone": "Asia/Tokyo"}) == [
        ["1970-01-01 09:00:00", "Asia/Tokyo", "UTC"]
    ]


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpClient]:
    """A server with profiles, and a session on it."""
    config = Config.model_validate(
        {
            "path": tmp_path_factory.mktemp("profiles"),
            "http_port": 0,
            "interserver_http_port": None,
            "users": {"default": {}, "web": {"profile": "careful"}},
            "profiles": {"default": {"max_block_size": 11}, "careful": {"max_block_size": 22, "max_threads": 1}},
        }
    )
    http, engine = HttpServer(config), Engine(config)
    engine.start()
    http.start(engine)
    with HttpClient(port=http.port, settings={"session_id": "profiles"}) as client:
        yield client
    http.stop()
    engine.stop()


BLOCK = "SELECT getSetting('max_block_size'), currentProfiles()"


def test_profiles(profiled: HttpClient) -> None:
    assert profiled.rows(BLOCK) == [[11, ["default"]]]
    assert profiled.rows(BLOCK, settings={"profile": "careful"})[0][0] == 22
    profiled.execute("SET profile = 'careful', max_threads = 3")
    assert profiled.rows("SELECT getSetting('max_block_size'), getSetting('max_threads')") == [[22, 3]]
    with HttpClient(port=profiled.port, user="web") as web:
        assert web.rows(BLOCK) == [[22, ["careful"]]]


@pytest.mark.parametrize("settings", [{"profile": "nobody"}, {}])
def test_a_profile_that_is_not_there(profiled: HttpClient, settings: dict[str, object]) -> None:
    with pytest.raises(PandoError) as caught:
        profiled.execute("SELECT 1" if settings else "SET profile = 'nobody'", settings=settings)
    assert (caught.value.code, "nobody" in caught.value.message) == (180, True)


@pytest.mark.parametrize("limit", ["max_result_rows = 3", "max_result_bytes = 30"])
def test_result_limits(client: HttpClient, limit: str) -> None:
    query = "SELECT number FROM numbers(10)"
    with pytest.raises(PandoError, match="Limit for result exceeded") as caught:
        client.execute(f"{query} SETTINGS {limit}")
    assert caught.value.code == 396
    part = client.rows(f"{query} SETTINGS {limit}, result_overflow_mode = 'break', max_block_size = 2")
    assert part == [[0], [1], [2], [3]]  # whole blocks, as ClickHouse answers
    assert client.rows(f"SELECT count() FROM numbers(10) SETTINGS {limit}") == [[10]]


@pytest.mark.parametrize(
    ("setting", "code"),
    [("nonsense = 1", 115), ("extremes = 1", 48), ("join_use_nulls = 1", 48), ("max_threads = 1", 0)],
)
def test_settings_of_a_subquery(client: HttpClient, setting: str, code: int) -> None:
    inner = f"SELECT * FROM (SELECT 1 SETTINGS {setting})"
    for query in (inner, f"WITH x AS (SELECT 1 SETTINGS {setting}) SELECT * FROM x"):
        if code == 0:
            assert client.rows(query) == [[1]]
            continue
        with pytest.raises(PandoError) as caught:
            client.execute(query)
        assert caught.value.code == code, query
