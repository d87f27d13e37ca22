"""``system.settings`` and ``system.merge_tree_settings``: all settings, supported or not."""

from __future__ import annotations

from collections.abc import Iterator

from engine.queries.context import (
    Context,
    Row,
    Server,
)
from engine.system_tables.system_table import (
    define_server_table,
    define_session_table,
)
from sql.settings.clickhouse_settings import ClickHouseSetting, load_clickhouse_settings
from sql.settings.merge_tree_settings import SUPPORTED_MERGE_TREE_SETTINGS, table_setting_kind
from sql.settings.session_settings import (
    Kind,
    accepted_values,
    setting_kind,
)
from sql.settings.setting_values import (
    format_setting_value,
)
from sql.settings.supported_settings import (
    SUPPORTED_SETTINGS,
    Settings,
)

_LISTED_IF_SUPPORTED = frozenset({"send_progress_in_http_headers"})
"""Settings that clients switch on if they are listed, so they are listed only if supported."""
_TIER_CODES = {"Production": 0, "Obsolete": 4, "Experimental": 8, "Beta": 12, "PrivatePreview": 16}
_TIERS = f"Enum8({', '.join(f'{name!r} = {code}' for name, code in _TIER_CODES.items())})"


def _settings(context: Context) -> Iterator[Row]:
    table, settings = load_clickhouse_settings(), context.settings
    readonly = int(settings.readonly == 1)
    rows = {
        name: _row(name, known, settings, readonly)
        for name, known in table.session.items()
        if name in SUPPORTED_SETTINGS or name not in _LISTED_IF_SUPPORTED
    }
    for name, honoured in SUPPORTED_SETTINGS.items():
        if name not in rows:  # in ClickHouse not a setting but a URL parameter
            known = ClickHouseSetting(
                name, honoured.type, format_setting_value(honoured.default), "Production", True, ()
            )
            rows[name] = _row(name, known, settings, readonly)
    yield from rows.values()
    for alias, name in table.aliases.items():
        yield (alias, *rows[name][1:-3], name, *rows[name][-2:])


def _row(name: str, known: ClickHouseSetting, settings: Settings, readonly: int) -> Row:
    honoured = SUPPORTED_SETTINGS.get(name)
    default = format_setting_value(honoured.default) if honoured is not None else known.default
    value = getattr(settings, name) if honoured is not None else settings.changes.get(name, default)
    description = honoured.description if honoured is not None else _description(setting_kind(name), known)
    return (
        name,
        format_setting_value(value),
        int(name in settings.changes),
        description,
        None,
        None,
        [],
        readonly,
        known.type,
        default,
        "",
        int(known.tier == "Obsolete"),
        _TIER_CODES[known.tier],
    )


def _description(kind: Kind, known: ClickHouseSetting) -> str:
    if known.tier == "Obsolete":
        return "Accepted; it has no effect any more"
    if kind == "harmless":
        return "Accepted; it has no effect on answers or stored data"
    accepted = " or ".join(repr(format_setting_value(value)) for value in accepted_values(known))
    return f"Accepted is {accepted}: other values are not supported"


def _merge_tree_settings(server: Server) -> Iterator[Row]:
    settings = server.catalog.default_settings
    for name, known in load_clickhouse_settings().merge_tree.items():
        value = (
            format_setting_value(getattr(settings, name)) if name in SUPPORTED_MERGE_TREE_SETTINGS else known.default
        )
        default = (
            format_setting_value(SUPPORTED_MERGE_TREE_SETTINGS[name])
            if name in SUPPORTED_MERGE_TREE_SETTINGS
            else known.default
        )
        kind = table_setting_kind(name)
        description = "Honoured" if kind == "honoured" else _description(kind, known)
        obsolete = int(known.tier == "Obsolete")
        yield (
            name, value, default, int(value != default), description, None, None, [], 0, known.type, obsolete,
            _TIER_CODES[known.tier],
        )  # fmt: skip


TABLES = (
    define_session_table(
        "settings",
        f"""
        name String
        value String
        changed UInt8
        description String
        min Nullable(String)
        max Nullable(String)
        disallowed_values Array(String)
        readonly UInt8
        type String
        default String
        alias_for String
        is_obsolete UInt8
        tier {_TIERS}
        """,
        _settings,
    ),
    *(
        define_server_table(
            kind,
            f"""
        name String
        value String
        default String
        changed UInt8
        description String
        min Nullable(String)
        max Nullable(String)
        disallowed_values Array(String)
        readonly UInt8
        type String
        is_obsolete UInt8
        tier {_TIERS}
        """,
            _merge_tree_settings,
        )
        for kind in ("merge_tree_settings", "replicated_merge_tree_settings")
    ),
)
