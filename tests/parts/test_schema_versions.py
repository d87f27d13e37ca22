"""Parts of several schema versions are read, merged and read with FINAL as one table."""

from __future__ import annotations

import pathlib
from dataclasses import asdict, dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from parts.common.errors import UnavailableError, UserError
from parts.format.primary_index import (
    MarkRange,
)
from parts.merge import FinalSource, merge_parts, read_final
from parts.read.part_reader import (
    Part,
    open_part,
)
from parts.table.table_description import Column, TableDescription, TableSchema, make_column_key
from parts.types import parse_type
from parts.write.part_writer import write_part
from sql.definitions.engines.table_engine import ServerDefaults
from sql.definitions.table_description import build_description
from sql.grammar.statement_parser import parse_statement
from sql.grammar.statements.statement import CreateTable
from sql.settings.merge_tree_settings import MergeTreeSettings
from tests.parts.generated import ALL_TYPES, KINDS, block_of, description_of, plain
from tests.parts.test_part_merge import NO_SYNC, merged, read
from tests.portions import one_in

ROWS = 20


@pytest.fixture(params=list(KINDS))
def old(request: pytest.FixtureRequest) -> TableDescription:
    return description_of([("k", "Int64"), ("s", "String")], ("k",), **KINDS[request.param])


def written(old: TableDescription, path: pathlib.Path) -> Part:
    write_part(path, block_of(old, [(i, f"s{i}") for i in range(ROWS)]), old, ())
    return open_part(path)


def altered(old: TableDescription, columns: str) -> TableDescription:
    """The description that ALTER TABLE … ADD COLUMN would leave, through ClickHouse's SQL."""
    statement = parse_statement(
        f"CREATE TABLE t (k Int64, s String, {columns}) ENGINE = MergeTree ORDER BY k"
    ).statement
    assert isinstance(statement, CreateTable)
    settings = MergeTreeSettings(**asdict(old.settings))
    return replace(build_description(statement, ServerDefaults(settings)), metadata_version=1)


ADDED = [
    ("c UInt8 DEFAULT 7", lambda i: 7),
    ("c String DEFAULT concat(s, '!')", lambda i: f"s{i}!"),
    ("c LowCardinality(String) DEFAULT concat('x', toString(k % 2))", lambda i: f"x{i % 2}"),
    ("c LowCardinality(Nullable(String)) DEFAULT if(k = 3, NULL, s)", lambda i: None if i == 3 else f"s{i}"),
    ("c Nullable(Int32) DEFAULT if(k % 3 = 0, NULL, k * 2)", lambda i: None if i % 3 == 0 else i * 2),
    ("c Array(Int64) DEFAULT [k, k + 1]", lambda i: [i, i + 1]),
    ("c Array(String) DEFAULT arrayMap(x -> concat(s, x), ['a', 'b'])", lambda i: [f"s{i}a", f"s{i}b"]),
    ("c Int64 MATERIALIZED k * k", lambda i: i * i),
    ("c Int64 DEFAULT d + 1, d Int64 DEFAULT e + 1, e Int64 ALIAS k * 10", lambda i: i * 10 + 2),
    ("c Int64 DEFAULT d, d Int32", lambda i: 0),
    ("c Nullable(String)", lambda i: None),
    ("c Array(Nullable(UInt8))", lambda i: []),
    ("c LowCardinality(Nullable(String))", lambda i: None),
    ("c Map(String, UInt8)", lambda i: []),
    ("c Tuple(a UInt8, b Array(String))", lambda i: {"a": 0, "b": []}),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "expected"), one_in(3, ADDED), ids=[columns for columns, _ in ADDED])
def test_a_column_that_a_part_lacks_has_its_default(
    columns: str, expected: object, old: TableDescription, tmp_path: pathlib.Path
) -> None:
    assert callable(expected)
    new = altered(old, columns)
    written(old, tmp_path / "all_0_0_0")
    part = open_part(tmp_path / "all_0_0_0", table_schema=new.schema)
    assert part.metadata_version == 0
    want = [expected(i) for i in range(ROWS)]
    batches = list(part.read(["c"], max_batch_rows=6))
    assert [value for batch in batches for value in batch.column(0).to_pylist()] == want
    assert all(batch.schema.field(0).type == new.schema.column("c").type.arrow for batch in batches)
    some = pa.Table.from_batches(list(part.read(["s", "c"], [MarkRange(1, 3)])))
    assert some.to_pydict() == {"s": [f"s{i}" for i in range(4, 12)], "c": want[4:12]}
    # Merged with a part that has the column, and read with FINAL.
    stored = new.schema.stored
    block = pa.Table.from_batches(list(part.read(stored.names)), stored.arrow).slice(0, 5)
    write_part(tmp_path / "all_1_1_0", block, new, ())
    younger = open_part(tmp_path / "all_1_1_0", table_schema=new.schema)
    assert younger.metadata_version == 1
    both = merged([part, younger], tmp_path / "merged", new, target_slice_rows=7)
    order = sorted([*range(ROWS), *range(5)])
    assert plain(read(both)).column("c").to_pylist() == [want[i] for i in order]
    assert both.metadata_version == 1
    final = pa.concat_tables(
        list(read_final([FinalSource(part), FinalSource(younger)], new, ["c"], target_slice_rows=7))
    )
    assert final.to_pydict() == {"c": [want[i] for i in order]}


def test_every_type_has_a_default(tmp_path: pathlib.Path) -> None:
    old = description_of([("k", "Int64")], ("k",), **NO_SYNC)
    write_part(tmp_path / "all_0_0_0", block_of(old, [(1,), (2,)]), old, ())
    names = {f"c{i}": parse_type(text) for i, text in enumerate(ALL_TYPES)}
    schema = TableSchema((Column("k", parse_type("Int64")), *(Column(name, type_) for name, type_ in names.items())))
    key = make_column_key(schema, ["k"])
    new = TableDescription(schema, key, key, make_column_key(schema, []), make_column_key(schema, []), old.settings)
    part = open_part(tmp_path / "all_0_0_0", table_schema=schema)
    block = pa.Table.from_batches(list(part.read(schema.names)), schema.arrow)
    write_part(tmp_path / "all_1_1_0", block, new, ())  # else a merge would write none of them
    younger = open_part(tmp_path / "all_1_1_0", table_schema=schema)
    rows = plain(read(merged([part, younger], tmp_path / "m", new))).to_pylist()
    for name, type_ in names.items():
        default = pa.repeat(pa.scalar(type_.omitted_value, type_.arrow), 1)
        default = default.dictionary_decode() if pa.types.is_dictionary(default.type) else default
        assert [row[name] for row in rows] == default.to_pylist() * 4, type_


@dataclass(frozen=True)
class Doubled:
    """A default without SQL."""

    columns: tuple[str, ...]

    def evaluate(self, block: pa.Table, rows: int) -> pa.ChunkedArray:
        assert block.num_rows == rows
        return pc.multiply(block.column(self.columns[0]), 2)


def test_defaults_that_need_each_other_are_refused(tmp_path: pathlib.Path) -> None:
    old = description_of([("k", "Int64")], ("k",), **NO_SYNC)
    write_part(tmp_path / "all_0_0_0", block_of(old, [(1,)]), old, ())
    int64 = parse_type("Int64")
    schema = TableSchema(
        (Column("k", int64), Column("a", int64, default=Doubled(("b",))), Column("b", int64, default=Doubled(("a",))))
    )
    with pytest.raises(UserError, match="a -> b -> a") as caught:
        list(open_part(tmp_path / "all_0_0_0", table_schema=schema).read(["a"]))
    assert caught.value.code == 174
    chain = TableSchema((schema.columns[0], schema.columns[1], Column("b", int64, default=Doubled(("k",)))))
    (batch,) = open_part(tmp_path / "all_0_0_0", table_schema=chain).read(["a"])
    assert batch.to_pydict() == {"a": [4]}


def test_the_version_is_no_part_of_the_content(old: TableDescription, tmp_path: pathlib.Path) -> None:
    """Replicas agree on rows; version 0 is written as it always was."""
    first = written(old, tmp_path / "all_0_0_0")
    later = written(replace(old, metadata_version=12), tmp_path / "all_1_1_0")
    assert (first.metadata_version, later.metadata_version) == (0, 12)
    assert first.content_hash == later.content_hash
    assert "metadata_version" not in first.checksums.files
    is_packed = "data.bin" not in {file.name for file in first.path.iterdir()} and first.part_type == "Compact"
    versions = ((2, 0), (2, 0)) if is_packed else ((1, 0), (1, 1))
    assert (first.checksums.version, later.checksums.version) == versions
    first.verify()
    later.verify()
    assert {file.name for file in first.path.iterdir()} ^ {file.name for file in later.path.iterdir()} == (
        {"metadata_version"} if first.part_type == "Wide" else set()
    )


def test_a_replica_does_not_merge_what_it_does_not_know(old: TableDescription, tmp_path: pathlib.Path) -> None:
    written(replace(old, metadata_version=3), tmp_path / "all_0_0_0")
    sources = [open_part(tmp_path / "all_0_0_0")]
    with pytest.raises(UnavailableError, match=r"all_0_0_0 was written under schema version 3.* applied 2") as caught:
        merge_parts(sources, tmp_path / "m", replace(old, metadata_version=2))
    assert caught.value.code == 342
    assert not (tmp_path / "m").exists()
