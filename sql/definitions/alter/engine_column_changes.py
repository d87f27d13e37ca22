"""Checks ALTER of columns that an engine's arguments name: only a version may get a wider type."""

from __future__ import annotations

from parts.common.errors import UserError
from parts.merge.engine_columns import can_be_version
from parts.table.merge_mode import MergeMode
from parts.types import DataType, IntegerType, parse_type, strip_low_cardinality


def check_engine_column(mode: MergeMode, name: str, verb: str) -> None:
    """Refuses DROP, CLEAR or RENAME of such a column. Raises 524 (ALTER_OF_COLUMN_IS_FORBIDDEN)."""
    for column, role in mode.role_columns:
        if column == name:
            raise _forbidden_error(f"Trying to ALTER {verb} {role} ({name}) column")
    if name in mode.fixed_columns:
        raise _forbidden_error(f"Trying to ALTER {verb} column {name}, which conflict_order reads")


def check_engine_column_type(mode: MergeMode, name: str, former: str, given: str) -> bool:
    """Refuses types that the engine does not allow for the column. Raises 524.

    Returns whether the column is a version, whose type the engine allows to grow from ``former`` to ``given``.
    """
    role = dict(mode.role_columns).get(name, "")
    old, new = parse_type(former), parse_type(given)
    if name in mode.fixed_columns and old != new:
        raise _forbidden_error(
            f"Cannot alter column {name} from type {old} to type {new}, because conflict_order reads it: rows that "
            "were compared before would have been compared otherwise"
        )
    if role in ("sign", "is_deleted"):
        raise _forbidden_error(f"Cannot alter {role} column {name} to type {new}, because it must have type {old}")
    if role != "version":
        return False
    if not can_be_version(new):
        raise _forbidden_error(
            f"Cannot alter version column {name} to type {new} because version column must be of an integer type or of "
            "type Date or DateTime"
        )
    if not _is_wider(strip_low_cardinality(old), strip_low_cardinality(new)):
        raise _forbidden_error(
            f"Cannot alter version column {name} from type {old} to type {new} because new type is smaller than "
            "current in the number of bytes, or has other values. The only possible conversion is expansion of the "
            "number of bytes of the current type"
        )
    return True


def _is_wider(old: DataType, new: DataType) -> bool:
    """Returns whether every value keeps its meaning in the new type."""
    if isinstance(old, IntegerType) and isinstance(new, IntegerType):
        return new.signed == old.signed and new.bits >= old.bits
    return old.arrow.bit_width <= new.arrow.bit_width and type(old) is type(new)


def _forbidden_error(message: str) -> UserError:
    return UserError("ALTER_OF_COLUMN_IS_FORBIDDEN", message)
