"""Histories of one table of an engine that reduces rows, made from a seed: blocks come, parts merge, rows are deleted.

Every row has a number of its own in ``n``: what is compared is which row stays, not one like it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

NO_MERGES = (
    "max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1, "
    "allow_dimensions_outside_sorting_key = 1"
)
_SHAPES = ("index_granularity = 2", "min_bytes_for_wide_part = 1", "merge_max_block_size = 3")
_KEYS = ("k", "(k, s)", "(k, s)", "k % 3", "(-k, s)")
_PARTITIONS = ("", "", "PARTITION BY p ", "PARTITION BY k % 2 ", "PARTITION BY k ")


@dataclass(frozen=True)
class Kind:
    """An engine with its arguments and the columns they name: each a type and the values of a random row."""

    engine: str
    columns: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    updates: tuple[str, ...] = ("p2 = p2 + 1",)


_SMALL = tuple(map(str, range(4)))
_SIGN = ("sign", "Int8", ("1", "-1"))

_NUMBERS = (
    ("a", "Int8", ("100", "-100", "0", "27", "1", "-1")),
    ("b", "Float64", ("0.1", "0.2", "-0.3", "0", "1e16")),
    ("c", "Nullable(UInt16)", ("NULL", "0", "65000", "7")),
    ("d", "Decimal(9, 2)", ("0", "1.5", "-1.5", "7.25")),
    ("e", "UInt8", ("0", "0", "200")),
    ("f", "Float32", ("0", "0.1", "-0.1", "3.3")),
)
_MAP = (
    ("`uMap.key`", "Array(UInt8)", ("[1, 2]", "[2, 1]", "[3, 3]")),
    ("`uMap.x`", "Array(Int8)", ("[100, 27]", "[-100, 0]", "[0, 0]")),
    ("`uMap.y`", "Array(Float64)", ("[1, 0]", "[0.1, -1]", "[0, 0]")),
)
_AGGREGATES = tuple(
    (f"a{number}", f"SimpleAggregateFunction({text})", values)
    for number, (text, values) in enumerate(
        (
            ("sum, Int64", ("1", "-1", "9223372036854775807")),
            ("anyLast, Nullable(String)", ("'x'", "'y'", "NULL")),
            ("max, UInt8", ("0", "1", "255")),
            ("min, Nullable(Float64)", ("NULL", "-1.5", "2.5")),
            ("any, LowCardinality(Nullable(String))", ("'x'", "'y'", "NULL")),
            ("groupBitAnd, UInt16", ("65535", "255", "7")),
            ("groupBitOr, Nullable(UInt16)", ("NULL", "256", "7")),
            ("groupBitXor, Int32", ("-1", "5")),
            ("groupArrayArray, Array(String)", ("[]", "['a', 'b']", "['c']")),
            ("sumMap, Tuple(Array(String), Array(Int64))", ("(['x', 'y'], [1, 2])", "(['y'], [-2])", "([], [])")),
            ("maxMap, Map(UInt8, Int16)", ("map(1, 5, 2, -7)", "map(2, 9)")),
            ("sum, Decimal(38, 3)", ("1.5", "-99.999")),
            ("max, String", ("'ab'", "'b'", "''")),
            ("min, DateTime64(3, 'UTC')", ("1.5", "0.25")),
        )
    )
)

KINDS = (
    Kind("ReplacingMergeTree"),
    Kind("ReplacingMergeTree(v)", (("v", "UInt8", _SMALL),)),
    Kind("ReplacingMergeTree(v)", (("v", "DateTime('UTC')", tuple(f"{n} * 100" for n in _SMALL)),)),
    Kind("ReplacingMergeTree(v)", (("v", "Float32", ("0.5", "-0.0", "0.", "nan", "inf")),)),
    Kind("ReplacingMergeTree(v, gone)", (("v", "Int64", ("-1", "0", "1")), ("gone", "UInt8", ("0", "0", "1")))),
    Kind("CollapsingMergeTree(sign)", (_SIGN,)),
    Kind("SummingMergeTree", _NUMBERS),
    Kind("SummingMergeTree((a, d, uMap))", (*_NUMBERS, *_MAP)),
    Kind("SummingMergeTree", (*_NUMBERS, *_MAP)),
    Kind("SummingMergeTree", _AGGREGATES[:3]),
    Kind("AggregatingMergeTree", _AGGREGATES),
    Kind("VersionedCollapsingMergeTree(sign, v)", (_SIGN, ("v", "UInt8", _SMALL[:2]))),
)


@dataclass
class History:
    """``statements()`` are to be run one after another; all of them are right."""

    seed: int
    table: str
    kinds: tuple[Kind, ...] = KINDS

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self.kind = self.kinds[self.seed % len(self.kinds)]
        self._rows = 0

    def statements(self, steps: int) -> Iterator[str]:
        own = "".join(f"{name} {type_}, " for name, type_, _ in self.kind.columns)
        key, partition = self._random.choice(_KEYS), self._random.choice(_PARTITIONS)
        shape = self._random.choice(
            ("index_granularity = 2", "min_bytes_for_wide_part = 1", "merge_max_block_size = 3")
        )
        yield (
            f"CREATE TABLE {self.table} "
            f"(k Int16, s LowCardinality(String), {own}p UInt8, p2 UInt32, n UInt32, t String) "
            f"ENGINE = {self.kind.engine} {partition}ORDER BY {key} SETTINGS {NO_MERGES}, {shape}"
        )
        for _ in range(steps):
            yield self._step()

    def _step(self) -> str:
        kind = self._random.choice(("insert",) * 6 + ("merge",) * 3 + ("delete", "mutate", "update"))
        low = self._random.randrange(6)
        if kind == "insert":
            return self._insert()
        if kind == "merge":
            return f"OPTIMIZE TABLE {self.table} FINAL"
        if kind == "delete":
            return f"DELETE FROM {self.table} WHERE n % 6 = {low}"
        if kind == "mutate":
            return f"ALTER TABLE {self.table} DELETE WHERE n % 6 = {low} SETTINGS mutations_sync = 2"
        update = self._random.choice(self.kind.updates)
        return f"ALTER TABLE {self.table} UPDATE {update} WHERE n % 6 = {low} SETTINGS mutations_sync = 2"

    def _insert(self) -> str:
        rows = ", ".join(self._row() for _ in range(self._random.choice((1, 2, 5, 9, 20))))
        reduces = self._random.choice((0, 1))
        return f"INSERT INTO {self.table} SETTINGS optimize_on_insert = {reduces} VALUES {rows}"

    def _row(self) -> str:
        self._rows += 1
        choice = self._random.choice
        own = "".join(f"{choice(values)}, " for _, _, values in self.kind.columns)
        k, s = self._random.randrange(6), choice(("x", "y"))
        return f"({k}, '{s}', {own}{choice((0, 1))}, {choice((0, 1, 2))}, {self._rows}, 'text {self._rows % 5}')"

    def questions(self) -> tuple[str, ...]:
        """What the table is asked after a step."""
        table = self.table
        low = self._random.randrange(6)
        # Where nothing is asked for ClickHouse reads the smallest column, and leaves rows out where its sum is zero.
        count = "count(), any(length(t) > 0)" if "Summing" in self.kind.engine else "count()"
        after = "apply_prewhere_after_final = 1"
        by_partition = "do_not_merge_across_partitions_select_final = 1"
        others = (
            f"SELECT count(), sum(n) FROM {table} FINAL",
            f"SELECT {count} FROM {table} FINAL",
            f"SELECT n FROM {table} FINAL WHERE k = {low} ORDER BY ALL",
            f"SELECT k, n, t FROM {table} FINAL WHERE k > {low} AND n % 2 = 0 ORDER BY ALL",
            f"SELECT n FROM {table} FINAL PREWHERE n % 3 = 0 WHERE p = 1 ORDER BY ALL SETTINGS {after}",
            f"SELECT t, count(), max(n) FROM {table} FINAL GROUP BY t ORDER BY ALL",
            f"SELECT * FROM {table} ORDER BY ALL SETTINGS final = 1",
            f"SELECT n, t FROM {table} FINAL WHERE p = 0 ORDER BY ALL SETTINGS {by_partition}",
            f"SELECT {count} FROM {table} FINAL SETTINGS {by_partition}",
        )
        return (
            f"SELECT * FROM {table} ORDER BY ALL",
            f"SELECT * FROM {table} FINAL ORDER BY ALL",
            *self._random.sample(others, 2),
        )
