"""Random CREATE TABLE statements: ClickHouse (chdb) and Pando both take one, with the same columns and keys, or both
refuse it. What one of them refuses as not supported (48) is no difference."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from parts.errors import PandoError
from tests.alter.following import Pando
from tests.fuzz.differences import accepted
from tests.sql_statements.oracle import Oracle

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

    def type_() -> str:
        scalar = random.choice(_SCALARS)
        return random.choice(_WRAPPED).format(scalar) if random.random() < 0.3 else scalar

    columns = []
    for number in range(random.randint(1, 4)):
        more = [maybe(0.25, random.choice(_DEFAULTS)), maybe(0.15, random.choice(_CODECS))]
        columns.append(" ".join(filter(None, [f"c{number} {type_()}", *more])))
    columns += [maybe(0.3, f"sign {random.choice(('Int8', 'Int8', 'UInt8', 'String'))}")]
    columns += [maybe(0.1, f"INDEX i {random.choice(_KEYS)} TYPE minmax"), maybe(0.1, "CONSTRAINT k CHECK c0 > 0")]
    clauses = [f"ENGINE = {random.choice(_ENGINES)}"]
    clauses += [maybe(0.3, f"PARTITION BY {random.choice(_KEYS)}"), maybe(0.2, f"PRIMARY KEY {random.choice(_KEYS)}")]
    clauses += [maybe(0.9, f"ORDER BY {random.choice(_KEYS)}"), maybe(0.1, f"SAMPLE BY {random.choice(_KEYS)}")]
    clauses += [maybe(0.15, f"TTL {random.choice(_TTLS)}"), maybe(0.1, "SETTINGS index_granularity = 100")]
    return f"CREATE OR REPLACE TABLE t ({', '.join(filter(None, columns))}) {' '.join(filter(None, clauses))}"


@contextlib.contextmanager
def opened() -> Iterator[Callable[[int], None]]:
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
_NOT_SUPPORTED = "48"
_OWN_LEVEL = re.compile(rb"(Delta|DoubleDelta|Gorilla|ZSTD)\(\d+\)")
"""ClickHouse shows the level or width that a codec has by itself."""


def compare(oracle: Oracle, pando: Pando, create: str) -> None:
    """Raises ``AssertionError`` where one takes what the other refuses, or the columns differ."""
    if any(pattern.search(create) for _, pattern in accepted()):
        return
    ours = _outcome(pando.query, create)
    if ours == _NOT_SUPPORTED:
        return
    theirs = _outcome(oracle.query, create)
    if theirs == _NOT_SUPPORTED:
        return
    assert (ours == "") == (theirs == ""), f"ClickHouse {theirs or 'takes it'}, Pando {ours or 'takes it'}"
    if ours == "":
        left, right = (_OWN_LEVEL.sub(rb"\1", query(_COLUMNS)) for query in (oracle.query, pando.query))
        assert left == right, f"ClickHouse {left!r}\nPando {right!r}"


def _outcome(query: Callable[[str], bytes], create: str) -> str:
    """The code of the error; empty where the table was made."""
    try:
        query(create)
    except (PandoError, RuntimeError) as error:
        found = _CODE.search(str(error))
        return found[1] if found else str(error)
    return ""
