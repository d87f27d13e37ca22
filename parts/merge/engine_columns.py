"""Check the columns that an engine's arguments name: versions, signs, marks of deletion."""

from __future__ import annotations

from parts.common.errors import UserError
from parts.table.table_description import Column, TableSchema
from parts.types import (
    BoolType,
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    FloatType,
    IntegerType,
    strip_low_cardinality,
)

_VERSIONS = (IntegerType, FloatType, BoolType, DateType, Date32Type, DateTimeType, DateTime64Type)


def find_stored_column(schema: TableSchema, name: str, what: str) -> Column:
    """Returns a stored column. Raises 16 if it does not exist or is not stored."""
    for column in schema.stored.columns:
        if column.name == name:
            return column
    raise UserError("NO_SUCH_COLUMN_IN_TABLE", f"{what} column {name} does not exist in table declaration")


def check_version_type(engine: str, column: Column) -> None:
    """Raises 169 for a type whose values are not numbers."""
    if not can_be_version(column.type):
        raise UserError(
            "BAD_TYPE_OF_FIELD",
            f"The column {column.name} cannot be used as a version column for storage {engine} because it is of type "
            f"{column.type} (must be of an integer type or of type Date/DateTime/DateTime64)",
        )


def can_be_version(type_: DataType) -> bool:
    """Tells whether values of the type can be versions."""
    inner = strip_low_cardinality(type_)
    return isinstance(inner, _VERSIONS)


def check_column_type(engine: str, column: Column, what: str, wanted: IntegerType) -> None:
    """Raises 169 unless the column has the wanted type."""
    if column.type != wanted:
        raise UserError(
            "BAD_TYPE_OF_FIELD",
            f"{what} column ({column.name}) for storage {engine} must have type {wanted}. Provided column of type "
            f"{column.type}",
        )


INT8 = IntegerType(8, signed=True)
UINT8 = IntegerType(8, signed=False)
