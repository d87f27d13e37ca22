"""``ALTER TABLE … MODIFY SETTING refuse_inserts = 1``: closes a replicated table to INSERTs.

It is closed on all its replicas. The setting is Pando's own.

It is no part of a replica's definition: it is a bar at the table's gate in ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.tables.owned_table import OwnedTable
from parts.common.errors import UserError
from sql.grammar.statements.alter_commands import AlterCommand, ModifySettings, ResetSettings
from sql.settings.merge_tree_settings import REFUSE_INSERTS
from sql.settings.setting_values import parse_setting_value


def split_refuse_inserts(commands: Sequence[AlterCommand]) -> tuple[list[AlterCommand], bool | None]:
    """Takes the setting out of the commands.

    Returns what is left of them, and the last value of the setting, ``None`` if it is not set.
    """
    left: list[AlterCommand] = []
    refused: bool | None = None
    for command in commands:
        if isinstance(command, ModifySettings) and REFUSE_INSERTS in command.settings:
            value = command.settings[REFUSE_INSERTS]
            refused = value is not None and bool(parse_setting_value("Bool", REFUSE_INSERTS, value))
            others = {name: value for name, value in command.settings.items() if name != REFUSE_INSERTS}
            left += [replace(command, settings=others)] if others else []
        elif isinstance(command, ResetSettings) and REFUSE_INSERTS in command.names:
            refused = False
            names = tuple(name for name in command.names if name != REFUSE_INSERTS)
            left += [replace(command, names=names)] if names else []
        else:
            left.append(command)
    return left, refused


def refuse_inserts(table: OwnedTable, refused: bool) -> None:
    """Refuses INSERTs into the table on all replicas from now on, or allows them again.

    Raises 36 (BAD_ARGUMENTS) for a table that is not replicated.
    """
    if table.replication is None:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Setting {REFUSE_INSERTS} is of Replicated tables, and {table.definition.full_name} is none",
        )
    table.replication.refuse_inserts(refused)
