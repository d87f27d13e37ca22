"""A target whose definition is not its source's: what it covers, rewritten rows, and ALTERs that are carried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from engine.simulator.simulated_node import Crash, SimulatedNode
from engine.tables.capabilities.table_links import UncoveredSchema
from engine.tables.replicated.links.widened_types import goes_into
from engine.tables.replicated.replicated_table import ReplicatedTable
from parts.types import parse_type
from tests.links.linked_tables import COLUMNS, PARTITIONED, LinkedTables, linked_tables

Make = Callable[..., LinkedTables]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    opened: list[AbstractContextManager[LinkedTables]] = []

    def open_tables(target: str, source: str = COLUMNS, rest: str = PARTITIONED, **settings: object) -> LinkedTables:
        context = linked_tables(tmp_path, target, settings.pop("target_rest", rest), **settings)  # type: ignore[arg-type]
        tables = context.__enter__()
        opened.append(context)
        tables.create_source(source, rest)
        tables.begin()
        tables.keep_definition()
        return tables

    yield open_tables
    for context in opened:
        context.__exit__(None, None, None)


def hashes(table: ReplicatedTable) -> list[str]:
    return sorted(part.content_hash for part in table.store.list_active())


@pytest.mark.parametrize(
    ("source", "target", "covers"),
    [
        ("UInt8", "UInt16", True),
        ("UInt8", "Int16", True),
        ("UInt8", "Int8", False),
        ("UInt32", "Int32", False),
        ("Int64", "Int32", False),
        ("Int32", "Float64", True),
        ("Int64", "Float64", False),
        ("Float32", "Float64", True),
        ("Float64", "Float32", False),
        ("Decimal(9, 2)", "Decimal(18, 4)", True),
        ("Decimal(9, 2)", "Decimal(9, 4)", False),
        ("UInt8", "Nullable(UInt8)", True),
        ("Nullable(UInt8)", "UInt8", False),
        ("Nullable(UInt8)", "Nullable(UInt32)", True),
        ("LowCardinality(String)", "String", True),
        ("String", "LowCardinality(String)", True),
        ("LowCardinality(Nullable(String))", "String", False),
        ("FixedString(4)", "String", True),
        ("String", "FixedString(4)", False),
        ("Date", "Date32", True),
        ("Date32", "Date", False),
        ("DateTime", "DateTime64(3)", True),
        ("DateTime", "DateTime('UTC')", True),
        ("DateTime64(3)", "DateTime64(6)", True),
        ("DateTime64(3)", "DateTime64(9)", False),
        ("DateTime64(6)", "DateTime64(3)", False),
        ("Enum8('a' = 1)", "Enum8('a' = 1, 'b' = 2)", True),
        ("Enum8('a' = 1)", "Enum8('a' = 2)", False),
        ("UUID", "String", True),
        ("Float64", "String", False),
        ("Array(UInt8)", "Array(UInt64)", True),
        ("Array(UInt8)", "UInt64", False),
        ("Map(String, UInt8)", "Map(String, UInt16)", True),
        ("Tuple(a UInt8)", "Tuple(a UInt16)", True),
        ("Tuple(a UInt8)", "Tuple(b UInt16)", False),
        ("Tuple(a UInt8)", "Tuple(a UInt8, b UInt8)", False),
    ],
)
def test_into_which_types_values_go(source: str, target: str, covers: bool) -> None:
    assert goes_into(parse_type(source), parse_type(target)) is covers


def test_rows_are_written_anew_where_types_are_wider_and_columns_more(make: Make) -> None:
    tables = make(
        "p UInt16, k UInt64, v Nullable(String), t String, twice UInt64 MATERIALIZED k * 2, w UInt8 DEFAULT 5",
        "p UInt16, k UInt64, v Int32, t LowCardinality(String)",
    )
    assert tables.target().explain_uncovered(tables.source_table(), {}) == []
    tables.first.sql("INSERT INTO source VALUES (1, 1, -5, 'x'), (2, 2, 6, 'y')")
    applied = tables.apply()
    assert (applied.rows, applied.blocks) == (2, 2)
    tables.settle()
    for replica in (0, 1):
        assert tables.rows(replica=replica, columns="p, k, v, t, twice, w") == [
            (1, 1, "-5", "x", 2, 5),
            (2, 2, "6", "y", 4, 5),
        ]
    tables.first.sql("ALTER TABLE source DELETE WHERE k = 1", mutations_sync=0)
    tables.apply()
    tables.table.work_until(lambda: len(tables.rows()) == 1)


def test_what_is_not_covered_pauses_and_goes_on_by_itself(make: Make) -> None:
    tables = make("p UInt16, k UInt32, x UInt8", "p UInt16, k UInt64, v UInt64")
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0), (1, 2, 0)")
    with pytest.raises(UncoveredSchema) as caught:
        tables.apply()
    assert caught.value.rows == 2
    message = str(caught.value)
    assert "Column k is a UInt64 at the source, and not every value of it goes into the target's UInt32" in message
    assert "Column v UInt64 of the source is missing at the target" in message
    assert len(tables.target().explain_uncovered(tables.source_table(), {})) == 2
    tables.first.sql("ALTER TABLE costs ADD COLUMN v UInt64, MODIFY COLUMN x Int64")
    with pytest.raises(UncoveredSchema):
        tables.apply()
    assert tables.rows() == []


def test_another_partition_key_takes_inserts_alone(make: Make) -> None:
    tables = make(COLUMNS, target_rest="PARTITION BY k % 2 ORDER BY k")
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0), (1, 2, 0), (2, 3, 0)")
    applied = tables.apply()
    assert (applied.rows, applied.blocks) == (3, 3)
    tables.must_be_equal()
    tables.first.sql("ALTER TABLE source DROP PARTITION 1")
    with pytest.raises(UncoveredSchema, match="a command on partitions"):
        tables.apply()


def test_a_table_that_collects_takes_commands_if_it_is_told_to(make: Make) -> None:
    tables = make(COLUMNS, preserve_timestamps=False)
    tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
    tables.apply()
    tables.first.sql("INSERT INTO costs VALUES (1, 2, 0)")
    tables.first.sql("ALTER TABLE source DROP PARTITION 1")
    with pytest.raises(
        UncoveredSchema, match=r"a command that drops rows came .* LINK l MODIFY SETTING apply_commands"
    ):
        tables.apply()
    assert len(tables.rows()) == 2
    tables.link = replace(tables.link, settings={**tables.link.settings, "apply_commands": True})
    tables.apply()
    tables.table.settle()
    assert tables.rows() == []


def test_a_replacing_target_takes_files_of_a_plain_source(tmp_path: Path) -> None:
    with linked_tables(tmp_path) as tables:
        tables.first.sql(
            "CREATE TABLE source (p UInt16, k UInt64, v UInt64) "
            "ENGINE = ReplicatedReplacingMergeTree('/tables/source', '{replica}') PARTITION BY p ORDER BY k"
        )
        tables.begin()
        tables.first.sql("INSERT INTO source VALUES (1, 1, 0)")
        tables.apply()
        tables.must_be_equal()
        assert hashes(tables.source) == hashes(tables.table.table)


# -- ALTERs that are carried -------------------------------------------------------------------------------------------

ALTERS = (
    "ADD COLUMN w UInt8 DEFAULT 3",
    "ADD COLUMN first String FIRST",
    "MODIFY COLUMN v String",
    "RENAME COLUMN v TO value",
    "DROP COLUMN first",
    "ADD INDEX i w TYPE minmax GRANULARITY 1",
    "MODIFY COLUMN w DEFAULT 4",
    "ADD COLUMN z Array(UInt8)",
)


def show(tables: LinkedTables, table: str, replica: int = 0) -> object:
    names = "name, type, default_kind, default_expression"
    return tables.servers[replica].sql(f"SELECT {names} FROM system.columns WHERE table = '{table}' ORDER BY position")[
        1
    ]


def test_a_copy_stays_a_copy(make: Make) -> None:
    """Blocks before, between and behind ALTERs, in one batch: files travel all the time."""
    tables = make(COLUMNS, replicate_ddl=True)
    tables.first.sql("INSERT INTO source (p, k) VALUES (1, 0)")
    tables.apply()
    for number, command in enumerate(ALTERS):
        tables.first.sql(f"INSERT INTO source (p, k) VALUES (1, {2 * number + 1})")
        tables.alter_source(command)
        tables.first.sql(f"INSERT INTO source (p, k) VALUES (2, {2 * number + 2})")
        if number % 3 == 2:
            tables.apply()
    tables.apply()
    tables.must_be_equal()
    assert show(tables, "costs") == show(tables, "source")
    source = tables.source_table()
    assert tables.target().explain_uncovered(source, {}) == ()
    assert hashes(tables.source) == hashes(tables.table.table)


def test_a_batch_that_ends_before_an_alter_is_taken(make: Make) -> None:
    """Its rows are read by the source's definition of now, which has a column that no ALTER has brought yet."""
    tables = make(COLUMNS, replicate_ddl=True)
    tables.first.sql("INSERT INTO source (p, k) VALUES (1, 0)")
    before = tables.batch()
    tables.alter_source("ADD COLUMN later UInt64 DEFAULT k + 7")
    tables.first.sql("INSERT INTO source (p, k) VALUES (1, 1)")
    tables.apply(replace(before, source=tables.source_table()))
    tables.settle()
    assert tables.rows() == [(1, 0, 0, 7)]
    tables.apply()
    tables.must_be_equal()
    assert show(tables, "costs") == show(tables, "source")
    tables.alter_source("DROP COLUMN later")
    tables.apply()
    tables.must_be_equal()


def test_a_wider_target_gets_what_it_lacks(make: Make) -> None:
    """It keeps its own columns; its own default stays where the source changes nothing."""
    tables = make("p UInt16, k UInt64, v Nullable(String), own UInt8 DEFAULT 9", replicate_ddl=True)
    tables.first.sql("INSERT INTO source VALUES (1, 1, 1)")
    tables.apply()
    for number, command in enumerate(ALTERS):
        tables.alter_source(command)
        tables.first.sql(f"INSERT INTO source (p, k) VALUES (1, {number + 2})")
        tables.apply()
    tables.settle()
    names = [row[0] for row in tables.first.sql("SELECT name FROM system.columns WHERE table = 'source'")[1]]
    for replica in (0, 1):
        rows = tables.rows(replica=replica, columns=", ".join(names))
        assert [row[:2] for row in rows] == [row[:2] for row in tables.rows("source", columns=", ".join(names))]
        assert set(tables.rows(replica=replica, columns="own")) == {(9,)}


def test_without_replicate_ddl_it_pauses_until_somebody_alters(make: Make) -> None:
    tables = make(COLUMNS)
    tables.alter_source("ADD COLUMN w UInt8")
    tables.first.sql("INSERT INTO source VALUES (1, 1, 1, 1)")
    with pytest.raises(UncoveredSchema, match="Column w UInt8 of the source is missing at the target"):
        tables.apply()
    tables.first.sql("ALTER TABLE costs ADD COLUMN w UInt8")
    assert tables.apply().rows == 1
    tables.must_be_equal()


def test_an_alter_that_the_target_cannot_follow(make: Make) -> None:
    tables = make("p UInt16, k UInt64, v UInt64, d UInt64 DEFAULT v", replicate_ddl=True)
    tables.first.sql("INSERT INTO source VALUES (1, 1, 1)")
    tables.apply()
    tables.alter_source("DROP COLUMN v")
    tables.first.sql("INSERT INTO source VALUES (1, 2)")
    with pytest.raises(UncoveredSchema, match=r"cannot be carried out on default[.]costs") as caught:
        tables.apply()
    assert caught.value.rows == 1
    tables.first.sql("ALTER TABLE costs MODIFY COLUMN d REMOVE DEFAULT")
    assert tables.apply().is_applied
    tables.settle()
    assert tables.rows(columns="p, k") == [(1, 1), (1, 2)]
    assert [row[0] for row in show(tables, "costs")] == ["p", "k", "d"]  # type: ignore[attr-defined]


def test_a_crash_between_the_alter_and_the_commit(make: Make) -> None:
    tables = make(COLUMNS, replicate_ddl=True)
    tables.first.sql("INSERT INTO source VALUES (1, 1, 1)")
    tables.apply()
    tables.alter_source("ADD COLUMN w UInt8 DEFAULT 3")
    tables.alter_source("DROP COLUMN w")
    tables.first.sql("INSERT INTO source VALUES (1, 2, 2)")
    second = tables.servers[1]

    def on_failpoint(node: SimulatedNode, name: str) -> None:
        if node is second and name == "link.after_stage":
            node.crash_here()

    tables.table.servers.on_failpoint = on_failpoint
    with pytest.raises(Crash):
        tables.apply(replica=1)
    tables.heal()
    assert tables.apply(replica=1).is_applied
    tables.must_be_equal()
    assert show(tables, "costs") == show(tables, "source")


def test_a_mutation_before_an_alter_of_its_column(make: Make) -> None:
    """Both come in one batch: the mutation is committed before the ALTER is carried out."""
    tables = make(COLUMNS, replicate_ddl=True)
    tables.first.sql("INSERT INTO source VALUES (1, 1, 1), (1, 2, 2)")
    tables.apply()
    tables.settle()
    tables.first.sql("ALTER TABLE source DELETE WHERE v = 1", mutations_sync=2)
    tables.alter_source("DROP COLUMN v")
    tables.first.sql("INSERT INTO source VALUES (1, 3)")
    tables.table.work_until(lambda: is_applied(tables))
    tables.must_be_equal()
    assert tables.rows() == [(1, 2), (1, 3)]
    assert show(tables, "costs") == show(tables, "source")


def is_applied(tables: LinkedTables) -> bool:
    """The link tries again while the mutation runs, which keeps the ALTER waiting."""
    try:
        return tables.apply().is_applied
    except UncoveredSchema as error:
        if "is not finished yet" not in str(error):
            raise
        return False


def test_constraints_are_checked_only_where_the_link_says_so(make: Make) -> None:
    tables = make(f"{COLUMNS}, CONSTRAINT small CHECK k < 10")
    tables.first.sql("INSERT INTO source VALUES (1, 1, 1)")
    tables.apply()
    tables.first.sql("INSERT INTO source VALUES (1, 11, 1)")
    tables.with_settings(check_constraints=True)
    with pytest.raises(UncoveredSchema, match="violates a constraint of the target"):
        tables.apply()
    tables.with_settings(check_constraints=False)
    assert tables.apply().rows == 1
