"""All queries of the sweep by function, and how near its floats must be."""

from __future__ import annotations

from tests.sql.functions.aggregates import aggregate_queries, window_queries
from tests.sql.functions.calls import calls

_LIBRARY = """cbrt exp exp2 exp10 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
    degrees radians lgamma tgamma pow atan2 hypot"""
_SUMS = """sum sumKahan avg avgWeighted stddevPop stddevSamp varPop varSamp covarPop covarSamp corr entropy quantile
    median quantiles arraySum arrayAvg arrayCumSum window"""
_DECIMALS = "plus minus multiply divide CAST toFloat64 toFloat32 sqrt modulo"
_ULPS = {
    # Of the C library and of ClickHouse's own approximations: the last digits depend on the implementation.
    **dict.fromkeys(_LIBRARY.split(), 4),
    # Sums of floats in another order of addition.
    **dict.fromkeys(_SUMS.split(), 64),
    # A Decimal becomes a float by one division in ClickHouse, in two halves in DuckDB.
    **dict.fromkeys(_DECIMALS.split(), 2),
}


def ulps_of(name: str) -> int:
    """The bound of the distance of floats, in units of the last place; 0 for exactly equal."""
    return _ULPS.get(name, 0)


def all_queries() -> dict[str, list[str]]:
    scalar = {name: [f"SELECT {call} AS r FROM t" for call in own] for name, own in calls().items()}
    return {**scalar, **aggregate_queries(), "window": window_queries()}
