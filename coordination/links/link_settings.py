"""The settings of a link: their names, types, defaults and ranges, and what cannot go together.

A definition keeps the values that were given; :meth:`LinkSettings.parse` adds the defaults. ``enabled`` is the
exception: the definition keeps it as ``LinkDefinition.is_enabled``.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Self, cast
from uuid import UUID

from coordination.links.positions import Position
from coordination.links.tracker.tracker_options import TRACKER_SETTINGS
from coordination.nodes.gate_link import DEFAULT_SYNC_TAIL_BYTES
from parts.common.errors import UserError

LinkSettingValue = bool | int | float | str
ANY_UPSTREAM = str(UUID(int=0))
"""The value of ``upstream_replica_id`` that protects a table from nothing."""
START_NOW = "now"
"""The value of ``start_position`` with which a link brings what is committed from now on."""
START_VECTOR = "vector"
"""The value of ``start_position`` with which a link goes on where the target's vector says."""
_SETTINGS_OF_TABLES = ("commands_from", "conflict_order", "last_writer_wins", "refuse_inserts", *TRACKER_SETTINGS)
_NOT_YET = {
    "transactional": "groups of links are not there yet",
}


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """The settings of one link, with every default filled in."""

    mode: str = "async"
    """How an INSERT at the source waits for the target: not at all (``async``), or until all its replicas show the rows
    (``sync``). The source keeps the mode, and may change it too."""
    enabled: bool = True
    """The link brings changes. A link with 0 keeps its place at the source, and waits for ``ENABLE``."""
    two_way: bool = False
    """The target takes writes of its own, which a link of the other direction brings back. Both links have it."""
    replicate_ddl: bool = False
    """The source's ``ALTER TABLE`` of columns is carried out at the target, before the first rows that need it. With
    ``two_way = 1`` only if the source's cluster gives the table its commands (``commands_from``)."""
    auto_bootstrap: bool = False
    """A link that came too late for what the source keeps copies the table anew by itself."""
    start_position: str = ""
    """What a target that has rows has of the source. Empty: nothing, the target must be empty, and the table is copied.
    ``now``: all that is there. ``vector``: what its vector says. A position: everything up to it."""
    link_max_batch_rows: int = 1024 * 1024
    """Rows after which a batch ends. A change that has more is a batch by itself."""
    link_max_batch_bytes: int = 64 * 1024 * 1024
    """Bytes, as stored, after which a batch ends."""
    link_batch_delay_ms: int = 10
    """Milliseconds that a source with something new waits for more, so that small changes travel together."""
    replication_throttler_limit: int = 0
    """Bytes that the link may bring in each period; 0: any number."""
    replication_throttler_period: int = 1000
    """That period, in milliseconds."""
    replication_timeout: float = 1.0
    """Seconds after which a source answers even if it has nothing new. After four without an answer the next server is
    asked."""
    link_sync_tail_bytes: int = DEFAULT_SYNC_TAIL_BYTES
    """Bytes that the target may lack when the link becomes synchronous: INSERTs wait until it has them."""
    link_quorum: int = 2
    """Replicas of the target that have a batch before it is committed, as far as so many are active."""
    preserve_timestamps: bool = True
    """Rows keep the ids of their blocks, so that a client's repeat at the target is a duplicate. With 0 the table takes
    several sources and writes of its own."""
    run_views: bool = False
    """Materialized views of the target run over the rows that the link brings, in the same commit. The tables that they
    fill must be replicated, in the same ZooKeeper. What a copy of the source brings does not pass through views."""
    check_constraints: bool = False
    """The target's constraints are checked; a violation pauses the link."""
    enable_tracker: bool = True
    """The tracker of the source's table, where it is on, may make the link synchronous. With 0 it leaves it alone."""
    apply_commands: bool = False
    """A target that takes other writes too carries out the source's mutations and drops, on all rows that it has then.
    With 0 they pause the link."""
    upstream_replica_id: str = ""
    """Protects the target: with the empty value only this link brings rows. The UUID that is all zeros lets other links
    and clients write."""

    @property
    def allows_writes(self) -> bool:
        """Whether the target takes writes of clients, and other links."""
        return self.two_way or not self.preserve_timestamps or self.upstream_replica_id == ANY_UPSTREAM

    @property
    def is_collecting(self) -> bool:
        """Whether the target takes other writes, none of which goes back."""
        return self.allows_writes and not self.two_way

    @classmethod
    def parse(cls, values: Mapping[str, object]) -> Self:
        """Returns the settings with these values and the defaults of the others.

        Raises 115 (UNKNOWN_SETTING); 36, 69, 72 or 467 for a value that is not allowed, naming setting and value; 48
        (NOT_IMPLEMENTED) for what links do not do yet.
        """
        settings = cls(**{name: parse_link_setting(name, value) for name, value in values.items()})  # type: ignore[arg-type]
        settings._check_together()
        return settings

    def _check_together(self) -> None:
        if self.two_way and self.auto_bootstrap:
            raise UserError(
                "BAD_ARGUMENTS",
                "auto_bootstrap = 1 and two_way = 1 exclude each other: copying the source anew would take the place "
                "of rows that were written at the target. Give one of them",
            )


def parse_link_setting(name: str, value: object) -> LinkSettingValue:
    """Returns the typed value of one setting. Raises as :meth:`LinkSettings.parse`."""
    if (reason := _NOT_YET.get(name)) is not None:
        raise UserError("NOT_IMPLEMENTED", f"Setting {name} of a link is not supported: {reason}")
    default = DEFAULTS.get(name)
    if default is None:
        raise UserError("UNKNOWN_SETTING", f"Unknown setting {name!r} of a link{_suggest(name)}")
    if isinstance(default, bool):
        return _parse_bool(name, value)
    if isinstance(default, int):
        return cast(int, _parse_number(name, value, int))
    if isinstance(default, float):
        return _parse_number(name, value, float)
    return _TEXTS[name](name, value)


def format_link_setting(value: object) -> str:
    """Formats a value as SQL and system tables show it."""
    return str(int(value)) if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def changes_with_alter(name: str) -> bool:
    """Tells whether MODIFY SETTING may change the setting. The others are fixed when the link is made."""
    return name not in ("start_position", "preserve_timestamps")


def _suggest(name: str) -> str:
    if name in _SETTINGS_OF_TABLES:
        return ": it is a setting of the table"
    near = difflib.get_close_matches(name, DEFAULTS, n=3, cutoff=0.7)
    return f". Maybe you meant {' or '.join(near)}" if near else f"; there are {', '.join(DEFAULTS)}"


def _parse_bool(name: str, value: object) -> bool:
    text = str(int(value) if isinstance(value, bool) else value).strip().lower()
    if text not in ("0", "1", "true", "false"):
        raise UserError(
            "CANNOT_PARSE_BOOL",
            f"Cannot parse {str(value)!r} as a Bool for setting {name} of a link: use 0, 1, true or false",
        )
    return text in ("1", "true")


def _parse_number(name: str, value: object, kind: Callable[[str], float]) -> float:
    text = str(int(value) if isinstance(value, bool) else value).strip()
    try:
        number = kind(text)
    except ValueError:
        raise UserError(
            "CANNOT_PARSE_NUMBER", f"Cannot parse {text[:100]!r} as a number for setting {name} of a link"
        ) from None
    least, most = RANGES[name]
    if not (math.isfinite(number) and least <= number <= most):
        raise UserError(
            "ARGUMENT_OUT_OF_BOUND",
            f"Value {text[:100]} of setting {name} of a link is out of range: it must be {least} to {most}",
        )
    return number


def _parse_mode(name: str, value: object) -> str:
    text = str(value).lower()
    if text not in ("sync", "async"):
        raise UserError(
            "BAD_ARGUMENTS", f"Unexpected value {str(value)[:100]!r} of setting {name}: it must be 'sync' or 'async'"
        )
    return text


def _parse_start(_: str, value: object) -> str:
    text = str(value)
    if text in ("", START_NOW, START_VECTOR):
        return text
    try:
        return str(Position.parse(text))
    except UserError as error:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Unexpected value of setting start_position: it is empty, '{START_NOW}', '{START_VECTOR}' or a position "
            f"that currentPosition gave at the source. {error.message}",
        ) from None


def _parse_upstream(name: str, value: object) -> str:
    text = str(value)
    if text in ("", "0", ANY_UPSTREAM):
        return ANY_UPSTREAM if text else ""
    raise UserError(
        "BAD_ARGUMENTS",
        f"Unexpected value {text[:100]!r} of setting {name}: it is empty (this link alone brings rows) or "
        f"'{ANY_UPSTREAM}' (clients and other links may write too)",
    )


DEFAULTS: Mapping[str, LinkSettingValue] = {
    field.name: cast(LinkSettingValue, field.default) for field in fields(LinkSettings)
}
"""The default of each setting."""
RANGES: Mapping[str, tuple[float, float]] = {
    "link_max_batch_rows": (1, 2**40),
    "link_max_batch_bytes": (1024, 2**40),
    "link_batch_delay_ms": (0, 60_000),
    "replication_throttler_limit": (0, 2**50),
    "replication_throttler_period": (1, 3_600_000),
    "replication_timeout": (0.05, 600),
    "link_sync_tail_bytes": (1, 2**50),
    "link_quorum": (1, 100),
}
"""The least and the largest value of each number."""
_TEXTS: Mapping[str, Callable[[str, object], str]] = {
    "mode": _parse_mode,
    "start_position": _parse_start,
    "upstream_replica_id": _parse_upstream,
}
