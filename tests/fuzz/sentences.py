"""Statements made by ClickHouse's grammar over the tables of :mod:`tests.fuzz.server`: most of them can be parsed.

The calls of functions are those that are compared with ClickHouse (``tests.sql.functions``), with other expressions for
their columns, so that arguments have types that fit as often as not. Equal seeds give equal texts.
"""

from __future__ import annotations

import re
from functools import cache
from random import Random

from sql.formats.registry import FORMATS
from sql.settings.supported_settings import (
    SUPPORTED_SETTINGS,
)
from tests.fuzz.clauses import (
    CODECS,
    CONDITIONS,
    ENGINES,
    FRAMES,
    JOINS,
    MODIFIERS,
    OPERATORS,
    ORDERS,
    OTHERS,
    SOURCES,
    SYSTEM_TABLES,
    TYPES,
    VALUES,
)
from tests.fuzz.mutation import HOSTILE
from tests.sql.functions.aggregates import aggregate_queries, window_queries
from tests.sql.functions.calls import calls
from tests.sql.functions.rows import COLUMNS

_WORD = re.compile(r"\b[a-z]\w*\b(?!\()")
_UNLIMITED = {"max_execution_time", "max_memory_usage", "max_memory_usage_for_user", "max_query_size"}
SETTINGS = sorted(SUPPORTED_SETTINGS.keys() - _UNLIMITED)
"""The settings that a case may change: not those that bound it."""
SETTING_VALUES = (
    "0", "1", "2", "3", "10", "1000", "'auto'", "'break'", "'throw'", "'best_effort'", "''", "'Europe/Berlin'", "';'",
    "'24.3'", "true", "DEFAULT", "-1", "0.5", "18446744073709551616", "'x'",
)  # fmt: skip


def setting_value(random: Random) -> str:
    """Mostly a number, because most settings are."""
    return random.choice(SETTING_VALUES[: random.choice((2, 2, 6))] if random.random() < 0.9 else SETTING_VALUES)


@cache
def _calls() -> list[list[str]]:
    return list(calls().values())


@cache
def _aggregates() -> list[list[str]]:
    call = re.compile(r"SELECT (.*) AS r FROM")
    return [[found[1] for query in queries if (found := call.match(query))] for queries in aggregate_queries().values()]


_windows = cache(window_queries)
_FORMATS = sorted(FORMATS)
_COLUMNS = sorted(COLUMNS)


def sentence(random: Random) -> str:
    """One statement."""
    return Sentences(random).statement()


class Sentences:
    """The rules; ``random`` chooses between them."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._tables = 0

    def _one(self, *choices: str) -> str:
        return self._random.choice(choices)

    def _maybe(self, share: float, text: str) -> str:
        return text if self._random.random() < share else ""

    def _several(self, rule: str, most: int = 3, joint: str = ", ") -> str:
        return joint.join(getattr(self, rule)() for _ in range(self._random.randint(1, most)))

    def statement(self) -> str:
        kind = self._random.random()
        if kind < 0.62:
            return self.query(2) + self._tail()
        if kind < 0.70:
            return self._filled(self._random.choice(OTHERS)) + self._maybe(0.1, self._tail())
        rules = (self.create, self.insert, self.create, self.insert, self.explain, self.system_query)
        return self._random.choice(rules)()

    def _tail(self) -> str:
        settings = ", ".join(f"{name} = {setting_value(self._random)}" for name in self._random.sample(SETTINGS, 2))
        return self._maybe(0.12, f" SETTINGS {settings}") + self._maybe(0.3, f" FORMAT {self._one(*_FORMATS)}")

    def _filled(self, template: str) -> str:
        """The template with rules for its words in angle brackets."""
        return re.sub(r"<(\w+)>", lambda match: str(getattr(self, match[1])()), template)

    # queries

    def query(self, depth: int = 1) -> str:
        kind = self._random.random()
        if kind < 0.08 and depth:
            joint = self._one(*["UNION ALL", "UNION DISTINCT", "INTERSECT", "EXCEPT", "UNION ALL"])
            return f"{self._select(depth - 1)} {joint} {self._select(depth - 1)}"
        if kind < 0.13:
            return self._random.choice(_windows())
        return self._select(depth)

    def subquery(self) -> str:
        return self.query(0)

    def _select(self, depth: int) -> str:
        groups = self._random.random() < 0.35
        keys = self._several("expression", 2)
        items = f"{keys}, {self._several('aggregate')}" if groups else self._several("item", 4)
        parts = [
            self._maybe(0.12, self._filled(self._one("WITH <scalar> AS x", "WITH c AS (<subquery>)", "WITH 5 AS n"))),
            "SELECT",
            self._maybe(0.1, self._one("DISTINCT", "DISTINCT ON (su8)")),
            items,
            f"FROM {self._source(depth)}" if self._random.random() < 0.95 else "",
            self._maybe(0.08, self._filled(self._one("ARRAY JOIN <array> AS j", "LEFT ARRAY JOIN ai, asi AS k"))),
            self._maybe(0.08, f"PREWHERE {self.condition()}"),
            self._maybe(0.35, f"WHERE {self.condition()}"),
        ]
        if groups:
            by = self._one(keys, keys, keys, "1", "ALL", f"ROLLUP({keys})", f"CUBE({keys})")
            parts += [
                f"GROUP BY {by}",
                self._maybe(0.15, self._one("WITH TOTALS", "WITH ROLLUP", "WITH ROLLUP", "WITH CUBE")),
            ]
            parts.append(self._maybe(0.2, f"HAVING {self.aggregate()} {self._one('>', '=', 'IS NOT NULL OR 1 <')} 1"))
        parts += [
            self._maybe(0.06, f"WINDOW w AS (PARTITION BY su8 ORDER BY {self.expression()} {self._one(*FRAMES)})"),
            self._maybe(0.05, f"QUALIFY row_number() OVER (ORDER BY {self.expression()}) < 4"),
            self._maybe(0.35, f"ORDER BY {self._several('_ordered', 2)}"),
            self._maybe(0.08, f"LIMIT {self._one('1', '2, 3', '1 OFFSET 1')} BY {self.expression()}"),
            self._maybe(0.3, f"LIMIT {self._one('0', '1', '10', '3, 5', '5 WITH TIES', '10 OFFSET 2', '1 + 1', '-1')}"),
        ]
        return " ".join(part for part in parts if part)

    def _ordered(self) -> str:
        return self.expression() + self._one(*ORDERS)

    def _source(self, depth: int) -> str:
        kind = self._random.random()
        if kind < 0.6:
            return self._one("t", "t", "t", "t", "t", "t", "t FINAL", "parted", "kept", "t AS a", "default.t")
        if kind < 0.68 and depth:
            return f"({self.query(depth - 1)})" + self._maybe(0.5, " AS q")
        if kind < 0.82:
            return self._filled(self._one(*JOINS))
        return self._filled(self._one(*SOURCES))

    def item(self) -> str:
        kind = self._random.random()
        if kind < 0.75:
            return self.expression() + self._maybe(0.3, f" AS {self._one('x', 'y', 'su8', 's')}")
        if kind < 0.9:
            return self._filled(self._one(*MODIFIERS))
        return self._filled(
            self._one("<aggregate> OVER w", "<aggregate> OVER (PARTITION BY su8 <frame>)", "<aggregate>")
        )

    def frame(self) -> str:
        return f"ORDER BY {self._one('id', 'si32', 'sd', 'sdt')} {self._one(*FRAMES)}"

    # expressions

    def expression(self) -> str:
        kind = self._random.random()
        if kind < 0.35:
            return self.column()
        return self.scalar() if kind < 0.8 else self._filled(self._one(*OPERATORS))

    def scalar(self) -> str:
        """A call; now and then something else stands for one of its columns."""
        text = self._random.choice(self._random.choice(_calls()))
        return self._with_other(text, 0.3)

    def aggregate(self) -> str:
        return self._with_other(self._random.choice(self._random.choice(_aggregates())), 0.2)

    def array(self) -> str:
        return self._one(
            "ai", "at", "range(su8)", "[1, 2, 3]", "[(1, 'a')]", "aa", "arrayMap(x -> x + 1, ai)", "m", "[]"
        )

    def _with_other(self, text: str, share: float) -> str:
        places = [found for found in _WORD.finditer(text) if found[0] in COLUMNS or found[0] == "id"]
        if not places or self._random.random() > share:
            return text
        place = self._random.choice(places)
        return text[: place.start()] + self._filled(self._one("<scalar>", "<column>", "<value>")) + text[place.end() :]

    def condition(self) -> str:
        joint = self._one(" AND ", " OR ", " AND NOT ")
        texts = [self._filled(self._one(*CONDITIONS)) for _ in range(self._random.choice((1, 1, 2)))]
        return joint.join(texts)

    def column(self) -> str:
        if self._random.random() < 0.5:
            return self._one("id", "id", "su8", "s", "su8")  # of several tables
        return self._one(*_COLUMNS, *_COLUMNS, "t.su8", "tn.x", "t.1", "m['a']", "x", "number", "_part", "*")

    def value(self) -> str:
        return self._one(*(HOSTILE if self._random.random() < 0.4 else VALUES))

    # everything else

    def type(self) -> str:
        text = self._one(*TYPES)
        kind = self._random.random()
        if kind < 0.1:
            return f"Array({text})"
        return f"Nullable({text})" if kind < 0.2 else text

    def definition(self) -> str:
        name = self._one(*"abcdefgh")
        value = self._filled(self._one("<value>", "a + 1", "<scalar>"))
        default = self._maybe(0.2, f" {self._one('DEFAULT', 'MATERIALIZED', 'ALIAS')} {value}")
        return f"{name} {self.type()}{default}{self._maybe(0.1, f' CODEC({self._one(*CODECS)})')}"

    def create(self) -> str:
        head = self._filled(f"CREATE TABLE {self._maybe(0.3, 'IF NOT EXISTS ')}<new>")
        name = self._one("index_granularity", "min_bytes_for_wide_part", "old_parts_lifetime")
        settings = self._maybe(0.2, f" SETTINGS {name} = {self._one(*SETTING_VALUES)}")
        keys = self._filled(
            self._one(" ORDER BY a", " ORDER BY (a, b)", " ORDER BY tuple()", " ORDER BY <key>", " ORDER BY a DESC")
        )
        part = self._maybe(0.3, self._filled(" PARTITION BY <key>"))
        more = self._maybe(0.15, self._filled(self._one(" PRIMARY KEY a", " SAMPLE BY a", " PRIMARY KEY <key>")))
        engine = f" ENGINE = {self._one(*ENGINES)}{part}{keys}{more}{settings}"
        kind = self._random.random()
        if kind < 0.3:
            return f"{head}{engine} AS {self.query(1)} LIMIT 100"
        if kind < 0.4:
            return f"{head} AS {self._one('t', 'kept', 'parted', 'small')}{self._maybe(0.5, engine)}"
        return f"{head} (a {self._one('UInt8', 'Int64', 'String', 'Date')}, {self._several('definition', 4)}){engine}"

    def new(self) -> str:
        return self._one("made", "made", "default.made", "made2", "d.made", "t")

    def key(self) -> str:
        return self._one(
            "a", "toYYYYMM(a)", "a % 3", "(a, b)", "intHash32(a)", "cityHash64(a)", self.scalar(), self.value()
        )

    def insert(self) -> str:
        table = self._one("t", "kept", "parted", "small", "small", "small", "nothere")
        kind = self._random.random()
        if kind < 0.45:
            columns = (
                self._one("", " (id)", " (id, su8)", " (id, s)")
                if table != "small"
                else self._one("", " (a, b)", " (b)")
            )
            return f"INSERT INTO {table}{columns} {self.query(1)}"
        if kind < 0.75:
            rows = ", ".join(f"({self._several('_cell', 3)})" for _ in range(3))
            return f"INSERT INTO {table}{self._one('', ' (a, b)', ' (* EXCEPT(b))')} VALUES {rows}"
        data = self._one("1\ta\n", '1,"a"\n', '{"a":1,"b":"x"}\n', '[1,"x"]\n', "a\tb\n1\t2\n", "(1,'x')", "\x01\x01a")
        return f"INSERT INTO {table} FORMAT {self._one(*_FORMATS)}\n{data}"

    def _cell(self) -> str:
        return self._filled(self._one("1", "'x'", "<value>", "1 + 1", "upper('x')", "NULL", "DEFAULT"))

    def explain(self) -> str:
        kind = self._one("", "PLAN ", "SYNTAX ", "AST ", "indexes = 1 ", "actions = 1 ", "ESTIMATE ", "PIPELINE ")
        return f"EXPLAIN {kind}{self.query(1)}"

    def system_query(self) -> str:
        table = self._one(*SYSTEM_TABLES)
        what = self._one("*", "count()", "*, name", "name, count()", "toString(tuple(*))", "*")
        by = " GROUP BY name" if what.startswith("name") else ""
        where = self._maybe(0.5, self._filled(" WHERE <hay> <like> <value>"))
        return f"SELECT {what} FROM {table}{where}{by}{self._maybe(0.3, ' ORDER BY 1')} LIMIT 50{self._tail()}"

    def hay(self) -> str:
        return self._one("name", "database", "table", "path", "toString(*)", "1", "is_readonly", "value")

    def like(self) -> str:
        return self._one("=", "LIKE", "!=", "IN", ">", "NOT ILIKE")
