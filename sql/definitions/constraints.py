"""Compiles the CONSTRAINT clauses of a definition."""

from __future__ import annotations

from collections.abc import Sequence

from parts.common.errors import UserError
from parts.table.table_description import Constraint, TableSchema
from sql.grammar.clause_types import ConstraintClause
from sql.run.block_expressions import compile_key


def build_constraints(clauses: Sequence[ConstraintClause], schema: TableSchema) -> tuple[Constraint, ...]:
    """Compiles constraints. Raises ``UserError`` 47 and others for what stored columns cannot give."""
    constraints = []
    for clause in clauses:
        try:
            key = compile_key(clause.expression, schema.stored)
        except UserError as error:
            raise UserError(error.name, f"{error.message} (in constraint `{clause.name}`)") from error
        constraints.append(Constraint(clause.name, clause.expression, key, clause.is_assumed))
    return tuple(constraints)
