"""Checks which settings a read-only session may change.

The setting ``readonly`` is 0, 1 (only reading, no change of settings) or 2 (only reading; settings except ``readonly``
itself may change). Setting the present value again is no change. Source: ClickHouse documentation, "Permissions for
Queries".
"""

from __future__ import annotations

from collections.abc import Mapping

from parts.common.errors import UserError
from sql.settings.session_settings import (
    make_settings,
    parse_settings,
)
from sql.settings.setting_values import (
    SettingValue,
)
from sql.settings.supported_settings import (
    DEFAULT_SETTINGS,
)


def check_settings_change(
    current: Mapping[str, SettingValue], changes: Mapping[str, object], defaults: Mapping[str, SettingValue]
) -> None:
    """Raises 164 (READONLY) if the session may not make these changes.

    ``None`` resets a setting. ``defaults`` are the server's, where they differ from the settings' own. Raises the
    errors of ``parse_settings`` too.
    """
    mode = current.get("readonly", 0)
    if not mode or not changes:
        return
    before = make_settings({**defaults, **current})
    for name, given in parse_settings(changes).items():
        value = defaults.get(name, getattr(DEFAULT_SETTINGS, name, None)) if given is None else given
        is_change = value != getattr(before, name, before.changes.get(name))
        if is_change and (mode == 1 or name == "readonly"):
            raise UserError("READONLY", f"Cannot modify {name!r} setting in readonly mode")
