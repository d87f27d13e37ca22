"""The options of a table's tracker, as the table's gate keeps them.

::

    links/gate    {…,"tracker":{"enabled":true,"min":1,"max":2,"preferred":["west"],"collocation":"orders"}}

What is not given is left out. Versions of Pando that know no tracker keep the key when they write the gate.

Source: YTsaurus' ``replicated_table_options``, whose names and defaults these are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from coordination.nodes.gate import Gate
from parts.common.errors import UserError

ENABLE_TRACKER = "enable_replicated_table_tracker"
MIN_SYNC = "min_sync_replica_count"
MAX_SYNC = "max_sync_replica_count"
PREFERRED = "preferred_sync_clusters"
COLLOCATION = "link_collocation"
TRACKER_SETTINGS = (ENABLE_TRACKER, MIN_SYNC, MAX_SYNC, PREFERRED, COLLOCATION)
"""The settings of a table that only ALTER TABLE sets."""
_KEY = "tracker"
_MOST_LINKS = 1000
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class TrackerOptions:
    """The tracker's task for one table, or for one collocation of tables."""

    is_enabled: bool = False
    least: int | None = None
    """``min_sync_replica_count``; ``None`` if it is not given."""
    most: int | None = None
    """``max_sync_replica_count``; ``None`` if it is not given."""
    preferred: tuple[str, ...] = ()
    """Names of clusters; the first is preferred most."""
    collocation: str = ""
    """The tables of one collocation have their synchronous links to the same clusters; empty: the table is alone."""

    def find_bounds(self, targets: int) -> tuple[int, int]:
        """Returns how many of so many targets shall be synchronous, at least and at most.

        Both missing: 1 and 1. Only the least missing: it is the most. Only the most missing: all targets.
        """
        if self.least is None and self.most is None:
            return 1, 1
        if self.most is None:
            assert self.least is not None
            return self.least, max(self.least, targets)
        return (self.most if self.least is None else self.least), self.most

    def to_json(self) -> dict[str, Any]:
        """Returns what the gate keeps: what differs from the defaults."""
        document = {
            "enabled": self.is_enabled or None,
            "min": self.least,
            "max": self.most,
            "preferred": list(self.preferred) or None,
            "collocation": self.collocation or None,
        }
        return {key: value for key, value in document.items() if value is not None}


def read_tracker_options(gate: Gate) -> TrackerOptions:
    """Returns the options that a gate keeps. What cannot be read counts as not given."""
    kept = gate.others.get(_KEY)
    if not isinstance(kept, Mapping):
        return TrackerOptions()
    least, most = kept.get("min"), kept.get("max")
    return TrackerOptions(
        kept.get("enabled") is True,
        least if isinstance(least, int) else None,
        most if isinstance(most, int) else None,
        tuple(map(str, kept.get("preferred", ()))),
        str(kept.get("collocation", "")),
    )


def with_tracker_options(gate: Gate, options: TrackerOptions) -> Gate:
    """Returns the gate with these options."""
    others = {key: value for key, value in gate.others.items() if key != _KEY}
    document = options.to_json()
    return replace(gate, others={**others, _KEY: document} if document else others)


def change_options(options: TrackerOptions, changed: Mapping[str, str | None]) -> TrackerOptions:
    """Returns the options with these settings, as text; ``None`` resets one.

    Raises 36, 72 or 467 for a value that is not allowed, naming setting and value.
    """
    for name, text in changed.items():
        options = _CHANGES[name](options, name, text)
    if options.least is not None and options.most is not None and options.least > options.most:
        raise UserError(
            "BAD_ARGUMENTS",
            f"{MIN_SYNC} = {options.least} is above {MAX_SYNC} = {options.most}: give both in one ALTER TABLE, the "
            "least not above the most",
        )
    return options


def join_options(options: Mapping[str, TrackerOptions]) -> TrackerOptions:
    """Returns the options of a collocation, from those of its tables.

    The bounds hold for every table; where that is impossible the largest least counts. A cluster is preferred if every
    table prefers it.
    """
    every = list(options.values())
    least = max((each.least for each in every if each.least is not None), default=None)
    most = min((each.most for each in every if each.most is not None), default=None)
    if least is not None and most is not None:
        most = max(least, most)
    first = every[0]
    preferred = tuple(name for name in first.preferred if all(name in each.preferred for each in every))
    return TrackerOptions(any(each.is_enabled for each in every), least, most, preferred, first.collocation)


def _enable(options: TrackerOptions, name: str, text: str | None) -> TrackerOptions:
    value = (text or "0").strip().lower()
    if value not in ("0", "1", "true", "false"):
        raise UserError("CANNOT_PARSE_BOOL", f"Cannot parse {value[:100]!r} as a Bool for setting {name}: use 0 or 1")
    return replace(options, is_enabled=value in ("1", "true"))


def _set_least(options: TrackerOptions, name: str, text: str | None) -> TrackerOptions:
    return replace(options, least=_parse_count(name, text, 0))


def _set_most(options: TrackerOptions, name: str, text: str | None) -> TrackerOptions:
    return replace(options, most=_parse_count(name, text, 1))


def _parse_count(name: str, text: str | None, least: int) -> int | None:
    if text is None:
        return None
    try:
        count = int(text)
    except ValueError:
        raise UserError("CANNOT_PARSE_NUMBER", f"Cannot parse {text[:100]!r} as a number for setting {name}") from None
    if not least <= count <= _MOST_LINKS:
        raise UserError(
            "ARGUMENT_OUT_OF_BOUND",
            f"Value {text[:100]} of setting {name} is out of range: it must be {least} to {_MOST_LINKS}",
        )
    return count


def _prefer(options: TrackerOptions, name: str, text: str | None) -> TrackerOptions:
    names = [each.strip() for each in (text or "").split(",") if each.strip()]
    if len(set(names)) < len(names) or any(len(each) > _LONGEST_NAME for each in names):
        raise UserError(
            "BAD_ARGUMENTS",
            f"Unexpected value {str(text)[:200]!r} of setting {name}: it is names of clusters, each once, parted by "
            "commas, e.g. 'west, north'",
        )
    return replace(options, preferred=tuple(names))


def _collocate(options: TrackerOptions, name: str, text: str | None) -> TrackerOptions:
    value = (text or "").strip()
    if len(value) > _LONGEST_NAME or "\n" in value:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Unexpected value {value[:250]!r} of setting {name}: a collocation's name has one line of at most "
            f"{_LONGEST_NAME} characters",
        )
    return replace(options, collocation=value)


_CHANGES: Mapping[str, Callable[[TrackerOptions, str, str | None], TrackerOptions]] = {
    ENABLE_TRACKER: _enable,
    MIN_SYNC: _set_least,
    MAX_SYNC: _set_most,
    PREFERRED: _prefer,
    COLLOCATION: _collocate,
}
