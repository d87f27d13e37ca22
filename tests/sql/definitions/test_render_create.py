"""A table definition and its text: each gives the other back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sql.definitions.definition_text import render_create
from sql.grammar.clause_types import (
    ColumnClause,
    TableRef,
)
from sql.grammar.statement_parser import parse_statement
from sql.grammar.statements.statement import (
    CreateTable,
    EngineClause,
)

TYPES = ["UInt8", "Nullable(String)", "Array(Tuple(a Int8, b Map(String, Date)))", "DateTime64(3, 'UTC')",
         "Enum8('a\\'b' = 1, 'c' = 2)", "LowCardinality(Nullable(String))", "Decimal(10, 2)"]  # fmt: skip
EXPRESSIONS = ["1", "now()", "a + `b c`", "(1, 'x;)')", "[1, 2][1]", "if(a = 'comment', 1, 2)", "x -> x"]
names = st.text(min_size=1, max_size=8).filter(lambda text: text.isprintable())
texts = st.text(max_size=10).filter(lambda text: "\0" not in text)
expressions = st.sampled_from(EXPRESSIONS)

columns = st.builds(
    ColumnClause,
    name=names,
    type=st.sampled_from(TYPES),
    default_kind=st.sampled_from(["", "DEFAULT", "MATERIALIZED", "ALIAS"]),
    default_expression=expressions,
    codec=st.sampled_from(["", "LZ4", "Delta, ZSTD(3)"]),
    comment=texts,
).map(lambda c: c if c.default_kind else ColumnClause(c.name, c.type, "", "", c.codec, c.comment))

tables = st.builds(
    CreateTable,
    table=st.builds(TableRef, st.none() | names, names),
    columns=st.lists(columns, min_size=1, max_size=4).map(tuple),
    engine=st.sampled_from(
        [None, EngineClause("MergeTree"), EngineClause("ReplicatedMergeTree", ("'/p\\'/x'", "'{r}'"))]
    ),
    if_not_exists=st.booleans(),
    attach=st.booleans(),
    partition_by=st.just("") | expressions,
    order_by=st.just("") | expressions,
    primary_key=st.just("") | expressions,
    sample_by=st.just("") | expressions,
    settings=st.dictionaries(
        st.sampled_from(["a", "b", "c"]), st.integers(-(2**63), 2**64 - 1) | st.booleans() | texts | st.just(1.5)
    ),
    comment=texts,
)


@pytest.mark.long
@settings(deadline=None)
@given(tables)
def test_round_trip(create: CreateTable) -> None:
    text = render_create(create)
    parsed = parse_statement(text).statement
    assert parsed == create
    assert render_create(create) == text


def test_layout() -> None:
    create = parse_statement(
        "create table d.t (a int default 1 comment 'x') engine MergeTree order by a settings b=1"
    ).statement
    assert isinstance(create, CreateTable)
    assert render_create(create) == (
        "CREATE TABLE d.t\n(\n    `a` Int32 DEFAULT 1 COMMENT 'x'\n)\nENGINE = MergeTree\nORDER BY a\nSETTINGS b = 1"
    )
