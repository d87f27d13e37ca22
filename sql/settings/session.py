"""Session settings. They come from a URL parameter, SET, a statement's SETTINGS clause, or the configuration."""

from sql.settings.honoured import HONOURED, Setting, Settings
from sql.settings.known import (
    accepted_values,
    canonical_name,
    default_value,
    given_settings,
    nearest_names,
    parse_setting,
    parse_settings,
    setting_kind,
    settings_of,
)
from sql.settings.values import SettingValue, is_timezone, text_of

DEFAULT_SETTINGS = Settings()

__all__ = [
    "DEFAULT_SETTINGS",
    "HONOURED",
    "Setting",
    "SettingValue",
    "Settings",
    "accepted_values",
    "canonical_name",
    "default_value",
    "given_settings",
    "is_timezone",
    "nearest_names",
    "parse_setting",
    "parse_settings",
    "setting_kind",
    "settings_of",
    "text_of",
]
