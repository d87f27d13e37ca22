"""``system.mutations``: one row for each command of each mutation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from engine.queries.context import (
    OwnerServer,
    Row,
)
from engine.system_tables.system_table import (
    define_owner_table,
)
from sql.grammar.queries.query_formatter import normalize_expression
from sql.grammar.statements.alter_commands import DeleteRows, MutationCommand, UpdateRows
from sql.grammar.statements.mutate_table import format_mutations


def _normalize_command(command: MutationCommand) -> MutationCommand:
    """Returns the command with its expressions in the form that ClickHouse shows."""
    match command:
        case UpdateRows(assignments, condition):
            values = tuple((name, normalize_expression(value)) for name, value in assignments)
            return replace(command, assignments=values, condition=normalize_expression(condition))
        case DeleteRows(condition):
            return replace(command, condition=normalize_expression(condition))
    return command


def _mutations(server: OwnerServer) -> Iterator[Row]:
    for table in server.catalog.tables():
        for shown in table.mutations.shown() if table.mutations is not None else ():
            for command in shown.mutation.commands:
                yield (
                    table.definition.database,
                    table.definition.name,
                    shown.id,
                    f"({format_mutations([_normalize_command(command)])})",
                    int(shown.create_time),
                    int(shown.finish_time),
                    list(shown.numbers),
                    list(shown.numbers.values()),
                    list(map(str, shown.parts_in_progress)),
                    list(map(str, shown.parts_to_do)),
                    len(shown.parts_to_do),
                    {},
                    int(shown.is_done),
                    int(shown.is_killed),
                    shown.failure.part,
                    int(shown.failure.time),
                    shown.failure.reason,
                    shown.failure.code_name,
                )


TABLES = (
    define_owner_table(
        "mutations",
        """
        database String
        table String
        mutation_id String
        command String
        create_time DateTime
        finish_time DateTime
        block_numbers.partition_id Array(String)
        block_numbers.number Array(Int64)
        parts_in_progress_names Array(String)
        parts_to_do_names Array(String)
        parts_to_do Int64
        parts_postpone_reasons Map(String, String)
        is_done UInt8
        is_killed UInt8
        latest_failed_part String
        latest_fail_time DateTime
        latest_fail_reason String
        latest_fail_error_code_name String
        """,
        _mutations,
    ),
)
