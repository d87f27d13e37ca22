"""Which settings there are: the one check of a name and its value, wherever it comes from."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from parts.errors import UserError
from sql.settings.honoured import HONOURED, Settings
from sql.settings.values import SettingValue, parse_value


def parse_setting(name: str, value: object) -> SettingValue:
    """The typed value. Raises 115 (UNKNOWN_SETTING) and, for a value of another type, 27, 36, 69 or 72."""
    setting = HONOURED.get(name)
    if setting is None:
        raise UserError("UNKNOWN_SETTING", f"Unknown setting {name!r}{nearest_names(name, HONOURED)}")
    return parse_value(setting.type, name, value)


def settings_of(changes: Mapping[str, object], timezone: str = "UTC") -> Settings:
    """Defaults, and over them what somebody set. Raises as :func:`parse_setting`."""
    parsed = {name: parse_setting(name, value) for name, value in changes.items()}
    honoured = {name: value for name, value in parsed.items() if name in HONOURED}
    return Settings(**honoured, changes=parsed, timezone=timezone)  # type: ignore[arg-type]


def nearest_names(name: str, known: Iterable[str]) -> str:
    """``". Maybe you meant …"`` for an unknown name, or ``""``."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.7)
    return f". Maybe you meant {' or '.join(near)}" if near else ""
