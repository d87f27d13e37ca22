"""What the rows of a partition, or of a shard, have in common, for Spark.

By it Spark joins and groups without a shuffle. An item of a key reads one column: it is the column itself, or a
function of it. Spark never computes such a function: it takes two for the same if their texts are equal. So a text
holds all that a value depends on: the expression, and the type of its column. A time has a zone of its own there, or
it is left out, because servers may be in several zones.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.remote.server_clusters import ServerCluster
from engine.scan.push_down.spark_types import make_spark_field
from parts.common.errors import UserError
from parts.format.columns_file import to_python_value
from parts.read.part_reader import Part
from parts.table.table_description import TableDescription, TableSchema
from parts.types import (
    BoolType,
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    IntegerType,
    LowCardinalityType,
    StringType,
    strip_nullable,
)
from sql.compile.expressions.expressions import is_random
from sql.grammar.queries.query_formatter import format_expression
from sql.grammar.queries.query_parser import parse_expression
from sql.grammar.syntax_tree import Function, Identifier, Node, transform, walk

_EPOCH = datetime.date(1970, 1, 1)
_ANY_COLUMN = Identifier(("_",))


@dataclass(frozen=True)
class DivisionKey:
    """An item of a key; ``position`` is its place there. ``function`` is empty for the column itself."""

    position: int
    column: str
    function: str
    type: str
    """The type of Spark of its values."""

    def show(self) -> dict[str, str]:
        """Returns it as a scan's plan has it."""
        return {"column": self.column, "function": self.function, "type": self.type}

    def find_value(self, part: Part) -> str | int | bool | None:
        """Returns the value of all rows of a part: days since 1970 for a date, a text for a function."""
        value = to_python_value(part.partition_arrays[self.position][2][0])
        if value is None:
            return None
        if self.function:
            return str(value)
        if isinstance(value, datetime.date):
            return (value - _EPOCH).days
        assert isinstance(value, str | int)
        return value


def list_partition_keys(description: TableDescription) -> list[DivisionKey]:
    """Returns the items of the partition key that Spark may use."""
    key = description.partition_key
    found = [
        _find_key(position, parse_expression(expression), type_, description.schema)
        for position, (expression, type_) in enumerate(zip(key.expressions, key.types, strict=True))
    ]
    return [item for item in found if item is not None]


def list_sharding_keys(text: str, schema: TableSchema, cluster: ServerCluster) -> list[DivisionKey]:
    """Returns the number of a row's shard as a function of a column, if it is one."""
    if not text:
        return []
    node = parse_expression(text)
    if any(isinstance(item, Function) and is_random(item.name) for item in walk(node)):
        return []
    weights = [shard.weight for shard in cluster.shards]
    column = _find_column(node, schema)
    if column is None:
        return []
    return [DivisionKey(0, column, f"{_describe(node, column, schema)} % {weights}", "string")]


def _find_key(position: int, node: Node, type_: DataType, schema: TableSchema) -> DivisionKey | None:
    column = _find_column(node, schema)
    if column is None or not _has_plain_values(type_):
        return None
    if node == Identifier((column,)):
        try:
            shown = make_spark_field(column, schema.column(column).type)["type"]
        except UserError:
            return None
        return DivisionKey(position, column, "", shown) if isinstance(shown, str) else None
    return DivisionKey(position, column, _describe(node, column, schema), "string")


def _find_column(node: Node, schema: TableSchema) -> str | None:
    """Returns the only column of an expression, if the value on one server is that on another."""
    names = {item.parts for item in walk(node) if isinstance(item, Identifier)}
    if len(names) != 1:
        return None
    ((column, *others),) = names
    if others or column not in schema:
        return None
    type_ = _strip(schema.column(column).type)
    has_own_zone = not isinstance(type_, DateTimeType | DateTime64Type) or bool(type_.timezone)
    return column if has_own_zone else None


def _describe(node: Node, column: str, schema: TableSchema) -> str:
    """Returns the text of a function, in which the column's name is left out."""
    shown = transform(node, lambda item: _ANY_COLUMN if item == Identifier((column,)) else item)
    return f"{format_expression(shown)} of {schema.column(column).type}"


def _has_plain_values(type_: DataType) -> bool:
    """Tells whether values are equal in Spark if and only if they are equal here, and have a text of their own."""
    match _strip(type_):
        case IntegerType(bits, signed):
            return bits < 64 or signed
        case BoolType() | DateType() | Date32Type() | StringType():
            return True
    return False


def _strip(type_: DataType) -> DataType:
    type_ = strip_nullable(type_)
    return strip_nullable(type_.inner) if isinstance(type_, LowCardinalityType) else type_


def show_keys(keys: Sequence[DivisionKey]) -> dict[str, Any]:
    """Returns the member ``keys`` of a plan, if there are any."""
    return {"keys": [key.show() for key in keys]} if keys else {}
