"""What ALTER may do to the columns that an engine's arguments name: nothing but give a version a wider type."""

from __future__ import annotations

from parts.common.errors import UserError
from parts.merge.engine_columns import can_be_version
from parts.table.merge_mode import MergeMode
from parts.types import DataType, IntegerType, LowCardinalityType, parse_type


def check_engine_column(mode: MergeMode, name: str, verb: str) -> None:
    """Before DROP, CLEAR or RENAME. Raises 524 (ALTER_OF_COLUMN_IS_FORBIDDEN)."""
    for column, role in mode.role_columns:
        if column == name:
            raise _forbidden(f"Trying to ALTER {verb} {role} ({name}) column")


def check_engine_column_type(mode: MergeMode, name: str, former: str, given: str) -> bool:
    """Whether the column, of the type ``former``, may have the type ``given``, as far as the engine has to say; it has
    of a version. Raises 524."""
    role = dict(mode.role_columns).get(name, "")
    old, new = parse_type(former), parse_type(given)
    if role in ("sign", "is_deleted"):
        raise _forbidden(f"Cannot alter {role} column {name} to type {new}, because it must have type {old}")
    if role != "version":
        return False
    if not can_be_version(new):
        raise _forbidden(
            f"Cannot alter version column {name} to type {new} because version column must be of an integer type or of "
            "type Date or DateTime"
        )
    if not _is_wider(_plain(old), _plain(new)):
        raise _forbidden(
            f"Cannot alter version column {name} from type {old} to type {new} because new type is smaller than "
            "current in the number of bytes, or has other values. The only possible conversion is expansion of the "
            "number of bytes of the current type"
        )
    return True


def _plain(type_: DataType) -> DataType:
    return type_.inner if isinstance(type_, LowCardinalityType) else type_


def _is_wider(old: DataType, new: DataType) -> bool:
    """Whether every value stays what it is."""
    if isinstance(old, IntegerType) and isinstance(new, IntegerType):
        return new.signed == old.signed and new.bits >= old.bits
    return old.arrow.bit_width <= new.arrow.bit_width and type(old) is type(new)


def _forbidden(message: str) -> UserError:
    return UserError("ALTER_OF_COLUMN_IS_FORBIDDEN", message)
