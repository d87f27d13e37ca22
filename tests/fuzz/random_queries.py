"""Random queries that ClickHouse and Pando must answer the same: typed expressions over a table of extreme values.

The table has a column of each type with NULL, NaN, -0.0, the ends of the types, empty arrays and the hours of a DST
change; it is there in one part (``plain``), in several (``parts``), and in one that was
merged of several (``merged``). Equal seeds give equal texts.
"""

from __future__ import annotations

from random import Random

COLUMNS = {
    "i8": ("Int8", "[0, 1, -1, 127, -128, 5]"),
    "u8": ("UInt8", "[0, 1, 2, 255, 7]"),
    "i32": ("Int32", "[0, 1, -1, 2147483647, -2147483648, 42, 1000]"),
    "i64": ("Int64", "['0', '1', '-1', '9223372036854775807', '-9223372036854775808', '7']"),
    "u64": ("UInt64", "[0, 1, 18446744073709551615, 9223372036854775808, 3]"),
    "f32": ("Float32", "[0., -0., 1.5, -2.25, nan, inf, 3e38]"),
    "f64": ("Float64", "[0., -0., nan, inf, -inf, 1e300, 0.1, -1.5, 9007199254740993.]"),
    "ni": ("Nullable(Int32)", "[NULL, 0, 1, -7, 2147483647]"),
    "nf": ("Nullable(Float64)", "[NULL, 0., -0., nan, 2.5]"),
    "s": ("String", "['', 'a', 'ab', 'Über', '日本', 'a b', '12', '-0.5']"),
    "ns": ("Nullable(String)", "[NULL, '', 'x', 'ü']"),
    "lc": ("LowCardinality(String)", "['', 'lc', 'LC']"),
    "b": ("Bool", "[true, false]"),
    "e": ("Enum8('red' = 1, 'green' = 2, 'blue' = -3)", "['red', 'green', 'blue']"),
    "dec": ("Decimal(12, 3)", "['0', '1.125', '-999999999.999', '999999999.999']"),
    "d": ("Date", "['1970-01-01', '2020-02-29', '2149-06-06', '2024-12-31']"),
    "dt": ("DateTime('Europe/Berlin')", "[0, 1603584000, 1603587600, 1603591200, 1585443600, 4294967295]"),
    "d64": (
        "DateTime64(3, 'UTC')",
        "['1969-12-31 23:59:59.500', '1970-01-01 00:00:00.000', '2020-10-25 01:30:00.125']",
    ),
    "u": (
        "UUID",
        "['00000000-0000-0001-9a9a-000000000002', 'ffffffff-0000-0001-8a9a-000000000002', "
        "'2fdc5a2a-9a9a-4f9f-9a9a-000000000001']",
    ),
    "arr": ("Array(Int32)", "[[], [1], [1, 2, 3], [-5, 0, 5, 5]]"),
    "af": ("Array(Nullable(Float64))", "[[], [NULL], [0., -0.], [nan, 1., NULL], [1., nan]]"),
    "sa": ("Array(String)", "[[], ['a'], ['b', 'a', 'ü']]"),
    "t": ("Tuple(Int32, Nullable(String))", "[(0, NULL), (1, 'a'), (-1, '')]"),
    "m": ("Map(String, Int32)", "[map(), map('a', 1), map('a', 2, 'b', -1)]"),
}
TABLES = ("plain", "parts", "merged")
_ROWS = 60
_NUMBERS = ("i8", "u8", "i32", "i64", "u64", "f32", "f64", "ni", "nf", "dec")
_INTEGERS = ("i8", "u8", "i32", "i64", "u64", "ni")
_KEYS = tuple(name for name in COLUMNS if name != "m")


def statements() -> list[str]:
    """Create and fill the tables; all but ``plain`` get each fifth of the rows by an INSERT of its own."""
    columns = ", ".join(f"{name} {type_}" for name, (type_, _) in COLUMNS.items())
    # Steps that have no factor in common: each value meets each.
    steps = (1, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    values = [
        f"CAST({given}[(number * {steps[place % 10]} + {place}) % {_count(given)} + 1] AS {type_}) AS {name}"
        for place, (name, (type_, given)) in enumerate(COLUMNS.items())
    ]
    made: list[str] = []
    for table in TABLES:
        made.append(f"CREATE TABLE {table} (id UInt32, {columns}) ENGINE = MergeTree ORDER BY id")
        for part in range(1 if table == "plain" else 5):
            where = "" if table == "plain" else f" WHERE number % 5 = {part}"
            made.append(f"INSERT INTO {table} SELECT number AS id, {', '.join(values)} FROM numbers({_ROWS}){where}")
    return [*made, "OPTIMIZE TABLE merged FINAL"]


def _count(given: str) -> int:
    """How many values an array has that is written as SQL."""
    level, count = 0, 1
    for letter in given:
        level += (letter in "[(") - (letter in "])")
        count += letter == "," and level == 1
    return count


class Queries:
    """Makes the query of a seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def query(self) -> str:
        return self._one_of(
            self._rows,
            self._rows,
            self._groups,
            self._groups,
            self._totals,
            self._window,
            self._join,
            self._sets,
            self._members,
            self._distinct,
            self._nested,
        )()

    # Queries ----------------------------------------------------------------------------------------------------------

    def _rows(self) -> str:
        values = ", ".join(self._any(3) for _ in range(self._random.randint(1, 4)))
        return f"SELECT id, {values} FROM {self._table()}{self._where()} ORDER BY id"

    def _groups(self) -> str:
        keys = ", ".join(self._key() for _ in range(self._random.choice((1, 1, 2))))
        aggregates = ", ".join(self._aggregate() for _ in range(self._random.randint(1, 3)))
        having = self._maybe(f" HAVING count() > {self._random.randint(0, 4)}")
        return f"SELECT {keys}, {aggregates} FROM {self._table()}{self._where()} GROUP BY {keys}{having}"

    def _totals(self) -> str:
        aggregates = ", ".join(self._aggregate() for _ in range(self._random.randint(1, 4)))
        return f"SELECT {aggregates} FROM {self._table()}{self._where()}"

    def _window(self) -> str:
        order = self._one_of("id", "id DESC", "i32, id", "s DESC, id", "f64, id", "arr DESC, id")
        frame = self._one_of(
            "",
            "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
            "ROWS BETWEEN CURRENT ROW AND 3 FOLLOWING",
            "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
            "RANGE",
        )
        call = self._one_of(
            "row_number()",
            "rank()",
            "dense_rank()",
            f"lag({self._one_of(*_KEYS)})",
            f"lead({self._number(1)}, 2)",
            *(f"{name}({self._one_of(*_INTEGERS, 'dec', 's', 'd')})" for name in ("min", "max", "count", "any")),
            f"sum({self._one_of(*_INTEGERS, 'dec')})",
        )
        if frame == "RANGE":
            call = f"{self._one_of('sum', 'min', 'max', 'count')}({self._one_of(*_INTEGERS)})"
            order = self._one_of("ni", "ni DESC", "i8", "u8", "id", "d")
            frame = self._one_of(
                "RANGE BETWEEN 2 PRECEDING AND CURRENT ROW", "RANGE BETWEEN 1 PRECEDING AND 3 FOLLOWING"
            )
        keys = self._maybe(f"PARTITION BY {self._key()} ")
        return f"SELECT id, {call} OVER ({keys}ORDER BY {order} {frame}) FROM {self._table()} ORDER BY id"

    def _join(self) -> str:
        kind = self._one_of("INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")
        key = self._one_of(*_KEYS)
        rest = self._maybe(f" AND l.id {self._one_of('<', '>')} r.id") if kind in ("INNER", "LEFT") else ""
        right = "" if "SEMI" in kind or "ANTI" in kind else ", r.id, r.s"
        few = f"(SELECT * FROM {self._table()} WHERE id % {self._random.randint(2, 9)} = 0)"
        return (
            f"SELECT l.id, l.{key}{right} FROM {self._table()} AS l {kind} JOIN {few} AS r ON l.{key} = r.{key}{rest}"
        )

    def _sets(self) -> str:
        key = self._one_of(*_KEYS)
        operators = ("UNION ALL", "UNION DISTINCT", "INTERSECT", "EXCEPT", "INTERSECT DISTINCT", "EXCEPT DISTINCT")
        arms = [f"SELECT {key} FROM {self._table()}{self._where()}" for _ in range(self._random.randint(2, 3))]
        text = arms[0]
        for arm in arms[1:]:
            text += f" {self._one_of(*operators)} {arm}"
        return f"SELECT {key}, count() FROM ({text}) GROUP BY {key}"

    def _members(self) -> str:
        key = self._one_of(*_KEYS)
        word = self._one_of("IN", "NOT IN", "IN", "GLOBAL IN")
        return f"SELECT id FROM {self._table()} WHERE {key} {word} (SELECT {key} FROM {self._table()}{self._where()})"

    def _distinct(self) -> str:
        keys = ", ".join(self._key() for _ in range(self._random.choice((1, 2))))
        if self._random.random() < 0.5:
            return f"SELECT DISTINCT {keys} FROM {self._table()}{self._where()}"
        return f"SELECT id FROM {self._table()}{self._where()} ORDER BY id LIMIT {self._random.randint(1, 3)} BY {keys}"

    def _nested(self) -> str:
        inner = f"SELECT id, {self._any(2)} AS x, {self._number(2)} AS y FROM {self._table()}{self._where()}"
        outer = self._one_of("id, x, y", "x, count()", "y, count(), min(id)", "count(), uniqExact(x)")
        group = {"x, count()": " GROUP BY x", "y, count(), min(id)": " GROUP BY y"}.get(outer, "")
        return f"SELECT {outer} FROM ({inner}){group}"

    def _table(self) -> str:
        return self._one_of(*TABLES)

    def _where(self) -> str:
        return self._maybe(f" WHERE {self._condition(2)}")

    def _aggregate(self) -> str:
        plain = self._one_of(*_KEYS)
        integer = self._one_of(*_INTEGERS)
        call = self._one_of(
            "count{}()",
            f"count{{}}({plain})",
            f"uniqExact{{}}({plain})",
            f"min{{}}({plain})",
            f"max{{}}({plain})",
            f"sum{{}}({integer})",
            f"sum{{}}({self._number(1)})",
            f"avg{{}}({integer})",
            f"argMin{{}}(id, ({plain}, id))",
            f"argMax{{}}(id, ({plain}, id))",
            f"quantileExact{{}}({integer})",
            f"groupBitXor{{}}({self._one_of('i8', 'u64')})",
            f"length(groupUniqArray{{}}({plain}))",
            f"arraySort(groupArray{{}}({integer}))",
        )
        suffix = self._one_of("", "", "", "OrNull", "If", "OrDefault")
        text = call.replace("{}", suffix)
        if suffix == "If":
            inner = text.rstrip(")")
            text = inner + ("" if inner.endswith("(") else ", ") + self._condition(1) + ")" * (len(text) - len(inner))
            if "((" in call or "length(" in call or "arraySort(" in call:
                return call.replace("{}", "")
        return text

    # Expressions ------------------------------------------------------------------------------------------------------

    def _any(self, depth: int) -> str:
        return self._one_of(self._number, self._number, self._text, self._condition, self._day, self._array)(depth)

    def _key(self) -> str:
        return self._one_of(*_KEYS) if self._random.random() < 0.7 else self._any(2)

    def _number(self, depth: int) -> str:
        if depth <= 0 or self._random.random() < 0.3:
            return self._one_of(*_NUMBERS, "id", "0", "1", "-1", "2.5", "127")
        one, two = self._number(depth - 1), self._number(depth - 1)
        return self._one_of(
            f"({one} + {two})",
            f"({one} - {two})",
            f"({self._integer()} * {self._integer()})",
            f"abs({one})",
            f"(-{self._integer()})",
            f"if({self._condition(depth - 1)}, {one}, {one})",
            f"length({self._text(depth - 1)})",
            f"lengthUTF8({self._text(depth - 1)})",
            f"toInt32({self._integer()})",
            f"toUInt8({self._integer()})",
            f"toFloat64({one})",
            f"coalesce(ni, {self._integer()})",
            "ifNull(nf, f64)",
            f"({self._integer()} % 7)",
            f"intDiv({self._integer()}, 3)",
            f"sign({one})",
            f"toInt64({self._condition(depth - 1)})",
            "arraySum(arr)",
            f"length({self._array(depth - 1)})",
            "t.1",
            "m['a']",
            f"toYear({self._day(0)})",
            "toHour(dt)",
            "toMinute(d64)",
            f"toDayOfWeek({self._day(0)})",
            f"greatest({self._integer()}, 3)",
            f"least({one}, {one})",
            "indexOf(arr, 5)",
            f"position({self._text(0)}, 'a')",
            f"bitAnd({self._integer()}, 15)",
            "dateDiff('day', d, toDate('2020-01-01'))",
            "toUnixTimestamp(dt)",
            f"floor({one})",
            "toUInt8(b)",
            "CAST(e AS Int8)",
            f"nullIf({self._integer()}, 1)",
        )

    def _integer(self) -> str:
        return self._one_of(*_INTEGERS, "id", "3")

    def _text(self, depth: int) -> str:
        if depth <= 0 or self._random.random() < 0.3:
            return self._one_of("s", "ns", "lc", "'a'", "''", "'ü'")
        one = self._text(depth - 1)
        return self._one_of(
            f"concat({one}, {self._text(depth - 1)})",
            f"upper({one})",
            f"lowerUTF8({one})",
            f"substringUTF8({one}, 2)",
            f"toString({self._one_of(*COLUMNS)})",
            f"replaceAll({one}, 'a', 'bb')",
            f"reverseUTF8({one})",
            f"leftPadUTF8({one}, 4, '*')",
            f"if({self._condition(depth - 1)}, {one}, 'else')",
            "arrayStringConcat(sa, '-')",
            f"trim({one})",
            f"repeat({one}, 2)",
            "formatDateTime(d, '%Y-%m')",
            f"coalesce({one}, 'none')",
            "t.2",
            f"leftPad({one}, 7)",
            f"hex({self._integer()})",
        )

    def _condition(self, depth: int) -> str:
        if depth <= 0:
            return self._one_of("b", "i32 > 0", "f64 < 1", "s = 'a'", "ni IS NULL", "id % 3 = 0")
        one, two = self._condition(depth - 1), self._condition(depth - 1)
        operator = self._one_of("=", "<>", "<", "<=", ">", ">=")
        column = self._one_of(*_KEYS)
        return self._one_of(
            f"({one} AND {two})",
            f"({one} OR {two})",
            f"(NOT {one})",
            f"({self._number(1)} {operator} {self._number(1)})",
            f"({self._text(1)} {operator} {self._text(0)})",
            f"({column} {operator} {column})",
            "ns IS NOT NULL",
            f"{self._integer()} IN (0, 1, 127, 18446744073709551615)",
            "f64 IN (0., nan, 0.1)",
            "nf NOT IN (-0., 2.5)",
            "has(arr, 5)",
            "has(sa, 'ü')",
            "s LIKE '%b%'",
            f"{self._number(0)} BETWEEN 0 AND 100",
            "isNaN(f64)",
            "e = 'red'",
            "u > '00000000-0000-0001-9a9a-000000000002'",
            "dt >= '2020-10-25 02:30:00'",
            "d64 < '1970-01-01 00:00:00'",
            "dec > 1.1",
            "s IN ('a', '12')",
            "(i8, s) IN ((1, 'a'), (0, ''))",
            "empty(arr)",
            "startsWith(s, 'a')",
        )

    def _day(self, depth: int) -> str:
        if depth <= 0:
            return self._one_of("d", "toDate(dt)", "toDate(d64)", "dt")
        return self._one_of(
            "toStartOfMonth(d)",
            "toStartOfHour(dt)",
            "dt + INTERVAL 1 HOUR",
            "dt - INTERVAL 30 MINUTE",
            "toMonday(d)",
            "toStartOfDay(dt)",
            "d64 + INTERVAL 1 MILLISECOND",
            "toStartOfInterval(d64, INTERVAL 250 MILLISECOND)",
            "date_trunc('day', dt)",
            "toDateTime(d64)",
            "toStartOfQuarter(d)",
            "addMonths(d, 1)",
            "toDate32(d64)",
            "d + 1",
            "toTimeZone(dt, 'UTC')",
            "toStartOfFifteenMinutes(dt)",
        )

    def _array(self, depth: int) -> str:
        if depth <= 0 or self._random.random() < 0.3:
            return self._one_of("arr", "af", "sa")
        one = self._array(depth - 1)
        return self._one_of(
            f"arraySort({one})",
            f"arrayReverseSort({one})",
            f"arrayReverse({one})",
            f"arrayDistinct({one})",
            "arrayMap(x -> x + 1, arr)",
            "arrayFilter(x -> x > 0, arr)",
            f"arrayConcat({one}, {one})",
            "range(u8 % 4)",
            f"arraySlice({one}, 2)",
            f"[{self._integer()}, {self._integer()}]",
            "arrayMap(x -> (x, 1), arr)",
            "mapKeys(m)",
            "arrayCompact(arr)",
            "arrayEnumerate(af)",
            "splitByChar(' ', s)",
            "arrayPushBack(arr, i32)",
            "arraySort(x -> -x, arr)",
            "arrayIntersect(arr, [1, 5])",
        )

    def _one_of(self, *choices):  # type: ignore[no-untyped-def]
        return self._random.choice(choices)

    def _maybe(self, text: str) -> str:
        return text if self._random.random() < 0.5 else ""
