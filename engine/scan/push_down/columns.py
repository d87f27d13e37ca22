"""The columns of a scan as Spark sees them: the type on the server, and the one that it is read in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.scan.push_down.expressions import WHOLE_DIGITS, Call, ColumnName, Node, is_wider, parse_decimal_type
from engine.scan.push_down.literals import UntranslatableError, quote_name
from engine.scan.push_down.spark_types import has_nanoseconds
from parts.types import (
    BoolType,
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FloatType,
    IntegerType,
    IPv4Type,
    IPv6Type,
    LowCardinalityType,
    StringType,
    UUIDType,
    strip_nullable,
)


@dataclass(frozen=True)
class Operand:
    """A column in SQL, the type by which Spark and the server compare it alike, and Spark's type."""

    sql: str
    type: DataType
    shown: str


@dataclass(frozen=True)
class ScanColumns:
    """The types of a table's columns, and ``shown``: the names of the types in which Spark reads them."""

    types: Mapping[str, DataType]
    shown: Mapping[str, str]

    def get_operand(self, node: Node) -> Operand:
        """Returns a column that both sides compare and order alike. Raises ``UntranslatableError`` for others.

        Strings that have another type on the server (Enum, UUID, addresses) are compared as strings.
        """
        name, type_ = self.get_column(node)
        shown = self.shown[name]
        sql = quote_name(name)
        match type_:
            case EnumType() | UUIDType() | IPv4Type() | IPv6Type() if shown == "string":
                return Operand(f"toString({sql})", StringType(), shown)
            case StringType() if shown == "string":
                return Operand(sql, type_, shown)
            case IntegerType(bits) if bits <= 64 and (shown in WHOLE_DIGITS or parse_decimal_type(shown)):
                return Operand(sql, type_, shown)
            case FloatType() if shown in ("float", "double"):
                return Operand(sql, type_, shown)
            case DecimalType() if parse_decimal_type(shown):
                return Operand(sql, type_, shown)
            case BoolType() if shown == "boolean":
                return Operand(sql, type_, shown)
            case DateType() | Date32Type() if shown == "date":
                return Operand(sql, type_, shown)
            case DateTimeType() | DateTime64Type() if shown == "timestamp" and not has_nanoseconds(type_):
                return Operand(sql, type_, shown)
        raise UntranslatableError

    def get_compared_operand(self, node: Node) -> Operand:
        """Returns a column, also where Spark casts it to a wider type to compare it."""
        target = ""
        while isinstance(node, Call) and node.name == "CAST" and len(node.children) == 1:
            if target and not is_wider(node.type, target):
                raise UntranslatableError
            target, node = node.type, node.children[0]
        operand = self.get_operand(node)
        if target and target != operand.shown and not is_wider(operand.shown, target):
            raise UntranslatableError
        return operand

    def get_column(self, node: Node) -> tuple[str, DataType]:
        """Returns the name of a column that is read, and its type without Nullable and LowCardinality."""
        if not isinstance(node, ColumnName) or node.name not in self.types or node.name not in self.shown:
            raise UntranslatableError
        type_ = strip_nullable(self.types[node.name])
        return node.name, strip_nullable(type_.inner) if isinstance(type_, LowCardinalityType) else type_
