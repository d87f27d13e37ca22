"""``docs/settings.md``: every setting that has an effect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from coordination.links.link_settings import DEFAULTS, RANGES, LinkSettings, changes_with_alter
from sql.settings import supported_settings
from sql.settings.clickhouse_settings import load_clickhouse_settings
from sql.settings.merge_tree_settings import (
    SUPPORTED_MERGE_TREE_SETTINGS,
    MergeTreeSettings,
    find_table_setting_type,
)
from sql.settings.setting_values import SettingValue, format_setting_value
from sql.settings.supported_settings import SUPPORTED_SETTINGS
from tests.documents.markdown import GENERATED, read_field_docs, table

_HEAD = ("setting", "type", "default", "what it does")
_INTRODUCTION = """# Settings

These settings have an effect. All others that ClickHouse has are known too: {harmless} of a session and
{harmless_tables} of a table are accepted without effect, because they could change no answer (speed, logging,
features that are not there). {binding} of a session and {binding_tables} of a table would change answers, and are
accepted only with the value that Pando works by; another one is refused (48). A name that ClickHouse does not have is
refused (115).

`SELECT name, value, changed, description FROM system.settings` shows all of them, `system.merge_tree_settings` those
of tables. Set them for a statement (`SELECT … SETTINGS max_threads = 2`), a request (`?max_threads=2`), a session
(`SET max_threads = 2`) or a [profile](configuration.md), and those of tables in `CREATE TABLE … SETTINGS` or `ALTER
TABLE … MODIFY SETTING`.
"""
_LINKS = """## Of a link

Give them in `CREATE REPLICATION LINK … SETTINGS` or `ALTER REPLICATION LINK … MODIFY SETTING`. `SHOW CREATE REPLICATION
LINK` shows those that were given, the column `settings` of `system.replication_links` all of them.
"""
_LINK_TYPES = {bool: "Bool", int: "UInt64", float: "Float", str: "String"}


def _sections() -> dict[str, str]:
    """Setting → the comment above its group in the module that defines it."""
    found, title = {}, "the dialect"
    for line in Path(supported_settings.__file__).read_text(encoding="utf-8").splitlines():
        if comment := re.fullmatch(r"    # (.*)", line):
            title = comment[1]
        elif field := re.match(r"    (\w+): ", line):
            found[field[1]] = title
    return found


def _default(value: SettingValue) -> str:
    text = format_setting_value(value)
    return f"`{text}`" if text else "empty"


def _session_settings() -> Iterator[str]:
    sections = _sections()
    for title in dict.fromkeys(sections[name] for name in SUPPORTED_SETTINGS):
        rows = [
            (f"`{name}`", info.type, _default(info.default), info.description + _only(info.only))
            for name, info in SUPPORTED_SETTINGS.items()
            if sections[name] == title
        ]
        yield f"### {title[0].upper()}{title[1:]}\n\n{table(_HEAD, rows)}"


def _only(values: tuple[SettingValue, ...]) -> str:
    return f"; only {' or '.join(f'`{value}`' for value in values)}" if values else ""


def _table_settings() -> str:
    docs = read_field_docs(MergeTreeSettings)
    rows = [
        (f"`{name}`", find_table_setting_type(name), _default(default), docs[name])
        for name, default in SUPPORTED_MERGE_TREE_SETTINGS.items()
    ]
    return table(_HEAD, rows)


def _link_settings() -> str:
    docs = read_field_docs(LinkSettings)
    rows = [
        (f"`{name}`", _LINK_TYPES[type(default)], _default(default), _range(name), docs[name] + _fixed(name))
        for name, default in DEFAULTS.items()
    ]
    return table(("setting", "type", "default", "range", "what it does"), rows)


def _range(name: str) -> str:
    return " to ".join(format_setting_value(bound) for bound in RANGES[name]) if name in RANGES else ""


def _fixed(name: str) -> str:
    return "" if changes_with_alter(name) else " Only `CREATE` sets it."


def text() -> str:
    known = load_clickhouse_settings()
    session = [each for name, each in known.session.items() if name not in SUPPORTED_SETTINGS]
    tables = [each for name, each in known.merge_tree.items() if name not in SUPPORTED_MERGE_TREE_SETTINGS]
    introduction = _INTRODUCTION.format(
        harmless=sum(not each.is_binding for each in session),
        harmless_tables=sum(not each.is_binding for each in tables),
        binding=sum(each.is_binding for each in session),
        binding_tables=sum(each.is_binding for each in tables),
    )
    return "\n".join(
        [
            GENERATED + introduction,
            "## Of a session\n",
            *_session_settings(),
            "## Of a table\n",
            _table_settings(),
            _LINKS,
            _link_settings(),
        ]
    )
