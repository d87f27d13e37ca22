"""Parses the statements about links between clusters.

Pando adds them. ::

    CREATE REPLICATION LINK [IF NOT EXISTS] name ON [TABLE] t FROM CLUSTER c [TABLE s] [SETTINGS …];
    CREATE REPLICATION LINK [IF NOT EXISTS] name ON DATABASE d FROM CLUSTER c [DATABASE s] [SETTINGS …];
    ALTER REPLICATION LINK name ENABLE | DISABLE | MODE mode | MODIFY SETTING …;
    DROP REPLICATION LINK [IF EXISTS] name;
    SHOW REPLICATION LINKS [[NOT] LIKE | ILIKE 'pattern'];    SHOW CREATE REPLICATION LINK name;
    SYSTEM WAIT REPLICATION LINK name [POSITION '…'] [TIMEOUT seconds];
    SYSTEM BOOTSTRAP REPLICATION LINK name;
    SYSTEM FORGET LINK ORIGIN '…' ON [TABLE] t [FORCE];
    SYSTEM PROMOTE REPLICATION LINK [GROUP] name [FORCE | CANCEL];
    SYSTEM SWITCH REPLICATION LINK [GROUP] name [CANCEL];
    SYSTEM REJOIN REPLICATION LINK [GROUP] name FROM CLUSTER c [DETACH TAIL]

A name may be a string, so that the source's name of a link can be given: ``'west/orders'``.
"""

from __future__ import annotations

from parts.common.errors import UserError
from sql.grammar.clause_types import TableRef
from sql.grammar.common_clauses import (
    accept_if_exists,
    accept_if_not_exists,
    parse_number_token,
    parse_settings_clause,
    parse_table_name,
)
from sql.grammar.statements.link_group_statements import (
    AlterLinkGroup,
    CreateLinkGroup,
    DropLinkGroup,
    ShowCreateLinkGroup,
    accept_group,
    parse_alter_group,
    parse_create_group,
    parse_drop_group,
    parse_show_create_group,
)
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
)
from sql.grammar.tokens import TokenStream, not_implemented

_SHOWN = (
    "name, direction, peer, database, table, mode, state, upstream_status, message, idle, lag, rows_behind, "
    "bytes_behind, applied_position, source_position"
)


def at_link(stream: TokenStream) -> bool:
    """Returns whether REPLICATION LINK comes next."""
    return stream.at("REPLICATION", "LINK")


def parse_create_link(stream: TokenStream) -> CreateLink | CreateLinkGroup:
    """Parses CREATE REPLICATION LINK behind its verb."""
    stream.expect("REPLICATION", "LINK")
    if accept_group(stream):
        return parse_create_group(stream)
    if_not_exists = accept_if_not_exists(stream)
    name = _parse_name(stream)
    stream.expect("ON")
    target: TableRef | None = None
    source: TableRef | None = None
    database: str | None = None
    source_database: str | None = None
    if stream.at("DATABASE") and stream.peek(1).is_identifier and stream.accept("DATABASE"):
        database = stream.identifier("database name")
    else:
        target = _parse_table(stream)
    stream.expect("FROM", "CLUSTER")
    cluster = _parse_name(stream, "cluster name")
    if database is not None and stream.accept("DATABASE"):
        source_database = stream.identifier("database name")
    elif target is not None and stream.accept("TABLE"):
        source = parse_table_name(stream)
    settings = parse_settings_clause(stream) if stream.accept("SETTINGS") else {}
    return CreateLink(name, cluster, target, source, database, source_database, if_not_exists, settings)


def parse_alter_link(stream: TokenStream) -> AlterLink | AlterLinkGroup:
    """Parses ALTER REPLICATION LINK behind its verb."""
    stream.expect("REPLICATION", "LINK")
    if accept_group(stream):
        return parse_alter_group(stream)
    name = _parse_name(stream)
    if stream.accept("ENABLE"):
        return AlterLink(name, {"enabled": True})
    if stream.accept("DISABLE"):
        return AlterLink(name, {"enabled": False})
    if stream.accept("MODE"):
        return AlterLink(name, {"mode": _parse_name(stream, "mode").lower()})
    if stream.accept("MODIFY", "SETTING") or stream.accept("MODIFY", "SETTINGS"):
        return AlterLink(name, parse_settings_clause(stream))
    return stream.fail("ENABLE", "DISABLE", "MODE", "MODIFY SETTING")


def parse_drop_link(stream: TokenStream) -> DropLink | DropLinkGroup:
    """Parses DROP REPLICATION LINK behind its verb."""
    stream.expect("REPLICATION", "LINK")
    if accept_group(stream):
        return parse_drop_group(stream)
    if_exists = accept_if_exists(stream)
    return DropLink(_parse_name(stream), if_exists)


def build_show_links(condition: str) -> str:
    """Returns the query that answers SHOW REPLICATION LINKS; the condition is one over ``name``."""
    return f"SELECT {_SHOWN} FROM system.replication_links WHERE {condition} ORDER BY direction, name"


def parse_show_create_link(stream: TokenStream) -> ShowCreateLink | ShowCreateLinkGroup:
    """Parses SHOW CREATE REPLICATION LINK behind CREATE."""
    stream.expect("REPLICATION", "LINK")
    if accept_group(stream):
        return parse_show_create_group(stream)
    return ShowCreateLink(_parse_name(stream))


def parse_system_link(stream: TokenStream) -> LinkStatement | None:
    """Parses a statement about links behind SYSTEM. Returns ``None`` for another one."""
    if stream.at("WAIT", "REPLICATION", "LINK"):
        return _parse_wait(stream)
    if stream.at("BOOTSTRAP", "REPLICATION", "LINK"):
        stream.next()
        _expect_link(stream, "SYSTEM BOOTSTRAP")
        return BootstrapLink(_parse_name(stream))
    if stream.accept("PROMOTE", "REPLICATION", "LINK"):
        is_group, name = _accept_group(stream), _parse_name(stream)
        force = stream.accept("FORCE")
        return PromoteLink(name, is_group, force, not force and stream.accept("CANCEL"))
    if stream.accept("SWITCH", "REPLICATION", "LINK"):
        is_group, name = _accept_group(stream), _parse_name(stream)
        return SwitchLink(name, is_group, stream.accept("CANCEL"))
    if stream.accept("REJOIN", "REPLICATION", "LINK"):
        return _parse_rejoin(stream)
    if stream.accept("FORGET", "LINK", "ORIGIN"):
        origin = stream.string("origin")
        stream.expect("ON")
        return ForgetLinkOrigin(origin, _parse_table(stream), stream.accept("FORCE"))
    return None


def _parse_rejoin(stream: TokenStream) -> RejoinLink:
    is_group, name = _accept_group(stream), _parse_name(stream)
    stream.expect("FROM", "CLUSTER")
    cluster = _parse_name(stream, "cluster name")
    if stream.at("SEND", "TAIL"):
        raise UserError(
            "NOT_IMPLEMENTED",
            "There is no SEND TAIL: it would bring back rows that the tail itself deleted, and double those that "
            "clients sent again. DETACH TAIL keeps the blocks in detached/, and its answer says how to insert them",
        )
    return RejoinLink(name, cluster, is_group, stream.accept("DETACH", "TAIL"))


def _accept_group(stream: TokenStream) -> bool:
    """Returns whether a group is named; a link may be called ``group``, too."""
    following = stream.peek(1)
    is_name = following.is_identifier or following.kind == "string"
    is_word = following.is_identifier and following.upper in ("FORCE", "CANCEL", "FROM", "FORMAT", "INTO", "SETTINGS")
    return is_name and not is_word and stream.accept("GROUP")


def _parse_wait(stream: TokenStream) -> WaitLink:
    stream.next()
    _expect_link(stream, "SYSTEM WAIT")
    name = _parse_name(stream)
    position = stream.string("position") if stream.accept("POSITION") else None
    timeout: float | None = None
    if stream.accept("TIMEOUT"):
        if stream.peek().kind != "number":
            stream.fail("seconds")
        timeout = float(parse_number_token(stream.next()))
    return WaitLink(name, position, timeout)


def _expect_link(stream: TokenStream, verb: str) -> None:
    stream.expect("REPLICATION", "LINK")
    following = stream.peek(1)
    if stream.at("GROUP") and following.is_identifier and following.upper not in ("ON", "ENABLE", "DISABLE", "MODIFY"):
        raise not_implemented(f"{verb} REPLICATION LINK GROUP")


def _parse_name(stream: TokenStream, what: str = "name of a link") -> str:
    return stream.string(what) if stream.peek().kind == "string" else stream.identifier(what)


def _parse_table(stream: TokenStream) -> TableRef:
    if stream.at("TABLE") and stream.peek(1).is_identifier:
        stream.next()
    return parse_table_name(stream)
