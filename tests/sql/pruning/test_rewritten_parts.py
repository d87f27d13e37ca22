"""Skip indexes of parts that mutations make: those of columns that change are made anew, the others stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.tables.merges.mutation_execution import HeldPartsCatalog
from parts.read.part_reader import Part, open_part
from sql.grammar.statements.mutate_table import format_mutations, parse_stored_mutations
from sql.mutations.mutation_queries import MutationStep
from sql.mutations.part_mutation import PartMutator
from sql.run.query_engine import QueryEngine
from tests.sql.pruning.conftest import Local

CREATE = """
    CREATE TABLE t (id UInt64, v UInt64, s String, INDEX i v TYPE minmax GRANULARITY 2, INDEX j s TYPE bloom_filter,
    INDEX k (v, s) TYPE set(100)) ENGINE = MergeTree ORDER BY id SETTINGS index_granularity = 8
"""
WIDE, COMPACT = ", min_bytes_for_wide_part = 0", ", min_bytes_for_full_part_storage = 0"


@pytest.fixture(params=[WIDE, COMPACT, ""], ids=["wide", "compact", "packed"])
def table(request: pytest.FixtureRequest, local: Local) -> Local:
    local.run(CREATE + request.param)
    local.run("INSERT INTO t SELECT number, number % 7, toString(number) FROM numbers(100)")
    return local


def part_of(local: Local) -> Part:
    (part,) = local.engine.catalog.table("default", "t").store.list_active()
    return part


def mutated(local: Local, text: str, directory: Path) -> Part:
    """The part of the table as the commands leave it."""
    definition = local.engine.catalog.table("default", "t").definition
    commands = parse_stored_mutations(text)
    assert parse_stored_mutations(format_mutations(commands)) == commands
    directory.mkdir()
    run = PartMutator(QueryEngine(), definition.description, "t", HeldPartsCatalog({}))
    run.apply(part_of(local), [MutationStep(command, "default", "UTC") for command in commands], directory)
    part = open_part(directory, table_schema=definition.description.schema)
    part.verify()
    return part


def indexes_of(local: Local, part: Part) -> dict[str, object]:
    description = local.engine.catalog.table("default", "t").definition.description
    found = {index.name: part.read_skip_index(index) for index in description.indexes}
    return {name: [array.to_pylist() for _, _, array in values] for name, values in found.items() if values is not None}


@pytest.mark.parametrize(
    "text", ["UPDATE v = v + 1000 WHERE id > 50", "DELETE WHERE id < 60", "UPDATE s = 'x' WHERE id = 3"]
)
def test_as_if_written_so(table: Local, tmp_path: Path, text: str) -> None:
    changed = mutated(table, text, tmp_path / "changed")
    found = indexes_of(table, changed)
    table.run("CREATE TABLE other AS t")
    values = ", ".join(
        f"({row['id']}, {row['v']}, '{row['s']}')" for b in changed.read(("id", "v", "s")) for row in b.to_pylist()
    )
    table.run(f"INSERT INTO other VALUES {values}")
    (other,) = table.engine.catalog.table("default", "other").store.list_active()
    assert found == indexes_of(table, other)
    assert set(found) == {"i", "j", "k"}


def test_index_is_made_and_cleared(table: Local, tmp_path: Path) -> None:
    before = indexes_of(table, part_of(table))
    table.run("ALTER TABLE t DROP INDEX i, DROP INDEX k")
    table.run("ALTER TABLE t ADD INDEX k (v, s) TYPE set(100), ADD INDEX l id TYPE minmax, ADD COLUMN n UInt8")
    table.run("ALTER TABLE t ADD INDEX m n TYPE minmax")
    assert set(indexes_of(table, part_of(table))) == {"j", "k"}
    made = mutated(table, "MATERIALIZE INDEX l, MATERIALIZE INDEX nope, MATERIALIZE INDEX m", tmp_path / "made")
    found = indexes_of(table, made)
    assert found.pop("l")[0][:2] == [0, 8]  # type: ignore[index]
    takes_up = made.part_type != "Wide"  # the column that it lacks
    assert (found.pop("m", None) is not None) is takes_up
    assert found == {name: before[name] for name in ("j", "k")}
    assert (made.content_hash != part_of(table).content_hash) is takes_up
    cleared = mutated(table, "CLEAR INDEX j, CLEAR INDEX nope", tmp_path / "cleared")
    assert set(indexes_of(table, cleared)) - {"l"} == {"k"}  # a compact part is written anew, with what it lacked


def test_system_tables(table: Local) -> None:
    rows = table.run(
        "SELECT name, type, type_full, expr, toString(creation), granularity, data_compressed_bytes > 0, "
        "data_uncompressed_bytes > 0 FROM system.data_skipping_indices WHERE table = 't'"
    )
    assert rows == [
        ("i", "minmax", "minmax", "v", "Explicit", 2, 1, 1),
        ("j", "bloom_filter", "bloom_filter", "s", "Explicit", 1, 1, 1),
        ("k", "set", "set(100)", "v, s", "Explicit", 1, 1, 1),
    ]
    sizes = "sum(data_compressed_bytes), sum(data_uncompressed_bytes)"
    (expected,) = table.run(f"SELECT {sizes} FROM system.data_skipping_indices WHERE table = 't'")
    secondary = "secondary_indices_compressed_bytes, secondary_indices_uncompressed_bytes"
    assert table.run(f"SELECT {secondary} FROM system.parts WHERE table = 't'") == [expected]


def test_statements(table: Local) -> None:
    sizes = "SELECT secondary_indices_compressed_bytes > 0 FROM system.parts WHERE table = 't' AND active"
    table.run("ALTER TABLE t CLEAR INDEX i, CLEAR INDEX j, CLEAR INDEX k SETTINGS mutations_sync = 2")
    cleared = table.run(sizes)
    table.run("ALTER TABLE t MATERIALIZE INDEX i IN PARTITION tuple() SETTINGS mutations_sync = 2")
    assert table.run(sizes) == [(1,)]
    assert "i" in indexes_of(table, part_of(table))
    assert cleared == [(0,)] or part_of(table).part_type == "Compact"
    assert table.value("SELECT count() FROM t WHERE v = 3") == 14
