"""``ALTER TABLE … MODIFY SETTING commands_from``: which cluster commands a table of several.

It is no part of a replica's definition: it stands in the table's gate in ZooKeeper, for all its replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.tables.owned_table import OwnedTable
from parts.common.errors import UserError
from sql.grammar.statements.alter_commands import AlterCommand, ModifySettings, ResetSettings
from sql.settings.merge_tree_settings import COMMANDS_FROM
from sql.settings.setting_values import parse_setting_value


def split_commands_from(commands: Sequence[AlterCommand]) -> tuple[list[AlterCommand], str | None]:
    """Takes the setting out of the commands.

    Returns what is left of them, and the last value of the setting, ``None`` if it is not set.
    """
    left: list[AlterCommand] = []
    cluster: str | None = None
    for command in commands:
        if isinstance(command, ModifySettings) and COMMANDS_FROM in command.settings:
            value = command.settings[COMMANDS_FROM]
            cluster = "" if value is None else str(parse_setting_value("String", COMMANDS_FROM, value))
            others = {name: value for name, value in command.settings.items() if name != COMMANDS_FROM}
            left += [replace(command, settings=others)] if others else []
        elif isinstance(command, ResetSettings) and COMMANDS_FROM in command.names:
            cluster = ""
            names = tuple(name for name in command.names if name != COMMANDS_FROM)
            left += [replace(command, names=names)] if names else []
        else:
            left.append(command)
    return left, cluster


def change_commands_from(table: OwnedTable, cluster: str) -> None:
    """Sets the cluster from which all replicas of the table take commands; "" takes the setting back.

    Raises 36 (BAD_ARGUMENTS) for a table that is not replicated, and what ``Replica.change_command_source`` raises.
    """
    if table.replication is None:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Setting {COMMANDS_FROM} is of Replicated tables, and {table.definition.full_name} is none",
        )
    table.replication.change_command_source(cluster)
