"""Texts of values of any type, for the bodies that are damaged."""

from __future__ import annotations

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
    FloatType,
    IntegerType,
    IPv4Type,
    IPv6Type,
    LowCardinalityType,
    MapType,
    NullableType,
    TupleType,
    UUIDType,
)

_TEXTS: dict[type[DataType], list[str]] = {
    IntegerType: ["0", "1", "17", "99"],
    FloatType: ["0", "1.5", "-3e10", "inf"],
    BoolType: ["true", "false"],
    DecimalType: ["0", "1.5", "-22.125"],
    DateType: ["2020-01-02", "1970-01-01"],
    Date32Type: ["2020-01-02", "1925-01-01"],
    DateTimeType: ["2020-01-02 03:04:05", "2100-01-01 00:00:00"],
    DateTime64Type: ["2020-01-02 03:04:05.123", "1970-01-01 00:00:00"],
    UUIDType: ["00112233-4455-6677-8899-aabbccddeeff"],
    IPv4Type: ["1.2.3.4", "255.255.255.255"],
    IPv6Type: ["::1", "2001:db8::ff"],
}
_STRINGS = ["", "a", "bc", "é日", "hello world", "x" * 30]


def texts_of(type_: DataType, *, is_inside: bool = False) -> list[str]:
    """As a field of TabSeparated, or inside a composite one. No text with a tab, line end or backslash but ``\\N``."""
    if isinstance(type_, NullableType):
        return [*texts_of(type_.inner, is_inside=is_inside), "NULL" if is_inside else "\\N"]
    if isinstance(type_, LowCardinalityType):
        return texts_of(type_.inner, is_inside=is_inside)
    if isinstance(type_, ArrayType):
        inner = texts_of(type_.inner, is_inside=True)
        return ["[]", f"[{inner[0]}]", f"[{','.join(inner)}]"]
    if isinstance(type_, MapType):
        keys, values = texts_of(type_.key, is_inside=True), texts_of(type_.value, is_inside=True)
        last = f"{keys[2 % len(keys)]}:{values[1 % len(values)]}"
        return ["{}", f"{{{keys[1 % len(keys)]}:{values[-1]}}}", f"{{{keys[0]}:{values[0]},{last}}}"]
    if isinstance(type_, TupleType):
        columns = [texts_of(inner, is_inside=True) for _, inner in type_.elements]
        return [f"({','.join(texts[row % len(texts)] for texts in columns)})" for row in range(4)]
    if isinstance(type_, EnumType):
        texts = [name for name, _ in type_.values]
    else:
        texts = _TEXTS.get(type(type_), _STRINGS)
    if type(type_) not in _TEXTS:
        texts = [text[:4] if "Fixed" in str(type_) and len(text.encode()) > 5 else text for text in texts]
    needs_quotes = is_inside and not isinstance(type_, (IntegerType, FloatType, BoolType, DecimalType))
    return [f"'{text}'" for text in texts] if needs_quotes else texts
