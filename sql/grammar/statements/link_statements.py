"""The statements about links between clusters, as plain data, and as text again."""

from __future__ import annotations

from dataclasses import dataclass, field

from sql.grammar.clause_types import SettingLiteral, TableRef
from sql.grammar.common_clauses import render_settings
from sql.grammar.tokens import quote_identifier_if_needed


@dataclass(frozen=True, slots=True)
class CreateLink:
    """``CREATE REPLICATION LINK … ON db.table``, or ``ON DATABASE db`` where ``target`` is ``None``."""

    name: str
    cluster: str
    target: TableRef | None = None
    source: TableRef | None = None
    """The source's table; ``None``: it has the target's name."""
    database: str | None = None
    source_database: str | None = None
    """The source's database; ``None``: it has the target's name."""
    if_not_exists: bool = False
    settings: dict[str, SettingLiteral] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AlterLink:
    """``ALTER REPLICATION LINK``: one setting or more get other values; ``None`` is the default."""

    name: str
    settings: dict[str, SettingLiteral]


@dataclass(frozen=True, slots=True)
class DropLink:
    """``DROP REPLICATION LINK``; at the source the name is ``<target cluster>/<name>``."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ShowCreateLink:
    name: str


@dataclass(frozen=True, slots=True)
class WaitLink:
    """``SYSTEM WAIT REPLICATION LINK``; without a position, for all that the source has when it is asked."""

    name: str
    position: str | None = None
    timeout_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class BootstrapLink:
    """``SYSTEM BOOTSTRAP REPLICATION LINK``: the source's rows take the place of the target's."""

    name: str


@dataclass(frozen=True, slots=True)
class ForgetLinkOrigin:
    """``SYSTEM FORGET LINK ORIGIN``: an origin that is gone for good leaves the vector of a table."""

    origin: str
    table: TableRef
    force: bool = False


@dataclass(frozen=True, slots=True)
class PromoteLink:
    """``SYSTEM PROMOTE REPLICATION LINK``: the target becomes the source."""

    name: str
    is_group: bool = False
    force: bool = False
    cancel: bool = False


@dataclass(frozen=True, slots=True)
class SwitchLink:
    """``SYSTEM SWITCH REPLICATION LINK``: source and target change places."""

    name: str
    is_group: bool = False
    cancel: bool = False


@dataclass(frozen=True, slots=True)
class RejoinLink:
    """``SYSTEM REJOIN REPLICATION LINK``: the old source follows the new one.

    Without ``detach`` it shows its tail.
    """

    name: str
    cluster: str
    is_group: bool = False
    detach: bool = False


LinkStatement = (
    CreateLink
    | AlterLink
    | DropLink
    | ShowCreateLink
    | WaitLink
    | BootstrapLink
    | ForgetLinkOrigin
    | PromoteLink
    | SwitchLink
    | RejoinLink
)


def render_create_link(statement: CreateLink) -> str:
    """Writes the statement so that it can be parsed again."""
    quote = quote_identifier_if_needed
    exists = "IF NOT EXISTS " if statement.if_not_exists else ""
    source = ""
    if statement.target is not None:
        target = _render_table(statement.target)
        if statement.source is not None:
            source = f" TABLE {_render_table(statement.source)}"
    else:
        target = f"DATABASE {quote(statement.database or '')}"
        if statement.source_database is not None:
            source = f" DATABASE {quote(statement.source_database)}"
    lines = [
        f"CREATE REPLICATION LINK {exists}{quote(statement.name)}",
        f"ON {target}",
        f"FROM CLUSTER {quote(statement.cluster)}{source}",
    ]
    if statement.settings:
        lines.append(f"SETTINGS {render_settings(statement.settings)}")
    return "\n".join(lines)


def _render_table(table: TableRef) -> str:
    name = quote_identifier_if_needed(table.table)
    return name if table.database is None else f"{quote_identifier_if_needed(table.database)}.{name}"
