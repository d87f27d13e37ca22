"""Random CREATE TABLE statements: ClickHouse (chdb) and Pando both take one, with the same columns, keys and defaults
of a row that gives the first column alone, or both refuse it.

``accepted_definitions.txt`` says which may differ: patterns of the two outcomes (``taken``, or the error's code;
ClickHouse's first) and the statement. What one of them refuses as not supported (48) is no difference.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from parts.common.errors import PandoError
from tests.alter.following import Pando
from tests.fuzz.differences import accepted
from tests.fuzz.runner import COMPARED
from tests.sql.oracle import Oracle

SECONDS = 30
_SCALARS = (
    "UInt8", "Int32", "UInt64", "Float64", "String", "FixedString(3)", "Bool", "Date", "Date32", "DateTime",
    "DateTime('Europe/Berlin')", "DateTime64(3)", "Decimal(9, 2)", "Decimal(38, 10)", "UUID", "IPv4",
    "Enum8('a' = 1, 'b' = 2)", "Enum16('x' = -5)",
)  # fmt: skip
_WRAPPED = (
    "Nullable({})", "Array({})", "LowCardinality({})", "Map(String, {})", "Tuple(a {}, b String)", "Array(Array({}))",
    "Array(Nullable({}))", "LowCardinality(Nullable({}))", "Nullable(Array({}))", "Map({}, UInt8)",
)  # fmt: skip
_VALUES = {
    "UInt8": "7",
    "Int32": "-7",
    "UInt64": "18446744073709551615",
    "Float64": "-0.5",
    "String": "'x\\ty'",
    "FixedString(3)": "'ab'",
    "Bool": "true",
    "Date": "'2020-02-29'",
    "Date32": "'1920-02-29'",
    "DateTime": "'2020-02-29 01:02:03'",
    "DateTime64(3)": "'1969-12-31 23:59:59.5'",
    "Decimal(9, 2)": "-1.25",
    "Decimal(38, 10)": "1.0000000001",
    "UUID": "'2fdc5a2a-9a9a-4f9f-9a9a-000000000001'",
    "IPv4": "'1.2.3.4'",
    "Enum8('a' = 1, 'b' = 2)": "'b'",
    "Enum16('x' = -5)": "'x'",
}
"""A value of the first column, by its type; other types get no row."""
_DEFAULTS = (
    "DEFAULT 1", "DEFAULT 'a'", "DEFAULT now()", "DEFAULT c0", "MATERIALIZED toString(c0)", "ALIAS c0",
    "DEFAULT nope", "DEFAULT NULL", "MATERIALIZED 1 + 1", "ALIAS length(toString(c1))", "DEFAULT today()",
    "DEFAULT rand()", "DEFAULT [1]", "DEFAULT ''", "COMMENT 'it''s'",
)  # fmt: skip
_CODECS = (
    "CODEC(ZSTD(3))", "CODEC(LZ4)", "CODEC(Delta, LZ4)", "CODEC(DoubleDelta, ZSTD)", "CODEC(Gorilla)", "CODEC(NONE)",
    "CODEC(T64)", "CODEC(ZSTD(99))", "CODEC(Delta(4))", "CODEC(Nope)", "CODEC(LZ4HC(9))",
)  # fmt: skip
_KEYS = (
    "tuple()", "c0", "c1", "(c0, c1)", "(c1, c0)", "toString(c0)", "-c0", "c0 % 3", "(c0, c0)", "1", "nope", "rand()",
    "toYYYYMM(c1)", "cityHash64(c0)", "(c0, toDate(c1))", "c0 DESC", "now()", "lower(c1)", "c2", "length(c2)",
)  # fmt: skip
_ENGINES = (
    "MergeTree", "MergeTree", "MergeTree", "MergeTree()", "ReplacingMergeTree", "ReplacingMergeTree(c0)",
    "ReplacingMergeTree(c1)", "SummingMergeTree", "SummingMergeTree(c0)", "SummingMergeTree((c0, c1))",
    "CollapsingMergeTree(c0)", "CollapsingMergeTree(sign)", "VersionedCollapsingMergeTree(sign, c0)",
    "AggregatingMergeTree", "CollapsingMergeTree", "MergeTree(c0)", "Memory", "Log",
)  # fmt: skip
_TTLS = (
    "c1 + INTERVAL 1 DAY", "c0 + INTERVAL 1 DAY", "toDate(c1) + INTERVAL 1 MONTH DELETE WHERE c0 = 1",
    "c1 + INTERVAL 1 DAY GROUP BY c0 SET c2 = max(c2)", "now() + INTERVAL 1 DAY", "c1 + 1",
)  # fmt: skip


def shown(seed: int) -> str:
    random = Random(seed)

    def maybe(share: float, text: str) -> str:
        return text if random.random() < share else ""

    def key() -> str:
        return random.choice(_KEYS if random.random() < 0.3 else ("c0", "c1", "(c0, c1)", "tuple()"))

    def type_() -> str:
        scalar = random.choice(_SCALARS)
        return random.choice(_WRAPPED).format(scalar) if random.random() < 0.2 else scalar

    columns = []
    for number in range(random.randint(2, 4)):
        more = [maybe(0.2, random.choice(_DEFAULTS)), maybe(0.1, random.choice(_CODECS))]
        columns.append(" ".join(filter(None, [f"c{number} {type_()}", *more])))
    columns += [maybe(0.8, f"sign {random.choice(('Int8', 'Int8', 'Int8', 'Int8', 'UInt8', 'String'))}")]
    columns += [maybe(0.1, f"INDEX i {key()} TYPE minmax"), maybe(0.1, "CONSTRAINT k CHECK c0 > 0")]
    clauses = [f"ENGINE = {random.choice(_ENGINES)}"]
    clauses += [maybe(0.2, f"PARTITION BY {key()}"), maybe(0.1, f"PRIMARY KEY {key()}")]
    clauses += [maybe(0.95, f"ORDER BY {key()}"), maybe(0.05, f"SAMPLE BY {key()}")]
    clauses += [maybe(0.1, f"TTL {random.choice(_TTLS)}"), maybe(0.1, "SETTINGS index_granularity = 100")]
    return f"CREATE OR REPLACE TABLE t ({', '.join(filter(None, columns))}) {' '.join(filter(None, clauses))}"


@contextlib.contextmanager
def opened() -> Iterator[Callable[[int], str]]:
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        oracle = Oracle()
        stack.callback(oracle.close)
        pando = Pando(Path(directory))
        stack.callback(pando.stop)
        yield lambda seed: compare(oracle, pando, shown(seed))


_COLUMNS = """SELECT name, type, default_kind, default_expression, comment, compression_codec, is_in_partition_key,
    is_in_sorting_key, is_in_primary_key, is_in_sampling_key FROM system.columns WHERE table = 't'
    AND database = currentDatabase() ORDER BY position"""
_CODE = re.compile(r"Code: (\d+)\.")
_TAKEN, _NOT_SUPPORTED = "taken", "48"
_BEGINNING = "CREATE OR REPLACE TABLE t (c0 "
_CHANGING = re.compile(r"now\(\)|today\(\)|rand\(\)|TTL")
"""Values that change, and rows that expire when a merge comes."""
_SUMS_INDEX = re.compile(r"INDEX .*SummingMergeTree")
"""ClickHouse sums the expression of an index as if it were a column, and may so drop or keep a row of zeros."""
_OWN_LEVEL = re.compile(rb"(Delta|DoubleDelta|Gorilla|ZSTD)\(\d+\)")
"""ClickHouse shows the level or width that a codec has by itself."""


def compare(oracle: Oracle, pando: Pando, create: str) -> str:
    """Raises ``AssertionError`` where one takes what the other refuses, or the columns or the row differ."""
    if _differ(oracle, pando, create, create):
        return "refused by one or both"
    columns = (_OWN_LEVEL.sub(rb"\1", query(_COLUMNS)) for query in (oracle.query, pando.query))
    _compare(*columns)
    value = next((value for type_, value in _VALUES.items() if create.startswith(f"{_BEGINNING}{type_}")), None)
    if value is None or _differ(oracle, pando, f"INSERT INTO t (c0) VALUES ({value})", create):
        return "columns compared, no rows"
    if _CHANGING.search(create):
        return "columns compared, rows may change"
    if _SUMS_INDEX.search(create):
        return "columns compared, an index takes part in sums there"
    _compare(oracle.query("SELECT * FROM t"), pando.query("SELECT * FROM t"))
    return COMPARED


def _differ(oracle: Oracle, pando: Pando, statement: str, create: str) -> bool:
    """Whether there is nothing to compare: one or both refuse the statement. Raises ``AssertionError`` where nothing
    says that they may differ."""
    theirs, ours = _outcome(oracle.query, statement), _outcome(pando.query, statement)
    if theirs == ours == _TAKEN:
        return False
    is_fine = _NOT_SUPPORTED in (theirs, ours) or (theirs == _TAKEN) == (ours == _TAKEN)
    shown = f"{theirs} {ours} {create}" if statement == create else f"{theirs} {ours} INSERT {create}"
    if not is_fine and not any(pattern.search(shown) for _, pattern in accepted("definitions")):
        raise AssertionError(f"{statement}: ClickHouse {theirs}, Pando {ours}")
    return True


def _compare(theirs: bytes, ours: bytes) -> None:
    assert theirs == ours, f"ClickHouse {theirs!r}\nPando {ours!r}"


def _outcome(query: Callable[[str], bytes], statement: str) -> str:
    try:
        query(statement)
    except (PandoError, RuntimeError) as error:
        found = _CODE.search(str(error))
        return found[1] if found else str(error)
    return _TAKEN
