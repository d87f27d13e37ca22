"""Every setting of ClickHouse as data, read from ``settings.tsv``.

``tests/sql/settings/generate.py`` writes that file from ClickHouse. A *harmless* setting cannot change an answer,
stored rows or a promise: any value of its type is accepted and shown. A *binding* one could: only its default is
accepted, and values that mean what Pando does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

Version = tuple[int, int]


def parse_version(text: str) -> Version:
    """Parses ``23.8`` or ``23.8.1.4`` to (major, minor). Raises ``ValueError``."""
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


@dataclass(frozen=True, slots=True)
class ClickHouseSetting:
    """One setting. ``default`` and ``accepted`` are texts.

    ``tier`` is ClickHouse's: Production, Beta, Experimental, Obsolete.
    """

    name: str
    type: str
    default: str
    tier: str
    is_binding: bool
    accepted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClickHouseSettings:
    """All settings, by name."""

    session: Mapping[str, ClickHouseSetting]
    merge_tree: Mapping[str, ClickHouseSetting]
    aliases: Mapping[str, str]
    """Other names of session settings."""
    enums: Mapping[str, frozenset[str]]
    lists: frozenset[str]
    """The enums whose values may name several, with commas."""
    history: Mapping[str, tuple[tuple[Version, str], ...]]
    """By setting: the versions that changed its default, newest first, and the default before each."""


@cache
def load_clickhouse_settings() -> ClickHouseSettings:
    """Reads ``settings.tsv``."""
    scopes: dict[str, dict[str, ClickHouseSetting]] = {"session": {}, "merge_tree": {}}
    aliases: dict[str, str] = {}
    enums: dict[str, frozenset[str]] = {}
    lists: set[str] = set()
    history: dict[str, list[tuple[Version, str]]] = {}
    for line in files(__package__).joinpath("settings.tsv").read_text(encoding="utf-8").splitlines():
        scope, name, *rest = line.split("\t")
        if scope == "alias":
            aliases[name] = rest[0]
        elif scope == "was":
            history.setdefault(name, []).append((parse_version(rest[0]), rest[1]))
        elif scope == "enum":
            enums[name] = frozenset(rest[0].split("|"))
            if rest[1]:
                lists.add(name)
        else:
            scopes[scope][name] = _setting(name, rest)
    changes = {name: tuple(sorted(entries, reverse=True)) for name, entries in history.items()}
    return ClickHouseSettings(scopes["session"], scopes["merge_tree"], aliases, enums, frozenset(lists), changes)


def _setting(name: str, cells: list[str]) -> ClickHouseSetting:
    type_, default, tier, kind, accepted = cells
    default = default.replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")
    return ClickHouseSetting(name, type_, default, tier, kind == "binding", tuple(filter(None, accepted.split("|"))))
