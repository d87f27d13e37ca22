"""Text indexes: their definitions, what they say to a query, and that they change no answer, beside ClickHouse."""

from __future__ import annotations

import re

import numpy as np
import pytest

from parts.common.errors import PandoError
from parts.skip_indexes import text_index
from tests.portions import one_in
from tests.sql.pruning.conftest import Local, Oracle

ROWS = """
    INSERT INTO t SELECT number, concat('row ', toString(number), ', word', toString(intDiv(number, 5)),
    if(number = 17, ' Quick-brown_fox', ''), if(number % 31 = 0, ' über äh', '')) FROM numbers(100)
"""
CONDITIONS = [
    "hasToken(s, '17')", "hasToken(s, 'Quick')", "hasToken(s, 'nowhere')", "s = 'row 18, word3'", "s = '17'",
    "s IN ('row 18, word3', 'row 50, word10')", "s LIKE '%row 17,%'", "s LIKE '%word3%'", "s LIKE '%wor%'",
    "s LIKE 'row 17%'", "s LIKE '%brown%'", "s LIKE '%rown%'", "s LIKE '%Quick%fox'", "s LIKE '%uick-brow%'",
    "startsWith(s, 'row 17, wo')", "startsWith(s, 'row 17')", "endsWith(s, ' word3')", "endsWith(s, 'word3')",
    "NOT hasToken(s, '17')", "hasToken(s, '17') OR hasToken(s, '60')", "hasToken(s, '17') AND hasToken(s, 'word4')",
    "s LIKE '%über%'", "hasToken(s, 'äh') AND k > 50", "s LIKE '%100\\\\%%'", "s = ''",
]  # fmt: skip
TOKENIZERS = ["splitByNonAlpha", "'splitByNonAlpha'", "splitByString([', ', ' '])", "ngrams(3)", "ngrams", "array"]
CREATE = """
    CREATE TABLE t (k UInt64, s String, INDEX i s TYPE text(tokenizer = {}) GRANULARITY 2) ENGINE = MergeTree
    ORDER BY k SETTINGS index_granularity = 4
"""


def granules(explained: str) -> list[str]:
    """What the index leaves; nothing where it is not asked, or leaves all."""
    found = re.findall(r"Granules: (\d+)/(\d+)", explained)
    return [f"{left}/{all_}" for left, all_ in found[1:] if left != all_]


def same(local: Local, oracle: Oracle, condition: str) -> list[str]:
    query = f"SELECT count(), sum(k) FROM t WHERE {condition}"
    same_rows(local, oracle, condition)
    mine = granules("\n".join(str(line) for (line,) in local.run("EXPLAIN indexes = 1 " + query)))
    theirs = oracle.run(f"EXPLAIN indexes = 1 {query} SETTINGS query_plan_direct_read_from_text_index = 0")
    assert mine == granules(theirs), condition
    return mine


def both(local: Local, oracle: Oracle, sql: str) -> None:
    local.run(sql)
    oracle.run(sql)


@pytest.mark.parametrize("tokenizer", one_in(3, TOKENIZERS))
def test_conditions_leave_what_clickhouse_leaves(local: Local, oracle: Oracle, tokenizer: str) -> None:
    both(local, oracle, CREATE.format(tokenizer))
    both(local, oracle, ROWS)
    left = [same(local, oracle, condition) for condition in CONDITIONS]
    assert sum(map(bool, left)) >= 2


SEARCHES = [
    "hasAnyTokens(s, ['17', '18'])", "hasAnyTokens(s, '17 18')", "hasAllTokens(s, '17 word3')",
    "hasAllTokens(s, '17, word3')",
    "hasAllTokens(s, ['17', 'word4'])", "hasAllTokens(s, ['17 word3'])", "hasAnyTokens(s, [])", "hasAllTokens(s, '')",
    "hasAnyToken(t.s, 'row 18, word3')", "hasAllToken(s, 'rown brown')", "NOT hasAnyTokens(s, 'word3')",
    "hasAllTokens(s, 'word3 19', 'splitByNonAlpha')", "hasAnyTokens(s, ['w 1', 'row'], 'ngrams(3)')",
    "hasAnyTokens(lower(s), 'quick')", "(s AS x) != '' AND hasAllTokens(x, '17')",
]  # fmt: skip


@pytest.mark.parametrize("tokenizer", one_in(3, TOKENIZERS))
def test_searches_go_by_the_tokenizer_of_the_index(local: Local, oracle: Oracle, tokenizer: str) -> None:
    both(local, oracle, CREATE.format(tokenizer))
    both(local, oracle, ROWS)
    for condition in SEARCHES:
        if "splitByNonAlpha')" in condition or "ngrams(3)')" in condition or " AS x" in condition:
            same_rows(local, oracle, condition)
        else:
            same(local, oracle, condition)
    same_rows(local, oracle, "hasAnyTokens(s, 'row 17') SETTINGS use_skip_indexes = 0")
    assert same(local, oracle, "hasAnyTokens(s, [])") == ["0/25"]
    query = "SELECT hasAnyTokens(s, 'a'), count() FROM t GROUP BY hasAnyTokens(s, 'a')"
    names = local.engine.execute(query, local.session).columns
    assert [name for name, _ in names] == ["hasAnyTokens(s, 'a')", "count()"]


def same_rows(local: Local, oracle: Oracle, condition: str) -> None:
    query = f"SELECT count(), sum(k) FROM t WHERE {condition}"
    assert ["\t".join(map(str, row)) for row in local.run(query)] == oracle.run(query).splitlines(), condition


NESTED = """
    CREATE TABLE t (k UInt64, a Array(String), m Map(String, String), f FixedString(6), n Nullable(String),
    l LowCardinality(String), INDEX i a TYPE text(tokenizer = {0}), INDEX j mapKeys(m) TYPE text(tokenizer = {0}),
    INDEX v mapValues(m) TYPE text(tokenizer = {0}), INDEX x f TYPE text(tokenizer = {0}),
    INDEX y n TYPE text(tokenizer = {0}), INDEX z lower(l) TYPE text(tokenizer = {0}))
    ENGINE = MergeTree ORDER BY k SETTINGS index_granularity = 4
"""
NESTED_ROWS = """
    INSERT INTO t SELECT number, ['tag', concat('tag', toString(number))],
    map(concat('key', toString(number)), concat('Val', toString(number))), toString(number),
    if(number % 2 = 0, NULL, concat('nul', toString(number))), concat('Low', toString(number)) FROM numbers(100)
"""
NESTED_CONDITIONS = [
    "has(a, 'tag17')", "has(a, 'tag')", "has(a, 'none')", "hasAny(a, ['tag17', 'tag18'])",
    "hasAll(a, ['tag17', 'tag'])",
    "mapContainsKey(m, 'key17')", "m['key17'] = 'Val17'", "n = 'nul17'", "n IS NULL",
    "n IN ('nul17', 'nul18')", "lower(l) = 'low17'", "l = 'Low17'", "a = ['tag', 'tag17']", "a[2] = 'tag17'",
]  # fmt: skip


@pytest.mark.parametrize("tokenizer", ["splitByNonAlpha", "ngrams(3)", "array"])
@pytest.mark.long
def test_what_is_in_arrays_and_maps(local: Local, oracle: Oracle, tokenizer: str) -> None:
    both(local, oracle, NESTED.format(tokenizer))
    both(local, oracle, NESTED_ROWS)
    for condition in NESTED_CONDITIONS:
        same_rows(local, oracle, condition)
    assert same(local, oracle, "has(a, 'tag17')")
    assert same(local, oracle, "mapContainsKey(m, 'key17')")
    assert same(local, oracle, "n = 'nul17'")
    assert same(local, oracle, "lower(l) = 'low17'")
    # where ClickHouse loses the row of an index of whole values: it looks for the text without its zeros
    assert local.run("SELECT k FROM t WHERE f = '17'") == [(17,)]


@pytest.mark.parametrize(
    "index",
    [
        "s TYPE text", "s TYPE text()", "s TYPE text(tokenizer = 'foo')", "s TYPE text(tokenizer = ngrams(0))",
        "s TYPE text('array')", "s TYPE text(tokenizer = array, foo = 1)", "k TYPE text(tokenizer = array)",
        "(s, u) TYPE text(tokenizer = array)", "s TYPE text(tokenizer = array, dictionary_block_size = 0)",
        "s TYPE text(tokenizer = array), INDEX j s TYPE text(tokenizer = ngrams)",
        "nowhere TYPE text(tokenizer = array)",
        "s TYPE text(tokenizer = array, support_phrase_search = 1)", "m TYPE text(tokenizer = array)",
    ],
)  # fmt: skip
def test_definitions_that_are_refused(local: Local, oracle: Oracle, index: str) -> None:
    columns = f"k UInt8, s String, u String, m Map(String, String), INDEX i {index}"
    sql = f"CREATE TABLE t ({columns}) ENGINE = MergeTree ORDER BY k"
    with pytest.raises(PandoError) as caught:
        local.run(sql)
    assert caught.value.code == oracle.error(sql) != 0


@pytest.mark.parametrize("what", ["tokenizer = sparseGrams", "tokenizer = array, preprocessor = lower(s)"])
def test_definitions_that_are_not_there_yet(local: Local, what: str) -> None:
    with pytest.raises(PandoError, match="is not supported") as caught:
        local.run(f"CREATE TABLE t (s String, INDEX i s TYPE text({what})) ENGINE = MergeTree ORDER BY ()")
    assert caught.value.code == 48


def test_a_definition_is_shown_as_clickhouse_shows_it(local: Local, oracle: Oracle) -> None:
    arguments = "tokenizer=splitByString([', ',';']),dictionary_block_size = 512, posting_list_codec='bitpacking'"
    both(local, oracle, f"CREATE TABLE t (s String, INDEX i s TYPE text({arguments})) ENGINE = MergeTree ORDER BY ()")
    line = re.findall(r"INDEX i .*", str(local.value("SHOW CREATE TABLE t")))
    assert line == re.findall(r"INDEX i .*", oracle.run("SHOW CREATE TABLE t"))
    assert "GRANULARITY 100000000" in line[0]
    shown = "SELECT name, type, type_full, expr, granularity FROM system.data_skipping_indices WHERE table = 't'"
    assert "\t".join(map(str, local.run(shown)[0])) + "\n" == oracle.run(f"{shown} AND database = currentDatabase()")


@pytest.mark.parametrize("settings", ["min_bytes_for_wide_part = 0", "min_bytes_for_full_part_storage = 0", ""])
def test_it_lives_with_its_table(local: Local, settings: str) -> None:
    local.run("CREATE TABLE t (k UInt64, v UInt8, s String) ENGINE = MergeTree ORDER BY k "
              f"SETTINGS index_granularity = 8{settings and ', ' + settings}")  # fmt: skip
    row = "number, 0, concat('a', toString(number), ' b', toString(number % 7))"
    local.run(f"INSERT INTO t SELECT {row} FROM numbers(100)")
    query = "SELECT k FROM t WHERE hasToken(s, 'a77')"
    assert left(local, query) == ""
    local.run("ALTER TABLE t ADD INDEX i s TYPE text(tokenizer = splitByNonAlpha)")
    assert left(local, query) == ""
    local.run("ALTER TABLE t MATERIALIZE INDEX i SETTINGS mutations_sync = 2")
    assert left(local, query) == "1/13"
    local.run("ALTER TABLE t UPDATE v = 1 WHERE k > 3 SETTINGS mutations_sync = 2")
    assert left(local, query) == "1/13"
    local.run("ALTER TABLE t UPDATE s = 'a77' WHERE k = 3 SETTINGS mutations_sync = 2")
    assert local.run(query) == [(3,), (77,)]
    assert left(local, query) == "2/13"
    local.run(f"INSERT INTO t SELECT {row} FROM numbers(200, 50)")
    local.run("OPTIMIZE TABLE t FINAL")
    assert local.run(query) == [(3,), (77,)]
    assert left(local, query) == "2/19"
    assert left(local, "SELECT k FROM t WHERE hasToken(s, 'a210')") == "1/19"
    local.run("DELETE FROM t WHERE k = 3")
    assert local.run(query) == [(77,)]
    local.run("ALTER TABLE t CLEAR INDEX i SETTINGS mutations_sync = 2")
    assert left(local, query) == ""
    local.run("ALTER TABLE t DROP INDEX i")
    assert local.run(query) == [(77,)]


def left(local: Local, query: str) -> str:
    return "".join(granules("\n".join(str(line) for (line,) in local.run("EXPLAIN indexes = 1 " + query))))


@pytest.mark.parametrize(("most_postings", "are_exact"), [(1 << 26, True), (3000, False)])
@pytest.mark.long
def test_many_tokens(local: Local, monkeypatch: pytest.MonkeyPatch, most_postings: int, are_exact: bool) -> None:
    """Blocks of the dictionary, windows and merges, and where postings become too many: nothing is lost."""
    monkeypatch.setattr(text_index, "_MOST_POSTINGS", most_postings)
    monkeypatch.setattr(text_index, "_TOGETHER_AT_LEAST", 100)
    monkeypatch.setattr(text_index, "_BLOCK_TOKENS", 64)
    local.run("CREATE TABLE t (k UInt64, s String, INDEX i s TYPE text(tokenizer = splitByNonAlpha)) "
              "ENGINE = MergeTree ORDER BY k SETTINGS index_granularity = 16")  # fmt: skip
    generator = np.random.default_rng(7)
    numbers = (generator.pareto(0.6, (3, 700, 4)) * 3).astype(np.int64) % 5000
    for part in range(3):
        rows = [f"({i * 3 + part}, '{' '.join(f'w{n}' for n in row)}')" for i, row in enumerate(numbers[part])]
        local.run("INSERT INTO t VALUES " + ", ".join(rows))
    local.run("OPTIMIZE TABLE t FINAL")
    held: dict[int, set[int]] = {}
    for part in range(3):
        for i, row in enumerate(numbers[part]):
            for number in row:
                held.setdefault(int(number), set()).add(i * 3 + part)
    rare = sorted(held, key=lambda number: (len(held[number]), number))
    for number in [*rare[:40], *rare[-5:], 4999_9]:
        query = f"SELECT k FROM t WHERE hasToken(s, 'w{number}')"
        assert [row[0] for row in local.run(query)] == sorted(held.get(number, ()))
    exact = max(1, len({k // 16 for k in held[rare[0]]}))
    found = int(left(local, f"SELECT k FROM t WHERE hasToken(s, 'w{rare[0]}')").split("/")[0])
    assert found == exact if are_exact else exact < found < 132
    monkeypatch.setattr(text_index, "_MOST_TOKENS", 100)
    for change in ("CLEAR", "MATERIALIZE"):
        local.run(f"ALTER TABLE t {change} INDEX i SETTINGS mutations_sync = 2")
    assert left(local, f"SELECT k FROM t WHERE hasToken(s, 'w{rare[0]}')") == ""
    assert [row[0] for row in local.run(f"SELECT k FROM t WHERE hasToken(s, 'w{rare[0]}')")] == sorted(held[rare[0]])
