"""Which changes of a definition a table engine takes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from parts.common.errors import UserError
from sql.definitions.engines.registry import find_engine
from sql.definitions.engines.table_engine import unsupported
from sql.grammar.clause_types import ColumnClause
from sql.grammar.statements.alter_commands import AddColumn, DefinitionChange, ModifyColumn
from sql.grammar.statements.statement import CreateTable


def check_engine_changes(create: CreateTable, changes: Sequence[DefinitionChange]) -> None:
    """Raises 48 (NOT_IMPLEMENTED) for a change that the engine does not take, 36 for a TTL of a table without keys."""
    engine = find_engine(create)
    if engine.alter_changes is None:
        return
    for change in changes:
        if isinstance(change, AddColumn | ModifyColumn) and change.column.ttl:
            raise unsupported(engine.name, "TTL clause")
        if not isinstance(change, engine.alter_changes) and not _is_comment(change):
            words = re.sub(r"(?<!^)(?=[A-Z])", "_", type(change).__name__).upper().removesuffix("S")
            raise UserError("NOT_IMPLEMENTED", f"Alter of type '{words}' is not supported by storage {engine.name}")


def _is_comment(change: DefinitionChange) -> bool:
    """MODIFY COLUMN that gives a comment and nothing else."""
    if not isinstance(change, ModifyColumn) or change.place is not None or change.remove:
        return False
    return change.column == ColumnClause(change.column.name, "", comment=change.column.comment)
