"""What pruning asks of whoever can compute: it decides, and computes nothing by itself."""

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
    def type(self) -> DataType: ...

    def evaluate(self, block: pa.Table) -> pa.ChunkedArray:
        """Its value for every row, in the storage type."""


class Evaluator(Protocol):
    def constant(self, value: Typed) -> object:
        """The Python value of a constant expression."""

    def expression(self, node: Node, schema: TableSchema, zone: str) -> BlockExpression:
        """Raises ``UserError`` where the tree is not an expression over the columns."""
