"""Statements about groups of links: their texts, and CREATE as text again."""

from __future__ import annotations

import pytest

from parts.common.errors import UserError
from sql.grammar.clause_types import SettingLiteral
from sql.grammar.statement_parser import parse_statement
from sql.grammar.statements.link_group_statements import (
    AlterLinkGroup,
    CreateLinkGroup,
    DropLinkGroup,
    ShowCreateLinkGroup,
    render_create_group,
)
from sql.grammar.statements.link_statements import AlterLink, DropLink


def test_groups_of_links() -> None:
    settings: dict[str, SettingLiteral] = {"transactional": 1}
    made = CreateLinkGroup("g", ("l1", "west.l 2"), if_not_exists=True, settings=settings)
    text = "CREATE REPLICATION LINK GROUP IF NOT EXISTS g (l1, `west.l 2`)\nSETTINGS transactional = 1"
    assert render_create_group(made) == text
    assert parse_statement(text).statement == made
    assert parse_statement("ALTER REPLICATION LINK GROUP g ADD l").statement == AlterLinkGroup("g", "l", is_added=True)
    assert parse_statement("ALTER REPLICATION LINK GROUP g REMOVE 'l'").statement == AlterLinkGroup("g", "l", False)
    assert parse_statement("DROP REPLICATION LINK GROUP IF EXISTS g").statement == DropLinkGroup("g", if_exists=True)
    assert parse_statement("SHOW CREATE REPLICATION LINK GROUP g").statement == ShowCreateLinkGroup("g")
    assert parse_statement("ALTER REPLICATION LINK group ENABLE").statement == AlterLink("group", {"enabled": True})
    assert parse_statement("DROP REPLICATION LINK group").statement == DropLink("group")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE REPLICATION LINK GROUP g", r"\("),
        ("CREATE REPLICATION LINK GROUP g ()", "name"),
        ("ALTER REPLICATION LINK GROUP g DROP l", "ADD"),
    ],
)
def test_what_a_group_lacks_is_named(text: str, expected: str) -> None:
    with pytest.raises(UserError, match=expected) as error:
        parse_statement(text)
    assert error.value.code == 62
