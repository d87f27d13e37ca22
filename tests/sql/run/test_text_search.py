"""Rows without what LIKE looks for are left out, and no others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sql.pruning import substring_search
from sql.pruning.substring_search import find_candidate_rows
from sql.run.query_engine import QueryEngine
from tests.sql.run.dataset import MemoryCatalog, MemoryRelation
from tests.sql.run.part_tables import describe

ROWS = 30_000
TEXTS = st.lists(st.none() | st.text("abcé", max_size=12), max_size=40)
NEEDLES = st.lists(st.text("abcé", min_size=1, max_size=10).map(str.encode), min_size=1, max_size=2)


@settings(deadline=None)
@given(TEXTS, NEEDLES, st.booleans())
def test_what_contains_a_needle_is_found(texts: list[str | None], needles: list[bytes], is_dictionary: bool) -> None:
    array = pa.array(["abc", *texts, "cba"], pa.string()).slice(1, len(texts))
    found = find_candidate_rows(array.dictionary_encode() if is_dictionary else array, needles)
    contained = [[text is not None and needle in text.encode() for text in texts] for needle in needles]
    is_possible = [found.tolist() == mask for mask in contained]
    if not any(is_possible):  # the needle is not rare
        assert all(found[row] for row in range(len(texts)) if texts[row] is not None and all(m[row] for m in contained))
        assert found[array.is_valid().to_numpy(zero_copy_only=False)].all() or is_dictionary


def test_a_rare_needle_is_found_exactly() -> None:
    texts = [f"{number} some more letters" for number in range(2000)]
    texts[7], texts[1999] = "a quick fox", "the end is quick"
    array = pa.array(texts)
    assert np.flatnonzero(find_candidate_rows(array, [b"quick"])).tolist() == [7, 1999]
    assert np.flatnonzero(find_candidate_rows(array.slice(5), [b"me", b"x"])).tolist() == [2]
    assert find_candidate_rows(array, [b"some more"]).all(), "its letters are everywhere"
    halves = pa.array(["no qui", "ck here"] * 100)
    assert not find_candidate_rows(halves, [b"quick"]).any(), "not from one text into the next"


@pytest.fixture(scope="module")
def catalogs(tmp_path_factory: pytest.TempPathFactory) -> tuple[MemoryCatalog, ...]:
    table = describe("k UInt32, s String, n Nullable(String)", "k", granularity=1024)
    words = ["some", "letters", "and", "more", "of", "them"]
    texts = [f"{words[i % 6]} {words[i * 7 % 5]} {i}" for i in range(ROWS)]
    texts[100::1000] = [f"jump {i}% high_" for i in range(ROWS // 1000)]
    nullable = [None if i % 9 == 0 else text for i, text in enumerate(texts)]
    block = pa.table({"k": pa.array(range(ROWS), pa.uint32()), "s": texts, "n": pa.array(nullable, pa.string())})
    block = block.cast(table.description.schema.arrow)
    table.insert(tmp_path_factory.mktemp("parts"), block)
    return MemoryCatalog({"t": table}), MemoryCatalog({"t": MemoryRelation(table.description.schema, block)})


@pytest.mark.parametrize(
    "condition",
    [
        "s LIKE '%jump%'",
        "n LIKE '%jump%high%'",
        "s LIKE '%jump%' AND n LIKE '%high\\\\_'",
        "s LIKE 'jump%' AND k > 5000",
        "s LIKE '%m_ 1%h_gh%'",
        "s LIKE '%7\\\\% high%'",
        "x LIKE '%jump%' AND s != ''",
        "NOT s LIKE '%jump%'",
        "s LIKE '%jump%' OR k = 7",
        "s ILIKE '%JUMP%'",
        "concat(s, 'jump') LIKE '%jump%'",
    ],
)
def test_answers(condition: str, catalogs: tuple[MemoryCatalog, ...]) -> None:
    query = f"SELECT count(), sum(k), max(s), concat(s, 'q') AS x, x FROM t WHERE {condition} GROUP BY x ORDER BY x"
    ours, theirs = (QueryEngine().select(query, catalog=catalog).read_all() for catalog in catalogs)
    assert ours == theirs
    assert ours.num_rows


def test_an_alias_is_not_the_column(catalogs: tuple[MemoryCatalog, ...]) -> None:
    query = "SELECT k, concat(s, ' zebra') AS s FROM t WHERE s LIKE '%zebra%' ORDER BY k LIMIT 3"
    for catalog in catalogs:
        found = QueryEngine().select(query, catalog=catalog).read_all()
        assert found.column("k").to_pylist() == [0, 1, 2]


def test_rows_are_left_out(catalogs: tuple[MemoryCatalog, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    search = substring_search.find_candidate_rows

    def watched(texts: pa.Array, needles: list[bytes]) -> np.ndarray:
        found = search(texts, needles)
        looked.append(int(found.sum()))
        return found

    monkeypatch.setattr("sql.pruning.row_prefilter.find_candidate_rows", watched)
    query = "SELECT count() FROM t WHERE s LIKE '%jump%'"
    assert QueryEngine().select(query, catalog=catalogs[0]).read_all().column(0).to_pylist() == [ROWS // 1000]
    assert sum(looked) == ROWS // 1000


def test_nothing_to_search() -> None:
    assert find_candidate_rows(pa.array(["", ""]), [b"abc"]).tolist() == [False, False]
    assert find_candidate_rows(pa.array([], pa.string()), [b"abc"]).tolist() == []
