"""Parses and checks the JSON fields of scan requests. Errors are 36 or 69 and name the field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.scan.block_filter import NO_BLOCK
from engine.scan.leases import ScanOpening
from engine.scan.slot_planning import TaskSize
from engine.tables.capabilities.block_history import BlockHistory, WantedBlocks, require_readable_blocks
from engine.tables.table_definition import TableDefinition
from parts.common.errors import UserError

Body = Mapping[str, Any]
MAX_SECONDS = 1e9
_DEFAULT_LEASE_SECONDS = 300.0
_LAST_BLOCK = (1 << 63) - 1


@dataclass(frozen=True)
class StreamStart:
    """The position of a stream: the blocks that it has read. Without ``identity`` it has read nothing."""

    identity: str = ""
    blocks: Mapping[str, int] | None = None
    until: Mapping[str, int] | None = None
    """The last blocks to read, by partition."""
    may_lack_rows: bool = False

    def read_blocks(self, definition: TableDefinition, history: BlockHistory) -> Mapping[str, int]:
        """Returns the blocks read so far, by partition.

        Raises 33 (CANNOT_READ_ALL_DATA) when later blocks are not complete any more.
        """
        blocks = self.blocks or {}
        if not self.identity:
            return blocks
        if self.may_lack_rows and self.identity != history.identity:
            return {}
        names = {*blocks, *history.dropped, *(part.partition_id for part in history.lost)}
        open_ranges = ((name, blocks.get(name, NO_BLOCK), _LAST_BLOCK) for name in names)
        require_readable_blocks(
            definition, history, WantedBlocks(self.identity, tuple(open_ranges), self.may_lack_rows)
        )
        return blocks

    def limited(self, decided: Mapping[str, int]) -> Mapping[str, int]:
        """Returns the block numbers, limited to ``until``."""
        if self.until is None:
            return decided
        return {name: min(number, self.until[name]) for name, number in decided.items() if name in self.until}


def parse_stream_start(body: Body) -> StreamStart:
    """Parses the start of a stream."""
    start = _get_object(body, "start")
    until = parse_block_numbers(body["until"], "until") if body.get("until") is not None else None
    return StreamStart(
        get_text(start, "identity", ""),
        parse_block_numbers(start.get("blocks", {}), "blocks"),
        until,
        get_flag(body, "may_lack_rows"),
    )


def parse_wanted_blocks(body: Body) -> WantedBlocks | None:
    """Parses the blocks to read; ``None`` means the whole table."""
    if body.get("blocks") is None:
        return None
    blocks = _get_object(body, "blocks")
    ranges = []
    for partition_id, limits in _get_object(blocks, "ranges").items():
        if not isinstance(limits, list) or len(limits) != 2 or not all(map(_is_number, limits)):
            raise UserError("BAD_ARGUMENTS", f"'ranges' must hold pairs of numbers, got {limits!r}")
        ranges.append((partition_id, *limits))
    return WantedBlocks(get_text(blocks, "identity"), tuple(ranges), get_flag(blocks, "may_lack_rows"))


def parse_block_numbers(value: object, name: str) -> dict[str, int]:
    """Checks block numbers by partition and returns them."""
    if not isinstance(value, dict) or not all(map(_is_number, value.values())):
        raise UserError("BAD_ARGUMENTS", f"{name!r} must hold a number for each partition, got {value!r}")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and NO_BLOCK <= value <= _LAST_BLOCK


def _get_object(body: Body, name: str) -> dict[str, Any]:
    value = body.get(name) or {}
    if not isinstance(value, dict):
        raise UserError("BAD_ARGUMENTS", f"{name!r} must be an object, got {value!r}")
    return value


def get_document(body: Body, name: str) -> dict[str, Any]:
    """Returns a required object."""
    if not body.get(name):
        raise UserError("BAD_ARGUMENTS", f"{name!r} is missing")
    return _get_object(body, name)


def get_text(body: Body, name: str, default: str | None = None) -> str:
    """Returns a string, or the default."""
    value = body.get(name, default)
    if not isinstance(value, str):
        raise UserError("BAD_ARGUMENTS", f"{name!r} must be a string, got {value!r}")
    return value


def get_texts(body: Body, name: str) -> list[str]:
    """Returns a list of strings."""
    value = body.get(name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UserError("BAD_ARGUMENTS", f"{name!r} must be a list of strings, got {value!r}")
    return value


def get_list(body: Body, name: str) -> list[Any]:
    """Returns a list."""
    value = body.get(name)
    if not isinstance(value, list):
        raise UserError("BAD_ARGUMENTS", f"{name!r} must be a list, got {value!r}")
    return value


def get_positive_number(body: Body, name: str, least: int = 1) -> int | None:
    """Returns a number of at least ``least``, or ``None`` if it is missing."""
    value = body.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not least <= value < 1 << 63):
        raise UserError("BAD_ARGUMENTS", f"{name!r} must be a number of at least {least}, got {value!r}")
    return value


def get_seconds(body: Body, name: str, default: float) -> float:
    """Returns a duration in seconds, or the default."""
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_SECONDS:
        raise UserError("ARGUMENT_OUT_OF_BOUND", f"{name!r} must be 0 to {MAX_SECONDS:g} seconds, got {value!r}")
    return float(value)


def get_lease_seconds(body: Body) -> float:
    """Returns the duration of the lease in seconds."""
    return get_seconds(body, "lease_seconds", _DEFAULT_LEASE_SECONDS)


def get_flag(body: Body, name: str) -> bool:
    """Returns a boolean; False if it is missing."""
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise UserError("BAD_ARGUMENTS", f"{name!r} must be true or false, got {value!r}")
    return value


def parse_slot(body: Body) -> tuple[int, int]:
    """Returns the slot's number and the number of slots."""
    slots = get_positive_number(body, "slots") or 1
    slot = body.get("slot", 0)
    if isinstance(slot, bool) or not isinstance(slot, int) or not 0 <= slot < slots:
        raise UserError("BAD_ARGUMENTS", f"'slot' must be 0 to {slots - 1} ('slots' less one), got {slot!r}")
    return slot, slots


def parse_task_size(body: Body) -> TaskSize:
    """Returns the size limits of a task."""
    return TaskSize(get_positive_number(body, "max_rows_per_task"), get_positive_number(body, "max_bytes_per_task"))


def parse_opening(body: Body) -> ScanOpening:
    """Parses the fields with which a read opens its scan."""
    name = get_text(body, "scan")
    if not name:
        raise UserError("BAD_ARGUMENTS", "'scan' must name the execution that reads, it is empty")
    return ScanOpening(
        name,
        tuple(get_texts(body, "columns")),
        get_lease_seconds(body),
        bool(body.get("behind")) or get_flag(body, "is_repeated"),
        get_flag(body, "is_alone"),
        get_flag(body, "sequential_consistency"),
        get_seconds(body, "max_delay_seconds", MAX_SECONDS),
        parse_wanted_blocks(body),
    )
