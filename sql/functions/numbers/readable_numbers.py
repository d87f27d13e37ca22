"""Functions that format numbers for people, ``formatReadableSize`` and others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from parts.types import DecimalType
from sql.functions.registry import Call, define
from sql.typing.duckdb.bound_values import bind_value
from sql.typing.duckdb.macro_weights import define_macros
from sql.typing.duckdb.sql_fragments import Fragment, fragment
from sql.typing.result_types import is_number
from sql.typing.typed_expressions import STRING, Typed

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB")
_DECIMAL = ("B", "KB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB")
_QUANTITIES = (
    "", "thousand", "million", "billion", "trillion", "quadrillion", "quintillion", "sextillion", "septillion",
    "octillion", "nonillion", "decillion", "undecillion", "duodecillion", "tredecillion", "quattuordecillion",
    "quindecillion", "sexdecillion", "septendecillion", "octodecillion", "novemdecillion", "vigintillion",
)  # fmt: skip


def _build_readable(step: int, units: Sequence[str]) -> Callable[[Call], Typed]:
    """Builds a function that divides a value by ``step`` until it is below it or the units end."""

    def body(value: Fragment) -> Fragment:
        divided = [f"{{x}}{f' / {step}.0' * times}" for times in range(len(units))]
        texts = [f"'{{{{:.2f}}}}{unit and ' '}{unit}'" for unit in units]
        written = [f"format({text}, pando_half_up({number}))" for text, number in zip(texts, divided, strict=True)]
        arms = " ".join(
            f"WHEN isnan({{x}}) OR abs({number}) < {step} THEN {text}"
            for number, text in zip(divided, written, strict=True)
        )
        return fragment(f"(CASE WHEN {{x}} IS NULL THEN NULL {arms} ELSE {written[-1]} END)", x=value)

    def build(call: Call) -> Typed:
        (value,) = call.args
        if not is_number(value.type) and not isinstance(value.type, DecimalType):
            raise call.wrong_type(0, "a number")
        return Typed(bind_value(fragment("CAST({} AS DOUBLE)", value.number), "r", body), STRING)

    return build


define("formatReadableSize FORMAT_BYTES", _build_readable(1024, _BINARY), 1)
define("formatReadableDecimalSize", _build_readable(1000, _DECIMAL), 1)
define("formatReadableQuantity", _build_readable(1000, _QUANTITIES), 1)

MACROS = define_macros(  # DuckDB rounds exact halves of a hundredth to even, ClickHouse away from zero
    r"""pando_half_up(x) AS x + CASE WHEN abs(x) < 1e12 AND x * 8 = trunc(x * 8) AND (x * 8) % 2 <> 0
        THEN sign(x) * 0.001 ELSE 0 END""",
)
