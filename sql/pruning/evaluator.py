"""Protocols of the evaluator that computes expressions for pruning."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from parts.table.table_description import TableSchema
from parts.types import DataType
from sql.grammar.syntax_tree import Node
from sql.typing.typed_expressions import Typed


class BlockExpression(Protocol):
    """An expression over the columns of blocks."""

    @property
    def type(self) -> DataType:
        """The type of its values."""

    def evaluate(self, block: pa.Table) -> pa.ChunkedArray:
        """Returns its value for every row, in the storage type."""


class Evaluator(Protocol):
    """Computes constants and compiles expressions."""

    def constant(self, value: Typed) -> object:
        """Returns the Python value of a constant expression."""

    def expression(self, node: Node, schema: TableSchema, zone: str) -> BlockExpression:
        """Compiles a tree. Raises ``UserError`` if it is not an expression over the columns."""
