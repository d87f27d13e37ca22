"""The statements about transactional groups of links: as plain data, from text, and as text again.

::

    CREATE REPLICATION LINK GROUP [IF NOT EXISTS] g (link, …) [SETTINGS transactional = 1];
    ALTER REPLICATION LINK GROUP g ADD | REMOVE link;    DROP REPLICATION LINK GROUP [IF EXISTS] g;
    SHOW REPLICATION LINK GROUPS [[NOT] LIKE | ILIKE 'pattern'];    SHOW CREATE REPLICATION LINK GROUP g
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sql.grammar.clause_types import SettingLiteral
from sql.grammar.common_clauses import accept_if_exists, accept_if_not_exists, parse_settings_clause, render_settings
from sql.grammar.tokens import TokenStream, quote_identifier_if_needed

_NO_NAMES = ("ON", "ENABLE", "DISABLE", "MODE", "MODIFY")


@dataclass(frozen=True, slots=True)
class CreateLinkGroup:
    """``CREATE REPLICATION LINK GROUP``."""

    name: str
    links: tuple[str, ...]
    if_not_exists: bool = False
    settings: dict[str, SettingLiteral] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AlterLinkGroup:
    """``ALTER REPLICATION LINK GROUP``: one link enters or leaves."""

    name: str
    link: str
    is_added: bool


@dataclass(frozen=True, slots=True)
class DropLinkGroup:
    """``DROP REPLICATION LINK GROUP``: its links go on, each by itself."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ShowCreateLinkGroup:
    name: str


LinkGroupStatement = CreateLinkGroup | AlterLinkGroup | DropLinkGroup | ShowCreateLinkGroup


def accept_group(stream: TokenStream) -> bool:
    """Takes GROUP behind REPLICATION LINK, unless it is the name of a link."""
    following = stream.peek(1)
    is_named = following.is_identifier or following.kind == "string"
    return stream.at("GROUP") and is_named and following.upper not in _NO_NAMES and stream.accept("GROUP")


def parse_create_group(stream: TokenStream) -> CreateLinkGroup:
    """Parses CREATE REPLICATION LINK GROUP behind GROUP."""
    if_not_exists = accept_if_not_exists(stream)
    name = _parse_name(stream)
    stream.expect("(")
    links = [_parse_name(stream)]
    while stream.accept(","):
        links.append(_parse_name(stream))
    stream.expect(")")
    settings = parse_settings_clause(stream) if stream.accept("SETTINGS") else {}
    return CreateLinkGroup(name, tuple(links), if_not_exists, settings)


def parse_alter_group(stream: TokenStream) -> AlterLinkGroup:
    """Parses ALTER REPLICATION LINK GROUP behind GROUP."""
    name = _parse_name(stream)
    if stream.accept("ADD"):
        return AlterLinkGroup(name, _parse_name(stream), is_added=True)
    if stream.accept("REMOVE"):
        return AlterLinkGroup(name, _parse_name(stream), is_added=False)
    return stream.fail("ADD", "REMOVE")


def parse_drop_group(stream: TokenStream) -> DropLinkGroup:
    """Parses DROP REPLICATION LINK GROUP behind GROUP."""
    if_exists = accept_if_exists(stream)
    return DropLinkGroup(_parse_name(stream), if_exists)


def parse_show_create_group(stream: TokenStream) -> ShowCreateLinkGroup:
    """Parses SHOW CREATE REPLICATION LINK GROUP behind GROUP."""
    return ShowCreateLinkGroup(_parse_name(stream))


def build_show_groups(condition: str) -> str:
    """Returns the query that answers SHOW REPLICATION LINK GROUPS; the condition is one over ``name``."""
    shown = "name, cut, lag, members, message"
    return f"SELECT {shown} FROM (SELECT *, `group` AS name FROM system.link_groups) WHERE {condition} ORDER BY name"


def render_create_group(statement: CreateLinkGroup) -> str:
    """Writes the statement so that it can be parsed again."""
    quote = quote_identifier_if_needed
    exists = "IF NOT EXISTS " if statement.if_not_exists else ""
    links = ", ".join(map(quote, statement.links))
    settings = f"\nSETTINGS {render_settings(statement.settings)}" if statement.settings else ""
    return f"CREATE REPLICATION LINK GROUP {exists}{quote(statement.name)} ({links}){settings}"


def _parse_name(stream: TokenStream) -> str:
    return stream.string("name") if stream.peek().kind == "string" else stream.identifier("name")
