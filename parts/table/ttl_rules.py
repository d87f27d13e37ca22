"""TTL: the table's compiled rules for when rows and values expire, and a part's expiry times.

A *rule* gives every row a time, in seconds since 1970; 0 and :data:`NEVER` are no time. At a time ``now`` the rows with
times up to ``now`` have expired. The kind of the rule determines what happens to them, and only merges apply it
(``parts.merge.ttl_expiry``).

A part stores :class:`RuleTimes` for every rule, under the rule's text. They tell without reading rows whether anything
or everything has expired, and when something will. A part without times of a rule was written before the rule: nothing
is known, and a merge that applies rules reads it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

import numpy as np
import pyarrow as pa

from parts.blocks.dictionary_strings import decode_dictionary_columns

NEVER = np.iinfo(np.int64).max
_VERSION = 1


class RuleKind(Enum):
    """The kinds of TTL rules."""

    ROWS = "delete"
    ROWS_WHERE = "delete where"
    GROUP_BY = "group by"
    COLUMN = "column"
    RECOMPRESS = "recompress"


class CompiledExpression(Protocol):
    """A compiled expression over stored columns; ``sql`` builds it. Thread-safe."""

    @property
    def columns(self) -> Sequence[str]:
        """The stored columns that it reads."""

    def evaluate(self, block: pa.Table, rows: int) -> pa.ChunkedArray:
        """Returns the values of ``rows`` rows in the column's storage type."""


@dataclass(frozen=True)
class TtlGrouping:
    """How expired rows of one key are combined into one row, if no other row is between them.

    The result is the first row with some columns assigned. ``keys`` is the length of the prefix of the sorting key.
    ``assign(block, groups)`` returns the new values of some columns, one for each of the groups 0, 1, … that ``groups``
    assigns the rows of ``block`` (with ``columns``) to.
    """

    keys: int
    columns: tuple[str, ...]
    assign: Callable[[pa.Table, np.ndarray], Mapping[str, pa.ChunkedArray]] = field(compare=False, repr=False)


@dataclass(frozen=True)
class TtlRule:
    """One rule. ``text`` is the rule in the table's definition, ``expression`` only its time.

    ``times(block)`` is compiled; rows that a condition excludes have the time :data:`NEVER`. ``default`` of a COLUMN
    rule gives the values that replace expired ones (``None``: the type's default).
    """

    kind: RuleKind
    text: str
    expression: str
    columns: tuple[str, ...]
    times: Callable[[pa.Table], np.ndarray] = field(compare=False, repr=False)
    column: str = ""
    default: CompiledExpression | None = field(default=None, compare=False, repr=False)
    grouping: TtlGrouping | None = None
    codec: str = ""

    def compute_times(self, block: pa.Table) -> np.ndarray:
        """Returns the rows' times; 0 becomes :data:`NEVER`.

        The block has at least the rule's columns, which may have dictionaries.
        """
        times = self.times(decode_dictionary_columns(block.select(list(self.columns)), self.columns))
        return np.where(times == 0, NEVER, times)

    def has_expired(self, part: PartTtl, now: int) -> bool:
        """Tells whether all rows of the part are known to have expired."""
        facts = part.rules.get(self.text)
        return facts is not None and facts.is_whole and facts.last is not None and facts.last <= now

    def may_have_expired(self, part: PartTtl, now: int) -> bool:
        """Tells whether some rows of the part have expired, or that is unknown."""
        facts = part.rules.get(self.text)
        return facts is None or (facts.first is not None and facts.first <= now)


@dataclass(frozen=True)
class RuleTimes:
    """The times of a part's rows: the first and last, and whether every row has one.

    ``due`` is when a merge of the part alone has something to do for the rule; ``None``: never.
    """

    first: int | None = None
    last: int | None = None
    is_whole: bool = True
    due: int | None = None

    @classmethod
    def from_times(cls, times: np.ndarray, after: int | None) -> RuleTimes:
        """Collects the times. Rows that expired up to ``after`` are already dealt with."""
        real = times[times != NEVER]
        if not len(real):
            return cls(is_whole=not len(times))
        first = int(real.min())
        later = real if after is None or first > after else real[real > after]
        return cls(first, int(real.max()), len(real) == len(times), int(later.min()) if len(later) else None)

    def combine(self, other: RuleTimes) -> RuleTimes:
        """Returns the times of the rows of both."""
        return RuleTimes(
            _least(self.first, other.first),
            max((time for time in (self.last, other.last) if time is not None), default=None),
            self.is_whole and other.is_whole,
            _least(self.due, other.due),
        )


def _least(*times: int | None) -> int | None:
    return min((time for time in times if time is not None), default=None)


@dataclass(frozen=True)
class PartTtl:
    """A part's times by rule text, and the codec that RECOMPRESS has written it with.

    On disk it is JSON: ``{"version", "rules": {text: [first, last, is_whole, due]}, "codec"}``.
    """

    rules: Mapping[str, RuleTimes] = field(default_factory=dict)
    codec: str = ""

    def encode(self) -> bytes:
        """Returns the JSON."""
        rules = {text: [facts.first, facts.last, facts.is_whole, facts.due] for text, facts in self.rules.items()}
        return json.dumps({"version": _VERSION, "rules": rules, "codec": self.codec}, ensure_ascii=False).encode()

    @classmethod
    def decode(cls, data: bytes) -> PartTtl:
        """Parses the JSON.

        Raises ``ValueError``, ``KeyError``, ``TypeError`` or ``AttributeError`` for another document.
        """
        document = json.loads(data)
        rules = {}
        for text, (first, last, is_whole, due) in document["rules"].items():
            first, last, due = (None if time is None else int(time) for time in (first, last, due))
            rules[str(text)] = RuleTimes(first, last, bool(is_whole), due)
        return cls(rules, str(document["codec"]))


NO_KNOWN_TIMES = PartTtl()


@dataclass(frozen=True)
class TableTtl:
    """The rules, in the order in which they are applied.

    ``text`` is the TTL clause of the table; each column has its own.
    """

    rules: tuple[TtlRule, ...] = ()
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.rules)

    def list_rules(self, *kinds: RuleKind) -> list[TtlRule]:
        """Lists the rules of these kinds."""
        return [rule for rule in self.rules if rule.kind in kinds]

    @property
    def _changing(self) -> list[TtlRule]:
        """The rules that change rows."""
        return [rule for rule in self.rules if rule.kind is not RuleKind.RECOMPRESS]

    def knows(self, part: PartTtl) -> bool:
        """Tells whether the part has the times of all rules."""
        return all(rule.text in part.rules for rule in self.rules)

    def may_have_expired(self, part: PartTtl, now: int) -> bool:
        """Tells whether something in the part has expired, or that is unknown."""
        return any(rule.may_have_expired(part, now) for rule in self._changing)

    def has_every_row_expired(self, part: PartTtl, now: int) -> bool:
        """Tells whether all rows of the part are known to have expired."""
        return any(rule.has_expired(part, now) for rule in self.list_rules(RuleKind.ROWS))

    def get_due_time(self, part: PartTtl, *, is_whole: bool = False) -> int | None:
        """Returns when a merge of the part alone has rows to change; ``None``: never.

        ``is_whole``: when it has all rows with a time to change. Rules without times in the part are ignored.
        """
        facts = [part.rules.get(rule.text, RuleTimes()) for rule in self._changing]
        return _least(*((known.last if is_whole else known.due) for known in facts if known.due is not None))

    def choose_codec(self, part: PartTtl, now: int) -> str:
        """Returns the codec that all rows of the part need now; ``""`` for the table's."""
        last: dict[str, int] = {}
        for rule in self.list_rules(RuleKind.RECOMPRESS):
            facts = part.rules.get(rule.text)
            if facts is not None and facts.last is not None and facts.last <= now:
                last[rule.codec] = max(facts.last, last.get(rule.codec, 0))
        return max(last, key=last.__getitem__, default="")

    def select_known(self, part: PartTtl) -> PartTtl:
        """Returns the part's times of these rules."""
        return PartTtl({rule.text: part.rules[rule.text] for rule in self.rules if rule.text in part.rules}, part.codec)

    def keep_unchanged(self, part: PartTtl, changed: Collection[str]) -> PartTtl:
        """Returns the part's times of the rules that read no changed column.

        As in ClickHouse, a value given to a row whose column has expired stays until a merge has something to do.
        """
        rules = [rule for rule in self.rules if not {*rule.columns} & {*changed}]
        return TableTtl(tuple(rules)).select_known(part)

    def limit_to_columns(self, columns: Collection[str]) -> TableTtl:
        """Returns the rules that only read these columns."""
        return TableTtl(tuple(rule for rule in self.rules if {*rule.columns} <= {*columns}))

    def combine_parts(self, parts: Iterable[PartTtl]) -> PartTtl:
        """Returns the times of the rows of all parts, for the rules that all of them know."""
        parts = list(parts)
        rules: dict[str, RuleTimes] = {}
        for rule in self.rules:
            if all(rule.text in part.rules for part in parts):
                facts = RuleTimes()
                for part in parts:
                    facts = facts.combine(part.rules[rule.text])
                rules[rule.text] = facts
        codecs = {part.codec for part in parts}
        return PartTtl(rules, codecs.pop() if len(codecs) == 1 else "")


NO_TTL = TableTtl()


class TtlCollector:
    """Collects the TTL times of the rows of a part that is being written.

    ``applied_at``: the time at which all rules were applied to these rows. Times that are already ``known`` are not
    collected again. ``codec`` is what RECOMPRESS has the part written with.
    """

    def __init__(
        self, ttl: TableTtl, applied_at: int | None = None, codec: str = "", known: PartTtl | None = None
    ) -> None:
        self.codec = codec
        self._applied_at = applied_at
        self._facts = dict(known.rules) if known is not None else {}
        self._rules = [rule for rule in ttl.rules if rule.text not in self._facts]
        self._facts.update((rule.text, RuleTimes()) for rule in self._rules)

    def update(self, block: pa.Table) -> None:
        """Adds the times of a block's rows."""
        for rule in self._rules:
            times = rule.compute_times(block)
            if rule.kind is RuleKind.COLUMN and self._applied_at is not None:
                times = np.where(times <= self._applied_at, NEVER, times)  # these have their defaults
            after = self._applied_at if rule.kind is not RuleKind.RECOMPRESS else None
            self._facts[rule.text] = self._facts[rule.text].combine(RuleTimes.from_times(times, after))

    def to_part_ttl(self) -> PartTtl:
        """Returns the collected times."""
        return PartTtl(self._facts, self.codec)
