"""ClickHouse's rules for result types: arithmetic, and the common type of several ("supertype").

Source: ClickHouse documentation, "Arithmetic functions", and the behaviour of ``if``, ``array`` and UNION.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from parts.common.errors import UserError
from parts.types import (
    ArrayType,
    BoolType,
    DataType,
    Date32Type,
    DateTime64Type,
    DateTimeType,
    DateType,
    DecimalType,
    EnumType,
    FixedStringType,
    FloatType,
    IntegerType,
    LowCardinalityType,
    MapType,
    NothingType,
    NullableType,
    StringType,
    TupleType,
    make_nullable,
    strip_nullable,
)
from sql.typing.typed_expressions import FLOAT32, FLOAT64, INT64, STRING, UINT8


def is_number(type_: DataType) -> bool:
    """Tells whether a type is numeric (Bool and Decimal included); Nullable is ignored."""
    return isinstance(strip_nullable(type_), (IntegerType, FloatType, DecimalType, BoolType))


def is_integer(type_: DataType) -> bool:
    """Tells whether a type is an integer or Bool; Nullable is ignored."""
    return isinstance(strip_nullable(type_), (IntegerType, BoolType))


def is_string(type_: DataType) -> bool:
    """Tells whether a type is String or FixedString; Nullable is ignored."""
    return isinstance(strip_nullable(type_), (StringType, FixedStringType))


def is_date_or_time(type_: DataType) -> bool:
    """Tells whether a type is a date or a time; Nullable is ignored."""
    return isinstance(strip_nullable(type_), (DateType, Date32Type, DateTimeType, DateTime64Type))


def bool_as_integer(type_: DataType) -> IntegerType:
    """Returns an integer type itself, and UInt8 for Bool."""
    return type_ if isinstance(type_, IntegerType) else UINT8


def sum_type(left: IntegerType, right: IntegerType) -> IntegerType:
    """Returns the type of ``+`` and ``*``: the next wider one, signed if a side is."""
    bits = min(64, 2 * max(left.bits, right.bits))
    return IntegerType(bits, left.signed or right.signed)


def difference_type(left: IntegerType, right: IntegerType) -> IntegerType:
    """Returns the type of ``-``: as wide as for ``+``, always signed."""
    return IntegerType(min(64, 2 * max(left.bits, right.bits)), True)


def machine_decimal_digits(precision: int) -> int:
    """Returns the maximal precision of the machine type that holds this many digits."""
    return next(width for width in (9, 18, 38) if precision <= width)


def _as_decimal(type_: DataType) -> DecimalType:
    if isinstance(type_, DecimalType):
        return type_
    digits = {8: 3, 16: 5, 32: 10, 64: 19 if bool_as_integer(type_).signed else 20}[bool_as_integer(type_).bits]
    return DecimalType(digits, 0)


# Supertypes -----------------------------------------------------------------------------------------------------------


def supertype(types: Iterable[DataType]) -> DataType:
    """Returns the smallest type that holds the values of all types. Raises ``UserError`` 386."""
    given = list(dict.fromkeys(types))
    if len(given) == 1:
        return given[0]
    nullable = any(type_.is_nullable for type_ in given)
    low = [isinstance(type_, LowCardinalityType) for type_ in given]
    bare = list(dict.fromkeys(strip_nullable(type_) for type_ in given))
    some = [type_ for type_ in bare if not isinstance(type_, NothingType)]
    if not some:
        return given[0] if not nullable else NullableType(NothingType())
    result = some[0] if len(some) == 1 else _common_type(some)
    if nullable:
        result = make_nullable(result)
    return LowCardinalityType(result) if all(low) and not isinstance(result, LowCardinalityType) else result


def no_supertype_error(types: Sequence[DataType]) -> UserError:
    """Returns error 386 for types without a supertype."""
    names = ", ".join(str(type_) for type_ in types)
    return UserError("NO_COMMON_TYPE", f"There is no supertype for types {names}: convert them to one type first")


def _common_type(types: list[DataType]) -> DataType:
    """Returns the supertype of several types without Nullable. Raises ``UserError`` 386."""
    if all(isinstance(type_, ArrayType) for type_ in types):
        return ArrayType(supertype(type_.inner for type_ in types))  # type: ignore[attr-defined]
    if all(isinstance(type_, MapType) for type_ in types):
        return MapType(supertype(t.key for t in types), supertype(t.value for t in types))  # type: ignore[attr-defined]
    if all(isinstance(type_, TupleType) for type_ in types):
        return _common_tuple([type_ for type_ in types if isinstance(type_, TupleType)])
    if all(isinstance(type_, (StringType, FixedStringType)) for type_ in types):
        return STRING
    if all(isinstance(type_, (EnumType, StringType)) for type_ in types) and STRING in types:
        return STRING
    if all(is_date_or_time(type_) for type_ in types):
        return _common_time(types)
    if all(is_number(type_) for type_ in types):
        return _common_number(types)
    raise no_supertype_error(types)


def _common_tuple(types: list[TupleType]) -> DataType:
    width = len(types[0].elements)
    if any(len(type_.elements) != width for type_ in types):
        raise no_supertype_error(types)
    names = [name for name, _ in types[0].elements]
    keep = all([name for name, _ in type_.elements] == names for type_ in types)
    return TupleType(
        tuple(
            (names[position] if keep else None, supertype(type_.elements[position][1] for type_ in types))
            for position in range(width)
        )
    )


def _common_time(types: list[DataType]) -> DataType:
    fine = [type_ for type_ in types if isinstance(type_, DateTime64Type)]
    zones = [type_.timezone for type_ in types if isinstance(type_, (DateTimeType, DateTime64Type))]
    if fine:
        return DateTime64Type(*_highest_precision(fine))
    if zones:
        if any(isinstance(type_, Date32Type) for type_ in types):
            return DateTime64Type(0)
        return DateTimeType(zones[0])
    return Date32Type()


def _highest_precision(types: list[DateTime64Type]) -> tuple[int, str | None]:
    """Returns precision and zone of the first type of the highest precision."""
    finest = max(types, key=lambda type_: type_.precision)
    return finest.precision, finest.timezone


def _common_number(types: list[DataType]) -> DataType:
    """Returns the supertype of numeric types. Raises ``UserError`` 386."""
    floats = [type_ for type_ in types if isinstance(type_, FloatType)]
    decimals = [type_ for type_ in types if isinstance(type_, DecimalType)]
    integers = [bool_as_integer(type_) for type_ in types if isinstance(type_, (IntegerType, BoolType))]
    if decimals:
        if floats:
            raise no_supertype_error(types)
        return _common_decimal(decimals, integers)
    if floats:
        if any(type_.bits == 64 for type_ in integers):
            raise no_supertype_error(types)
        wide = any(type_.bits == 64 for type_ in floats) or any(type_.bits == 32 for type_ in integers)
        return FLOAT64 if wide else FLOAT32
    signed = [type_.bits for type_ in integers if type_.signed]
    unsigned = [type_.bits for type_ in integers if not type_.signed]
    if not signed:
        return IntegerType(max(unsigned), False)
    bits = max(max(signed), 2 * max(unsigned) if unsigned else 0)
    if bits > 64:
        raise no_supertype_error(types)
    return IntegerType(bits, True)


def _common_decimal(decimals: list[DecimalType], integers: list[IntegerType]) -> DataType:
    """Returns the Decimal of the largest scale and the widest machine type.

    Integers of 32 and 64 bits fit the machine types of their widths if the scale is 0.
    """
    scale = max(type_.scale for type_ in decimals)
    width = max(machine_decimal_digits(type_.precision) for type_ in decimals)
    if integers:
        digits = max(_as_decimal(type_).precision for type_ in integers)
        if scale == 0 and digits in (10, 19) and all(type_.signed or type_.bits < 32 for type_ in integers):
            digits -= 1
        if digits + scale > 38:
            raise no_supertype_error([*decimals, *integers])
        width = max(width, machine_decimal_digits(digits + scale))
    return DecimalType(width, scale)


def sum_result(type_: DataType) -> DataType:
    """Returns the type of the aggregate ``sum``. Raises ``UserError`` 43."""
    match type_:
        case IntegerType(_, signed):
            return INT64 if signed else IntegerType(64, False)
        case BoolType():
            return IntegerType(64, False)
        case FloatType():
            return FLOAT64
        case DecimalType(_, scale):
            return DecimalType(38, scale)
    raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"Illegal type {type_} of argument for aggregate function sum")
