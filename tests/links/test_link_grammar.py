"""Statements about links: their texts, what they are, and CREATE as text again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parts.common.errors import UserError
from sql.grammar.clause_types import TableRef
from sql.grammar.statement_parser import parse_statement
from sql.grammar.statements.link_statements import (
    AlterLink,
    BootstrapLink,
    CreateLink,
    DropLink,
    ForgetLinkOrigin,
    LinkStatement,
    PromoteLink,
    RejoinLink,
    ShowCreateLink,
    SwitchLink,
    WaitLink,
    render_create_link,
)
from sql.grammar.statements.statement import SelectQuery, SystemCommand

T = TableRef("db", "t")

STATEMENTS: list[tuple[str, LinkStatement]] = [
    ("CREATE REPLICATION LINK l ON db.t FROM CLUSTER west", CreateLink("l", "west", T)),
    ("create replication link l on table t from cluster west", CreateLink("l", "west", TableRef(None, "t"))),
    ("CREATE REPLICATION LINK IF NOT EXISTS l ON db.t FROM CLUSTER 'west'",
     CreateLink("l", "west", T, if_not_exists=True)),
    ("CREATE REPLICATION LINK l ON db.t FROM CLUSTER west TABLE s.u",
     CreateLink("l", "west", T, TableRef("s", "u"))),
    ("CREATE REPLICATION LINK l ON db.t FROM CLUSTER west TABLE u SETTINGS mode='async', link_quorum=3, two_way=true",
     CreateLink("l", "west", T, TableRef(None, "u"), settings={"mode": "async", "link_quorum": 3, "two_way": True})),
    ("CREATE REPLICATION LINK `a.b` ON DATABASE db FROM CLUSTER west", CreateLink("a.b", "west", database="db")),
    ("CREATE REPLICATION LINK l ON DATABASE db FROM CLUSTER west DATABASE src SETTINGS enabled = 0",
     CreateLink("l", "west", database="db", source_database="src", settings={"enabled": 0})),
    ("CREATE REPLICATION LINK group ON database.t FROM CLUSTER west",
     CreateLink("group", "west", TableRef("database", "t"))),
    ("ALTER REPLICATION LINK l ENABLE", AlterLink("l", {"enabled": True})),
    ("ALTER REPLICATION LINK l DISABLE", AlterLink("l", {"enabled": False})),
    ("ALTER REPLICATION LINK l MODE async", AlterLink("l", {"mode": "async"})),
    ("ALTER REPLICATION LINK l MODE 'SYNC'", AlterLink("l", {"mode": "sync"})),
    ("ALTER REPLICATION LINK l MODIFY SETTING link_quorum = 1, run_views = DEFAULT",
     AlterLink("l", {"link_quorum": 1, "run_views": None})),
    ("DROP REPLICATION LINK l", DropLink("l")),
    ("DROP REPLICATION LINK IF EXISTS 'east/l'", DropLink("east/l", if_exists=True)),
    ("SHOW CREATE REPLICATION LINK l", ShowCreateLink("l")),
    ("SYSTEM WAIT REPLICATION LINK l", WaitLink("l")),
    ("SYSTEM WAIT REPLICATION LINK l POSITION 'p' TIMEOUT 1.5", WaitLink("l", "p", 1.5)),
    ("SYSTEM BOOTSTRAP REPLICATION LINK l", BootstrapLink("l")),
    ("SYSTEM FORGET LINK ORIGIN 'o' ON db.t", ForgetLinkOrigin("o", T)),
    ("SYSTEM FORGET LINK ORIGIN 'o' ON TABLE db.t FORCE", ForgetLinkOrigin("o", T, force=True)),
    ("SYSTEM PROMOTE REPLICATION LINK l", PromoteLink("l")),
    ("SYSTEM PROMOTE REPLICATION LINK l FORCE", PromoteLink("l", force=True)),
    ("SYSTEM PROMOTE REPLICATION LINK GROUP g CANCEL", PromoteLink("g", is_group=True, cancel=True)),
    ("SYSTEM SWITCH REPLICATION LINK group", SwitchLink("group")),
    ("SYSTEM SWITCH REPLICATION LINK l CANCEL", SwitchLink("l", cancel=True)),
    ("SYSTEM REJOIN REPLICATION LINK l FROM CLUSTER c", RejoinLink("l", "c")),
    ("SYSTEM REJOIN REPLICATION LINK GROUP g FROM CLUSTER c DETACH TAIL", RejoinLink("g", "c", True, True)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "statement"), STATEMENTS)
def test_texts(text: str, statement: LinkStatement) -> None:
    assert parse_statement(text).statement == statement
    parsed = parse_statement(f"{text} FORMAT JSON")
    assert parsed.format == "JSON"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE REPLICATION LINK", "name of a link"),
        ("CREATE REPLICATION LINK l", "ON"),
        ("CREATE REPLICATION LINK l ON db.t", "FROM CLUSTER"),
        ("CREATE REPLICATION LINK l ON db.t FROM CLUSTER", "cluster name"),
        ("CREATE REPLICATION LINK l ON db.t FROM CLUSTER west DATABASE d", "end of query"),
        ("CREATE REPLICATION LINK l ON DATABASE d FROM CLUSTER west TABLE t", "end of query"),
        ("CREATE OR REPLACE REPLICATION LINK l ON db.t FROM CLUSTER west", "TABLE"),
        ("ALTER REPLICATION LINK l", "ENABLE"),
        ("DROP REPLICATION LINK", "name of a link"),
        ("DETACH REPLICATION LINK l", "TABLE"),
        ("SYSTEM WAIT REPLICATION LINK l TIMEOUT soon", "seconds"),
        ("SYSTEM FORGET LINK ORIGIN o ON t", "origin"),
    ],
)
def test_what_is_missing_is_named(text: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected) as error:
        parse_statement(text)
    assert error.value.code == 62


@pytest.mark.parametrize(
    "text",
    [],
)
def test_what_links_do_not_do_yet_is_refused_by_name(text: str) -> None:
    with pytest.raises(UserError, match="REPLICATION LINK") as error:
        parse_statement(text)
    assert error.value.code == 48


def test_show_is_a_query() -> None:
    shown = parse_statement("SHOW REPLICATION LINKS LIKE 'o%'").statement
    assert isinstance(shown, SelectQuery)
    assert "FROM system.replication_links WHERE name LIKE 'o%'" in shown.query
    assert parse_statement("SYSTEM SYNC REPLICA t").statement == SystemCommand("SYNC REPLICA", TableRef(None, "t"))


_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
_VALUES = st.one_of(st.integers(-(10**9), 10**9), st.booleans(), st.text("ab'\\\n", max_size=6), st.none())


@given(
    _NAMES,
    _NAMES,
    st.tuples(st.none() | _NAMES, _NAMES),
    st.none() | st.tuples(st.none() | _NAMES, _NAMES),
    st.booleans(),
    st.dictionaries(st.sampled_from(["mode", "link_quorum", "x"]), _VALUES),
)
def test_create_is_parsed_from_its_own_text(
    name: str,
    cluster: str,
    target: tuple[str | None, str],
    source: tuple[str | None, str] | None,
    if_not_exists: bool,
    settings: dict[str, object],
) -> None:
    origin = TableRef(*source) if source is not None else None
    of_table = CreateLink(name, cluster, TableRef(*target), origin, None, None, if_not_exists, settings)  # type: ignore[arg-type]
    of_database = CreateLink(name, cluster, None, None, target[1], target[0], if_not_exists, settings)  # type: ignore[arg-type]
    for statement in (of_table, of_database):
        assert parse_statement(render_create_link(statement)).statement == statement
