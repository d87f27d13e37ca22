"""``SimpleAggregateFunction(f, T)``: values of T, which merges of some engines combine with f.

The type is T wherever values are read or computed; a column of a table keeps the function
(``parts.table.table_description.Column``).
"""

from __future__ import annotations

import re
from dataclasses import replace

from parts.common.errors import UserError
from parts.types.composites import ArrayType, MapType, NullableType, TupleType, strip_low_cardinality
from parts.types.data_type import DataType
from parts.types.number_types import BoolType, DecimalType, FloatType, IntegerType

_FAMILY = "SimpleAggregateFunction"
_TEXT = re.compile(rf"\s*{_FAMILY}\s*\(\s*(\w+)")
_ALIASES = {"first_value": "any", "any_value": "any", "last_value": "anyLast", "sum": "sum", "min": "min", "max": "max"}
_FUNCTIONS = frozenset(
    {
        "any", "any_respect_nulls", "anyLast", "anyLast_respect_nulls", "min", "max", "sum", "sumWithOverflow",
        "groupBitAnd", "groupBitOr", "groupBitXor", "groupArrayArray", "groupUniqArrayArray", "sumMap", "minMap",
        "maxMap",
    }
)  # fmt: skip
_NOT_HERE = frozenset(
    {"groupArrayLastArray", "groupUniqArrayArrayMap", "sumMappedArrays", "minMappedArrays", "maxMappedArrays"}
)
_NUMBERS = (IntegerType, FloatType, DecimalType)


def parse_aggregate_name(text: str) -> str:
    """Returns the function of a type text that ``parse_type`` has accepted, or ``""``."""
    found = _TEXT.match(text)
    return _canonical(found[1]) if found else ""


def _canonical(function: str) -> str:
    return _ALIASES.get(function.lower(), function)


def format_type(type_: DataType, aggregate: str) -> str:
    """Returns the type's text, with the aggregate function if there is one."""
    return f"{_FAMILY}({aggregate}, {type_})" if aggregate else type_.name


def check_simple_aggregate(function: str, type_: DataType) -> None:
    """Checks the function and its type.

    Raises 36 for an unknown function or one that returns another type. Raises 43 for a type that the function cannot
    take, 48 for a function of ClickHouse that Pando does not have.
    """
    name = _canonical(function)
    if name in _NOT_HERE:
        raise UserError("NOT_IMPLEMENTED", f"{_FAMILY} with {name} is not supported; there are {_known()}")
    if name not in _FUNCTIONS:
        message = f"Unsupported aggregate function {function}, supported functions are {_known()}"
        raise UserError("BAD_ARGUMENTS", message)
    plain = strip_low_cardinality(type_)
    plain = plain.inner if isinstance(plain, NullableType) else plain
    if not _takes(name, plain):
        raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"Illegal type {type_} of argument for aggregate function {name}")
    if name == "sum" and (wide := _sum_type(plain)) != plain:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Incompatible data types between aggregate function 'sum' which returns {wide} and column storage type "
            f"{type_}",
        )


def _known() -> str:
    return ", ".join(sorted(_FUNCTIONS))


def _takes(name: str, type_: DataType) -> bool:
    match name:
        case "sum" | "sumWithOverflow":
            return isinstance(type_, (*_NUMBERS, BoolType))
        case "groupBitAnd" | "groupBitOr" | "groupBitXor":
            return isinstance(type_, IntegerType)
        case "groupArrayArray" | "groupUniqArrayArray":
            return isinstance(type_, ArrayType)
        case "sumMap" | "minMap" | "maxMap":
            return _is_map(type_, _NUMBERS if name == "sumMap" else None)
        case "min" | "max":
            return not type_.is_composite
    return True


def _is_map(type_: DataType, values: tuple[type, ...] | None) -> bool:
    """Tells whether the type has keys and values: Map, or a Tuple of arrays."""
    if isinstance(type_, MapType):
        return values is None or isinstance(type_.value, values)
    if not isinstance(type_, TupleType) or len(type_.elements) < 2:
        return False
    inner = [element.inner for _, element in type_.elements if isinstance(element, ArrayType)]
    return len(inner) == len(type_.elements) and (values is None or all(isinstance(i, values) for i in inner[1:]))


def _sum_type(type_: DataType) -> DataType:
    match type_:
        case IntegerType():
            return replace(type_, bits=64)
        case FloatType():
            return FloatType(64)
        case DecimalType():
            return replace(type_, precision=38)
        case BoolType():
            return IntegerType(64, signed=False)
    return type_
