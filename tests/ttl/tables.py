"""Tables whose rows expire, made from a seed, with rows of the past and of the future."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

_TIMES = ("d + INTERVAL 1 DAY", "t + INTERVAL 2 HOUR", "x", "y + INTERVAL 1 MONTH", "toDate(t) + INTERVAL 1 WEEK", "d")
_CONDITIONS = ("v > 50", "s = 's3'", "k % 2 = 0 AND n IS NULL", "v IN (1, 2, 3) OR k > 7", "n > 10")
_VALUES = (
    "v = sum(v)", "v = max(v)", "s = any(s)", "s = max(s)", "n = max(n)", "d = max(d)", "g = min(g)", "g = max(g)",
    "l = min(l)",
)  # fmt: skip
_COLUMNS = {
    "v": "UInt64 DEFAULT k + 1000", "s": "String DEFAULT concat('d', toString(g))", "n": "Nullable(Int32)",
    "a": "Array(UInt8)", "l": "LowCardinality(String)", "m": "UInt64 MATERIALIZED v * 2",
}  # fmt: skip


@dataclass
class Expiring:
    """``create`` and then ``inserts``, after which some rows have expired. ``settings`` come last."""

    seed: int
    table: str
    settings: str = ""

    def __post_init__(self) -> None:
        random = self._random = Random(self.seed)
        kind = random.choice(("rows", "rows", "columns", "group", "group", "mixed", "recompress"))
        self.ttl = ", ".join(self._clauses(kind)) or ("d" if kind != "columns" else "")
        some = random.sample(sorted(_COLUMNS), random.randint(1, 3)) if kind in ("columns", "mixed") else []
        self.column_ttls = {name: random.choice(_TIMES) for name in some}
        self._partition = random.choice(("", "PARTITION BY k % 2 "))

    def create(self) -> str:
        return self._create(self.ttl, self.column_ttls)

    def create_without_ttl(self) -> str:
        """:meth:`alter` then gives the table its TTL."""
        return self._create("", {})

    def alter(self) -> str:
        changes = [f"MODIFY COLUMN {name} TTL {text}" for name, text in self.column_ttls.items()]
        return f"ALTER TABLE {self.table} " + ", ".join([*changes, *([f"MODIFY TTL {self.ttl}"] if self.ttl else [])])

    def _create(self, ttl: str, column_ttls: Mapping[str, str]) -> str:
        columns = ", ".join(
            f"{name} {type_}" + (f" TTL {column_ttls[name]}" if name in column_ttls else "")
            for name, type_ in _COLUMNS.items()
        )
        return (
            f"CREATE TABLE {self.table} (k UInt32, g UInt16, d Date, t DateTime, x Date32, y DateTime64(3), {columns}) "
            f"ENGINE = MergeTree {self._partition}PRIMARY KEY (k, g) ORDER BY (k, g){f' TTL {ttl}' if ttl else ''}"
            f"{self.settings}"
        )

    def _clauses(self, kind: str) -> Iterator[str]:
        random = self._random
        if kind in ("rows", "mixed"):
            if random.random() < 0.7:
                yield random.choice(_TIMES) + random.choice(("", " DELETE"))
            for condition in random.sample(_CONDITIONS, random.randint(0, 2)):
                yield f"{random.choice(_TIMES)} WHERE {condition}"
        if kind in ("recompress", "mixed"):
            yield f"{random.choice(_TIMES)} RECOMPRESS CODEC(ZSTD({random.randint(1, 9)}))"
        if kind == "group" or (kind == "mixed" and random.random() < 0.5):
            values = random.sample(_VALUES, random.randint(0, 4))
            unique = {value.partition(" =")[0]: value for value in values}
            key = random.choice(("k", "k", "k, g"))
            # What has been made one row is not made another: its time stays.
            chosen = [value for name, value in unique.items() if name not in ("d",)]
            yield f"{random.choice(_TIMES)} GROUP BY {key}" + (f" SET {', '.join(chosen)}" if chosen else "")

    def inserts(self) -> Iterator[str]:
        random = self._random
        for _ in range(random.randint(1, 4)):
            count, first, keys = random.choice((1, 20, 300)), random.randrange(1000), random.choice((3, 10, 40))
            old = random.choice((0, 2, 2, 2, 10))  # of how many rows one is young, if not none
            day = f"if({old} > 0 AND number % greatest({old}, 1) = 0, toDate('2095-05-05'), toDate('2010-01-01'))"
            day = f"({day} + (number + {first}) % 40)"
            yield (
                f"INSERT INTO {self.table} (k, g, d, t, x, y, v, s, n, a, l) SELECT (number + {first}) % {keys}, "
                f"intDiv(number, {keys}), {day}, toDateTime({day}) + number, {day}, toDateTime64({day}, 3), "
                f"number % 100, concat('s', toString(number % 5)), if(number % 3 = 0, NULL, number), "
                f"range(number % 4), concat('l', toString(number % 3)) FROM numbers({count})"
            )
