"""The one check of names and values of session settings, wherever they come from.

A setting is *honoured* (an attribute of :class:`Settings`), *harmless* or *binding*
(:mod:`sql.settings.clickhouse_settings`).
"""

from __future__ import annotations

import contextlib
import difflib
import itertools
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Literal

from parts.common.errors import UserError
from sql.settings.clickhouse_settings import ClickHouseSetting, Version, load_clickhouse_settings, parse_version
from sql.settings.setting_values import SettingValue, format_setting_value, parse_setting_value
from sql.settings.supported_settings import SUPPORTED_SETTINGS, Settings

Kind = Literal["honoured", "harmless", "binding"]


_NOT_YET: dict[str, str] = {}
"""Settings that are planned, and what helps today."""


def canonical_name(name: str) -> str:
    """Returns the name that an alias stands for.

    Raises 115 (UNKNOWN_SETTING); 48 (NOT_IMPLEMENTED) for a setting that is planned.
    """
    table = load_clickhouse_settings()
    real = table.aliases.get(name, name)
    if real not in SUPPORTED_SETTINGS and real not in table.session:
        if (reason := _NOT_YET.get(name)) is not None:
            raise UserError("NOT_IMPLEMENTED", f"Setting {name} is not supported: {reason}")
        known = SUPPORTED_SETTINGS.keys() | table.session.keys() | table.aliases.keys()
        raise UserError("UNKNOWN_SETTING", f"Unknown setting {name!r}{suggest_names(name, known)}")
    return real


def find_setting_kind(name: str) -> Kind:
    """Returns whether a setting is honoured, harmless or binding. ``name`` is no alias."""
    if name in SUPPORTED_SETTINGS:
        return "honoured"
    return "binding" if load_clickhouse_settings().session[name].is_binding else "harmless"


def parse_setting(name: str, value: object) -> SettingValue:
    """Returns the typed value.

    Raises 115 (UNKNOWN_SETTING); 27, 36, 69, 72 or 467 for a value of another type; 48 (NOT_IMPLEMENTED) for a binding
    setting's value that Pando lacks.
    """
    real = canonical_name(name)
    honoured = SUPPORTED_SETTINGS.get(real)
    if honoured is not None:
        parsed = parse_setting_value(honoured.type, name, value)
        if real == "compatibility" and parsed:
            _parse_compatibility(str(parsed))
        if honoured.only and parsed not in honoured.only:
            raise _not_supported_error(name, parsed, honoured.only)
        return parsed
    return check_unsupported_value(load_clickhouse_settings().session[real], name, value)


def check_unsupported_value(known: ClickHouseSetting, name: str, value: object) -> SettingValue:
    """Returns the typed value of a setting that is not honoured. Raises as :func:`parse_setting`."""
    parsed = parse_setting_value(known.type, name, value)
    if known.is_binding and parsed not in (accepted := list_accepted_values(known)):
        raise _not_supported_error(name, parsed, accepted)
    return parsed


def get_default_value(name: str) -> SettingValue:
    """Returns the default of a setting that is not honoured."""
    known = load_clickhouse_settings().session[name]
    return parse_setting_value(known.type, name, known.default)


@cache
def list_accepted_values(known: ClickHouseSetting) -> tuple[SettingValue, ...]:
    """Returns the accepted values of a binding setting, its default first."""
    return tuple(parse_setting_value(known.type, known.name, text) for text in (known.default, *known.accepted))


def _not_supported_error(name: str, value: SettingValue, accepted: tuple[SettingValue, ...]) -> UserError:
    shown = " or ".join(repr(format_setting_value(item)) for item in accepted)
    return UserError(
        "NOT_IMPLEMENTED", f"Setting {name} = {format_setting_value(value)!r} is not supported; accepted is {shown}"
    )


def parse_settings(changes: Mapping[str, object]) -> dict[str, SettingValue | None]:
    """Returns typed values by canonical names; ``None``, for DEFAULT, stays.

    Raises as :func:`parse_setting`.
    """
    return {
        canonical_name(name): None if value is None else parse_setting(name, value) for name, value in changes.items()
    }


def parse_given_settings(changes: Mapping[str, object]) -> dict[str, SettingValue]:
    """Returns the same as :func:`parse_settings`, without settings that are DEFAULT."""
    return {name: value for name, value in parse_settings(changes).items() if value is not None}


_WHOLE_STATEMENTS = ("join_use_nulls", "session_timezone", "compatibility", "max_rows_to_read", "max_bytes_to_read")


def check_inner_settings(changes: Mapping[str, object]) -> None:
    """Accepts settings of a subquery that only tune it.

    Raises 48 (NOT_IMPLEMENTED) for those that would change its answer or bound it, and as :func:`parse_setting`.
    """
    for name in parse_settings(changes):
        if name in _WHOLE_STATEMENTS:
            raise UserError(
                "NOT_IMPLEMENTED", f"Setting {name} in a subquery is not supported: set it for the whole statement"
            )


def make_settings(changes: Mapping[str, object], server_timezone: str = "UTC") -> Settings:
    """Returns the settings with the changes over the defaults. Raises as :func:`parse_setting`."""
    if all(isinstance(value, _PLAIN) for value in changes.values()):
        return _recent_settings(server_timezone, *itertools.chain.from_iterable(changes.items()))
    return _new_settings(changes, server_timezone)


_PLAIN = (bool, int, float, str, type(None))


@lru_cache(maxsize=256, typed=True)  # every statement calls it several times; typed: 1 is not true
def _recent_settings(server_timezone: str, *names_and_values: object) -> Settings:
    pairs = zip(names_and_values[::2], names_and_values[1::2], strict=True)
    return _new_settings({str(name): value for name, value in pairs}, server_timezone)


def _new_settings(changes: Mapping[str, object], server_timezone: str) -> Settings:
    parsed = parse_given_settings(changes)
    honoured = {name: value for name, value in parsed.items() if name in SUPPORTED_SETTINGS}
    if parsed.get("compatibility"):
        honoured = {**_older_defaults(str(parsed["compatibility"])), **honoured}
    return Settings(**honoured, changes=parsed, server_timezone=server_timezone)  # type: ignore[arg-type]


@cache
def _older_defaults(compatibility: str) -> dict[str, SettingValue]:
    """Returns a ClickHouse version's defaults of honoured settings, where they differed.

    A default that Pando lacks is left out.
    """
    version = _parse_compatibility(compatibility)
    defaults: dict[str, SettingValue] = {}
    for name in SUPPORTED_SETTINGS.keys() & load_clickhouse_settings().history.keys():
        older = [before for changed, before in load_clickhouse_settings().history[name] if changed > version]
        if older:
            with contextlib.suppress(UserError):
                defaults[name] = parse_setting(name, older[-1])
    return defaults


def _parse_compatibility(compatibility: str) -> Version:
    try:
        return parse_version(compatibility)
    except ValueError:
        raise UserError(
            "BAD_ARGUMENTS", f"Setting compatibility = {compatibility!r} is no version such as '23.8'"
        ) from None


def suggest_names(name: str, known: Iterable[str]) -> str:
    """Returns ``". Maybe you meant …"`` for an unknown name, or ``""``."""
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.7)
    return f". Maybe you meant {' or '.join(near)}" if near else ""
