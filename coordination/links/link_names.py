"""The names of links: one cluster has each name once, whatever table the link brings changes to.

::

    /pando/links/<name>    {"version":1,"kind":"table","uuid":…,"path":"<table root>","source_cluster":…,…}
    /pando/links/<name>    {"version":1,"kind":"database","uuid":…,"target_database":…,"settings":{…},…}

A name of the kind ``table`` says where the definition of the link is (``coordination.links.link_nodes``). It is in use
while the definition is there and has the same UUID: when the last replica of a table is dropped, the name is left, and
the next link takes it over. A name of the kind ``database`` is itself the definition of a link of a whole database.
Unknown keys are kept and written back; an unknown version or kind is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from coordination.keeper.interface import Keeper, NoNode
from parts.common.errors import CorruptionError, UserError

LINKS_PATH = "/pando/links"
FORMAT_VERSION = 1
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.%-]{0,199}")


@dataclass(frozen=True, slots=True)
class TableLinkName:
    """The name of a link of one table."""

    name: str
    uuid: str
    path: str
    """The root of the target's table in ZooKeeper."""
    source_cluster: str
    source_database: str
    source_table: str
    database_link: str = ""
    """The database link that made the link; empty for none."""
    extra: tuple[tuple[str, object], ...] = field(default=(), compare=False)

    def to_bytes(self) -> bytes:
        """Returns the node's content."""
        return _encode("table", self)


@dataclass(frozen=True, slots=True)
class DatabaseLink:
    """A link of all tables of a database, those to come too."""

    name: str
    uuid: str
    source_cluster: str
    source_database: str
    target_database: str
    settings: Mapping[str, object] = field(default_factory=dict)
    """Values that were given, for the links of all tables."""
    is_enabled: bool = True
    extra: tuple[tuple[str, object], ...] = field(default=(), compare=False)

    def to_bytes(self) -> bytes:
        """Returns the node's content."""
        return _encode("database", self)


LinkName = TableLinkName | DatabaseLink
_KINDS: Mapping[str, type[TableLinkName] | type[DatabaseLink]] = {"table": TableLinkName, "database": DatabaseLink}


def check_link_name(name: str) -> str:
    """Returns the name. Raises 36 (BAD_ARGUMENTS) for one that no link can have."""
    if _NAME.fullmatch(name) is None or name in (".", ".."):
        raise UserError(
            "BAD_ARGUMENTS",
            f"No link can be named {name[:250]!r}: it has 1 to 200 letters, digits, '_', '-', '.' and '%', and begins "
            "with a letter, a digit or '_'",
        )
    return name


def name_path(name: str) -> str:
    """Returns the path of a name's node."""
    return f"{LINKS_PATH}/{name}"


def parse_link_name(name: str, data: bytes) -> LinkName:
    """Parses the content of a name's node. Raises ``CorruptionError``."""
    try:
        document: dict[str, Any] = json.loads(data)
        version, kind = document.pop("version"), document.pop("kind")
        if version != FORMAT_VERSION:
            raise ValueError(f"version {version}, this server understands {FORMAT_VERSION}")
        owner = _KINDS[kind]
        known = {key: document.pop(key) for key in owner.__match_args__[1:] if key in document and key != "extra"}
        return owner(name, **known, extra=tuple(document.items()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(
            f"Cannot read the name of link {name!r} ({name_path(name)}), {data[:200]!r}: {error}", name="CORRUPTED_DATA"
        ) from error


def find_link_name(keeper: Keeper, name: str) -> LinkName | None:
    """Returns the name as it is kept, or ``None``."""
    try:
        return parse_link_name(name, keeper.get(name_path(name))[0])
    except NoNode:
        return None


def list_link_names(keeper: Keeper) -> list[LinkName]:
    """Returns all names that can be read, sorted."""
    return read_link_names(keeper)[0]


def read_link_names(keeper: Keeper) -> tuple[list[LinkName], dict[str, CorruptionError]]:
    """Returns all names, sorted, and what is wrong with those that cannot be read, by name."""
    try:
        names = keeper.children(LINKS_PATH)
    except NoNode:
        return [], {}
    links, unreadable = list[LinkName](), dict[str, CorruptionError]()
    for name, answer in zip(names, keeper.get_many([name_path(name) for name in names]), strict=True):
        try:
            links += [parse_link_name(name, answer[0])] if answer is not None else []
        except CorruptionError as error:
            unreadable[name] = error
    return links, unreadable


def _encode(kind: str, link: TableLinkName | DatabaseLink) -> bytes:
    document = {key: value for key, value in asdict(link).items() if key not in ("name", "extra")}
    return json.dumps(
        {**dict(link.extra), "version": FORMAT_VERSION, "kind": kind, **document},
        separators=(",", ":"),
        ensure_ascii=False,
    ).encode()
