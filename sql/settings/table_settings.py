"""The settings of a MergeTree table: the one check of their names and values.

Those with an effect are the fields of :class:`parts.schema.MergeTreeSettings`; the others are harmless or binding as
settings of a session are (:mod:`sql.settings.table`).
"""

from __future__ import annotations

from dataclasses import fields
from typing import cast

from parts.errors import UserError
from parts.schema import MergeTreeSettings
from sql.settings.known import Kind, checked_value, nearest_names
from sql.settings.table import settings_table
from sql.settings.values import SettingValue, parse_value, text_of

HONOURED_BY_TABLES: dict[str, SettingValue] = {
    field.name: cast(SettingValue, field.default) for field in fields(MergeTreeSettings)
}
"""With Pando's defaults."""


def table_setting_kind(name: str) -> Kind:
    if name in HONOURED_BY_TABLES:
        return "honoured"
    return "binding" if settings_table().merge_tree[name].is_binding else "harmless"


def parse_table_setting(name: str, value: object) -> SettingValue:
    """The typed value. Raises 115 (UNKNOWN_SETTING); 27, 36, 69, 72 or 467 for a value of another type; 48
    (NOT_IMPLEMENTED) for a binding setting's value that Pando does not have."""
    known = settings_table().merge_tree
    if name not in known:
        raise UserError("UNKNOWN_SETTING", f"Unknown setting {name!r} for MergeTree{nearest_names(name, known)}")
    if name not in HONOURED_BY_TABLES:
        return checked_value(known[name], name, value)
    parsed = parse_value(known[name].type, name, value)
    default = HONOURED_BY_TABLES[name]
    if isinstance(parsed, float) and type(default) is int:
        if not parsed.is_integer():
            raise UserError("BAD_ARGUMENTS", f"Setting {name} takes whole seconds, not {text_of(parsed)}")
        return int(parsed)
    if isinstance(parsed, float) and parsed < 0:
        raise UserError("BAD_ARGUMENTS", f"Setting {name} cannot be negative: {text_of(parsed)}")
    return parsed or default if isinstance(default, str) else parsed
