"""``ALTER TABLE … MODIFY SETTING`` of the tracker's settings: which links of a table are synchronous.

They are no part of a replica's definition: they stand in the table's gate in ZooKeeper, for all its replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sql.grammar.statements.alter_commands import AlterCommand, ModifySettings, ResetSettings
from sql.settings.merge_tree_settings import TRACKER_SETTINGS


def split_tracker_settings(commands: Sequence[AlterCommand]) -> tuple[list[AlterCommand], dict[str, str | None]]:
    """Takes the settings out of the commands.

    Returns what is left of them, and the last value of each setting as text, ``None`` for the default.
    """
    left: list[AlterCommand] = []
    changed: dict[str, str | None] = {}
    for command in commands:
        if isinstance(command, ModifySettings):
            for name, value in command.settings.items():
                if name in TRACKER_SETTINGS:
                    changed[name] = None if value is None else str(int(value) if isinstance(value, bool) else value)
            others = {name: value for name, value in command.settings.items() if name not in TRACKER_SETTINGS}
            left += [replace(command, settings=others)] if others or not command.settings else []
        elif isinstance(command, ResetSettings):
            changed |= {name: None for name in command.names if name in TRACKER_SETTINGS}
            names = tuple(name for name in command.names if name not in TRACKER_SETTINGS)
            left += [replace(command, names=names)] if names or not command.names else []
        else:
            left.append(command)
    return left, changed
