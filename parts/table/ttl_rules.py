"""When rows and values expire: the rules of a table, compiled, and what a part knows of its own rows.

A *rule* gives every row a time, in seconds since 1970; 0 and :data:`NEVER` are no time. At a time ``now`` the rows with
times up to ``now`` have expired. What becomes of them depends on the kind of the rule, and happens in merges alone
(``parts.merge.ttl_expiry``).

A part keeps :class:`RuleTimes` of every rule, under the rule's text, so that nothing is read in vain: what is asked of
a part (has anything expired, has everything, when will something) is answered from these. A part that has none of a
rule was written before the rule was there: nothing is known of it, and a merge that applies rules reads it.
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
    ROWS = "delete"
    ROWS_WHERE = "delete where"
    GROUP_BY = "group by"
    COLUMN = "column"
    RECOMPRESS = "recompress"


class CompiledExpression(Protocol):
    """Values of expressions, compiled; ``sql`` builds it. May be used by several threads at once."""

    @property
    def columns(self) -> Sequence[str]:
        """The stored columns that it reads."""

    def evaluate(self, block: pa.Table, rows: int) -> pa.ChunkedArray:
        """The value of each of ``rows`` rows in the column's storage type."""


@dataclass(frozen=True)
class TtlGrouping:
    """What becomes of expired rows of one key, with no other row between them: one row, the
    first of them but for what is assigned.

    ``keys`` is the length of the prefix of the sorting key. ``assign(block, groups)`` gives the new values of some
    columns, one for each of the groups 0, 1, … that ``groups`` puts the rows of ``block`` (with ``columns``) into.
    """

    keys: int
    columns: tuple[str, ...]
    assign: Callable[[pa.Table, np.ndarray], Mapping[str, pa.ChunkedArray]] = field(compare=False, repr=False)


@dataclass(frozen=True)
class TtlRule:
    """``text`` is the whole rule as the table's definition has it, ``expression`` the time alone. ``times(block)`` is
    compiled; rows that a condition leaves out are of :data:`NEVER`. ``default`` of a COLUMN rule gives what
    takes the place of its values (``None``: the type's default)."""

    kind: RuleKind
    text: str
    expression: str
    columns: tuple[str, ...]
    times: Callable[[pa.Table], np.ndarray] = field(compare=False, repr=False)
    column: str = ""
    default: CompiledExpression | None = field(default=None, compare=False, repr=False)
    grouping: TtlGrouping | None = None
    codec: str = ""

    def times_of(self, block: pa.Table) -> np.ndarray:
        """Of a block with at least the rule's columns, which may have dictionaries; 0 is :data:`NEVER`."""
        times = self.times(decode_dictionary_columns(block.select(list(self.columns)), self.columns))
        return np.where(times == 0, NEVER, times)

    def has_expired(self, part: PartTtl, now: int) -> bool:
        """Whether it is known that it has in every row of the part."""
        facts = part.rules.get(self.text)
        return facts is not None and facts.is_whole and facts.last is not None and facts.last <= now

    def may_have_expired(self, part: PartTtl, now: int) -> bool:
        """Whether it has in some row of the part, or that is not known."""
        facts = part.rules.get(self.text)
        return facts is None or (facts.first is not None and facts.first <= now)


@dataclass(frozen=True)
class RuleTimes:
    """Of the rows of a part: the first and the last time, ``None`` if none has one; whether every row has one; and from
    when on a merge of the part alone has something to do for the rule (``None``: never)."""

    first: int | None = None
    last: int | None = None
    is_whole: bool = True
    due: int | None = None

    @classmethod
    def of(cls, times: np.ndarray, after: int | None) -> RuleTimes:
        """``after``: what expired up to then has been seen to."""
        real = times[times != NEVER]
        if not len(real):
            return cls(is_whole=not len(times))
        first = int(real.min())
        later = real if after is None or first > after else real[real > after]
        return cls(first, int(real.max()), len(real) == len(times), int(later.min()) if len(later) else None)

    def combine(self, other: RuleTimes) -> RuleTimes:
        """Of the rows of both."""
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
    """What a part knows: facts by the text of the rule, and the codec that RECOMPRESS has had it written with.

    On disk it is JSON: ``{"version", "rules": {text: [first, last, is_whole, due]}, "codec"}``.
    """

    rules: Mapping[str, RuleTimes] = field(default_factory=dict)
    codec: str = ""

    def encode(self) -> bytes:
        rules = {text: [facts.first, facts.last, facts.is_whole, facts.due] for text, facts in self.rules.items()}
        return json.dumps({"version": _VERSION, "rules": rules, "codec": self.codec}, ensure_ascii=False).encode()

    @classmethod
    def decode(cls, data: bytes) -> PartTtl:
        """Raises ``ValueError``, ``KeyError``, ``TypeError`` or ``AttributeError`` for another document."""
        document = json.loads(data)
        rules = {}
        for text, (first, last, is_whole, due) in document["rules"].items():
            first, last, due = (None if time is None else int(time) for time in (first, last, due))
            rules[str(text)] = RuleTimes(first, last, bool(is_whole), due)
        return cls(rules, str(document["codec"]))


NO_KNOWN_TIMES = PartTtl()


@dataclass(frozen=True)
class TableTtl:
    """The rules in the order in which they are applied; ``text`` is what the definition says of the table (each column
    has its own)."""

    rules: tuple[TtlRule, ...] = ()
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.rules)

    def of_kind(self, *kinds: RuleKind) -> list[TtlRule]:
        return [rule for rule in self.rules if rule.kind in kinds]

    @property
    def _changing(self) -> list[TtlRule]:
        """Those that change rows."""
        return [rule for rule in self.rules if rule.kind is not RuleKind.RECOMPRESS]

    def knows(self, part: PartTtl) -> bool:
        """Whether the part has the facts of all rules."""
        return all(rule.text in part.rules for rule in self.rules)

    def may_have_expired(self, part: PartTtl, now: int) -> bool:
        """Whether something in the part has expired, or that is not known."""
        return any(rule.may_have_expired(part, now) for rule in self._changing)

    def is_gone(self, part: PartTtl, now: int) -> bool:
        """Whether it is known that no row of the part is left."""
        return any(rule.has_expired(part, now) for rule in self.of_kind(RuleKind.ROWS))

    def due(self, part: PartTtl, *, is_whole: bool = False) -> int | None:
        """From when on a merge of the part alone has rows to change; ``is_whole``: all of the rows that a rule has a
        time for. Of rules that the part does not know nothing is said."""
        facts = [part.rules.get(rule.text, RuleTimes()) for rule in self._changing]
        return _least(*((known.last if is_whole else known.due) for known in facts if known.due is not None))

    def codec_at(self, part: PartTtl, now: int) -> str:
        """The codec that all rows of the part have come to need; ``""`` for the table's."""
        last: dict[str, int] = {}
        for rule in self.of_kind(RuleKind.RECOMPRESS):
            facts = part.rules.get(rule.text)
            if facts is not None and facts.last is not None and facts.last <= now:
                last[rule.codec] = max(facts.last, last.get(rule.codec, 0))
        return max(last, key=last.__getitem__, default="")

    def known(self, part: PartTtl) -> PartTtl:
        """The facts of these rules."""
        return PartTtl({rule.text: part.rules[rule.text] for rule in self.rules if rule.text in part.rules}, part.codec)

    def beside(self, part: PartTtl, changed: Collection[str]) -> PartTtl:
        """What stays known of the part with other values in some columns: the times of all others. As in ClickHouse a
        value that is given to a row when the column's has expired there stays until a merge has something to do."""
        rules = [rule for rule in self.rules if not {*rule.columns} & {*changed}]
        return TableTtl(tuple(rules)).known(part)

    def readable(self, columns: Collection[str]) -> TableTtl:
        """The rules that these columns are enough for."""
        return TableTtl(tuple(rule for rule in self.rules if {*rule.columns} <= {*columns}))

    def together(self, parts: Iterable[PartTtl]) -> PartTtl:
        """Of the rows of all parts, as far as all of them know a rule."""
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
    """Gathers the facts of the rows of a part that is being written. ``applied_at``: all rules have been applied to
    these rows at that time. What is ``known`` of the rows together is not gathered again. ``codec`` is what RECOMPRESS
    has the part written with."""

    def __init__(
        self, ttl: TableTtl, applied_at: int | None = None, codec: str = "", known: PartTtl | None = None
    ) -> None:
        self.codec = codec
        self._applied_at = applied_at
        self._facts = dict(known.rules) if known is not None else {}
        self._rules = [rule for rule in ttl.rules if rule.text not in self._facts]
        self._facts.update((rule.text, RuleTimes()) for rule in self._rules)

    def update(self, block: pa.Table) -> None:
        for rule in self._rules:
            times = rule.times_of(block)
            if rule.kind is RuleKind.COLUMN and self._applied_at is not None:
                times = np.where(times <= self._applied_at, NEVER, times)  # these have their defaults
            after = self._applied_at if rule.kind is not RuleKind.RECOMPRESS else None
            self._facts[rule.text] = self._facts[rule.text].combine(RuleTimes.of(times, after))

    def found(self) -> PartTtl:
        return PartTtl(self._facts, self.codec)
