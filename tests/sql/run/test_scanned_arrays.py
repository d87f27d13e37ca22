"""What scans compute of arrays is what DuckDB computes of them: borders, NULLs, long arrays, arrays of other sizes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from parts.common.errors import UserError
from sql.run.query_engine import QueryEngine
from sql.typing.column_kernels.list_arrays import (
    first_occurrences,
    first_shared_occurrences,
    select_shared_keys,
    sort_keys,
    value_codes,
)
from tests.portions import one_in
from tests.sql.run.dataset import MemoryCatalog, MemoryRelation, schema_of

_RNG = np.random.default_rng(7)
_COLUMNS = {
    "i": ("Array(Int64)", [-(2**63), 2**63 - 1, -1, 0, 1, 2]),
    "u": ("Array(UInt64)", [0, 1, 2**63, 2**64 - 1]),
    "b": ("Array(Int8)", [-128, 127, 0, 3, 3, 3]),
    "s": ("Array(String)", ["", "a", "b", "é", "ab\0", "ab"]),
    "d": ("Array(Date)", [0, 1, 18000]),
    "f": ("Array(Float64)", [0.5, float("inf"), float("nan"), -3.25, 1e300]),
    "n": ("Array(Nullable(Int32))", [None, 1, 2, -5]),
    "same": ("Array(Int8)", [1, 2, 3]),
}
_CALLS = [
    "has(i, -1)", "has(u, 18446744073709551615)", "has(b, 200)", "indexOf(s, 'é')", "countEqual(n, NULL)", "has(n, 3)",
    "has(i, k)", "indexOf(s, w)", "countEqual(b, k)", "hasAny(i, b)", "hasAll(i, b)", "hasAny(s, ['a', 'ab'])",
    "hasAll(n, [1, NULL])", "hasAll(n, n)", "hasAny(d, d)", "hasAll(b, [])", "hasAny(u, u)", "hasAll(b, [1000])",
    "arrayDistinct(i)", "arrayDistinct(s)", "arrayDistinct(n)", "arrayUniq(u)", "arrayUniq(n)", "arrayUniq(d)",
    "arrayCompact(b)", "arrayCompact(n)", "arrayCompact(s)", "arrayEnumerate(f)", "arrayReverse(s)", "arrayReverse(n)",
    "arrayPopBack(f)", "arrayPopFront(d)", "arraySort(arrayIntersect(i, b))", "arraySort(arrayIntersect(s, ['a', '']))",
    "arraySort(i)", "arraySort(n)", "arrayReverseSort(s)", "arrayReverseSort(u)", "arraySort(x -> -x, b)",
    "arraySort(x -> length(x), s)", "arrayReverseSort((x, y) -> y, b, same)", "arraySum(i)", "arraySum(u)",
    "arraySum(b)", "arrayAvg(b)", "arrayAvg(f)", "arrayMin(i)", "arrayMax(u)", "arrayMax(f)", "arrayProduct(b)",
    "arrayProduct(u)", "arrayCumSum(x -> x % 7, i)", "arrayCumSum(x -> x * 2, b)", "arrayDifference(b)",
    "arrayDifference(x -> x % 7, u)",
    "arrayMap(x -> x + k, b)", "arrayMap(x -> x > 1, i)", "arrayMap(x -> toString(x), u)", "arrayMap(x -> x || w, s)",
    "arrayMap((x, y) -> x - y, b, same)", "arrayMap(x -> arraySum(y -> y * x, b), same)", "arrayMap(x -> x / 0, b)",
    "arrayMap(x -> x % 3, i)", "arrayMap(x -> x % 3, u)", "arrayFilter(x -> x > k, b)", "arrayFilter(x -> 1, s)",
    "arrayExists(x -> x = w, s)", "arrayAll(x -> x < 100, b)", "arrayCount(b)", "arrayCount(x -> x <> 1, u)",
    "arrayFirst(x -> x > 1, i)", "arrayLast(x -> x < 'b', s)", "arrayFirst(x -> x > 1000, b)",
    "arrayCount((x, y) -> y > 0, ['a', 'b', 'c'], [1, -1, k])", "arrayFirst((x, y) -> y > k, ['a', 'b'], [1, k])",
    "hasAll(i, i)", "hasAny(u, u)", "arrayMap(x -> x + k, [k, 2])", "arrayIntersect(i, [])",
    "arrayFirstIndex(x -> x = 3, b)", "arrayLast((x, y) -> y > 1, b, same)", "arrayMap(x -> w, same)",
    "arraySlice(i, 2)", "arraySlice(s, -2)", "arraySlice(n, -3, 2)", "arraySlice(u, k, 2)", "arraySlice(d, 2, -1)",
    "arraySlice(b, k, k)", "arrayResize(b, 5, 9)", "arrayResize(s, 3)", "arrayResize(s, 2, 'x')", "arrayZip(b, same)",
    "arrayZip(s)", "arrayStringConcat(s, '-')", "arrayStringConcat(n, ',')", "arrayStringConcat(i)",
    "arrayFlatten(arrayMap(x -> [x, k], b))",
]  # fmt: skip


def _arrays(values: list[object], sizes: np.ndarray) -> list[list[object]]:
    return [[values[k] for k in _RNG.integers(0, len(values), size)] for size in sizes]


@pytest.fixture(scope="module")
def catalog() -> MemoryCatalog:
    sizes = _RNG.integers(0, 5, 400)
    sizes[7] = 3000
    rows = [_arrays(values, sizes if name in ("b", "same") else _RNG.permutation(sizes))
            for name, (_, values) in _COLUMNS.items()]  # fmt: skip
    columns = ", ".join(f"{name} {type_}" for name, (type_, _) in _COLUMNS.items())
    schema = schema_of(f"{columns}, k Int16, w String, m Map(String, Int32)")
    rows += [_RNG.integers(-2, 4, 400).tolist(), [["a", "é", ""][k % 3] for k in range(400)]]
    rows.append([[(key, place) for place, key in enumerate(["a", "", "é", "a"][: k % 5])] for k in range(400)])
    table = pa.table(
        [pa.array(values, field.type) for values, field in zip(rows, schema.arrow, strict=True)], schema.arrow
    )
    return MemoryCatalog({"t": MemoryRelation(schema, table)})


def _computed(query: str, catalog: MemoryCatalog) -> tuple[list[object], bool]:
    result = QueryEngine().select(query, catalog=catalog)
    is_by_scan = any("=" in column for column in _scanned(query, catalog))
    return result.read_all().column(0).to_pylist(), is_by_scan


def _scanned(query: str, catalog: MemoryCatalog) -> list[str]:
    from sql.compile.passes.pipeline import run_passes
    from sql.grammar.queries.query_parser import parse_query
    from sql.settings.supported_settings import DEFAULT_SETTINGS

    plan = QueryEngine().plan(run_passes(parse_query(query), {}), catalog, DEFAULT_SETTINGS, "default")
    return [label for planned in plan.scans for label in planned.scan.computed]


@pytest.mark.parametrize("call", one_in(15, _CALLS))
@pytest.mark.long
def test_same_values(catalog: MemoryCatalog, call: str) -> None:
    found, is_by_scan = _computed(f"SELECT {call} FROM t", catalog)
    expected, is_expected_by_scan = _computed(f"SELECT {call} FROM (SELECT * FROM t LIMIT 1000)", catalog)
    assert is_by_scan
    assert not is_expected_by_scan
    assert list(map(repr, found)) == list(map(repr, expected))


def test_arrays_of_other_sizes_fail_where_they_are_asked_for(catalog: MemoryCatalog) -> None:
    call = "arraySum((x, y) -> x + y, b, i)"
    assert _scanned(f"SELECT {call} FROM t", catalog)
    with pytest.raises(UserError, match="must have equal size") as raised:
        _computed(f"SELECT {call} FROM t", catalog)
    assert raised.value.code == 190
    alike = "WHERE length(b) = length(i)"
    found, _ = _computed(f"SELECT {call} FROM t {alike}", catalog)
    assert found == _computed(f"SELECT {call} FROM (SELECT * FROM t LIMIT 1000) {alike}", catalog)[0]
    assert found


def test_keys_that_have_no_room_beside_their_numbers() -> None:
    keys = np.array([5, 1 << 61, 5, 0, 1 << 61])
    most = (1 << 61) + 1
    assert sort_keys(keys, most).tolist() == [3, 0, 2, 1, 4]
    assert first_occurrences(keys, most).tolist() == [True, True, False, True, False]
    assert first_shared_occurrences(keys, np.array([1 << 61, 7]), most).tolist() == [False, True, False, False, False]
    others = np.array([7, 5, 5])
    assert set(select_shared_keys(keys, others, most, missing=False)) == {5}
    assert set(select_shared_keys(keys, others, most, missing=True)) == {7}
    assert set(select_shared_keys(np.array([1, 3]), np.array([0, 3]), 4, missing=True)) == {0}


def test_codes_keep_the_order() -> None:
    for values in ([2**64 - 1, None, 0, 5], [-3, 2, None, -3]):
        (coded,), most = value_codes(
            [pa.array(values, pa.uint64() if max(filter(None, values)) > 9 else pa.int32())], ranked=True
        )
        known = [value for value in values if value is not None]
        ranked = [code for value, code in zip(values, coded.tolist(), strict=True) if value is not None]
        assert [sorted(known).index(value) for value in known] == [sorted(ranked).index(code) for code in ranked]
        assert coded[values.index(None)] == most - 1 == max(coded)


_MAPS = [
    "map(w, k)", "map('a', k, w, 2)", "map('k', b)", "mapKeys(m)", "mapValues(m)", "m['a']", "m[w]",
    "mapContains(m, w)",
    "mapFilter((key, value) -> value > k, m)", "mapApply((key, value) -> (concat(key, w), value + k), m)",
    "mapFromArrays(b, same)", "mapFromArrays(arrayDistinct(b), arrayDistinct(b))",
    "mapContains(mapFromArrays(b, same), 3)",
]  # fmt: skip


@pytest.mark.parametrize("call", _MAPS)
def test_same_maps(catalog: MemoryCatalog, call: str) -> None:
    test_same_values(catalog, call)
