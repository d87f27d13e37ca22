"""Session settings. They come from a URL parameter, SET, a statement's SETTINGS clause, or the configuration."""

from sql.settings.honoured import HONOURED, Setting, Settings
from sql.settings.known import nearest_names, parse_setting, settings_of
from sql.settings.values import SettingValue, is_timezone

DEFAULT_SETTINGS = Settings()

__all__ = [
    "DEFAULT_SETTINGS",
    "HONOURED",
    "Setting",
    "SettingValue",
    "Settings",
    "is_timezone",
    "nearest_names",
    "parse_setting",
    "settings_of",
]
