"""The list of known differences: a reason (``# …``) above lines of ``kind<TAB>query``.

``python -m tests.functions.known`` writes it anew (some minutes)."""

from __future__ import annotations

import re
import sys
import tempfile
from functools import cache
from pathlib import Path

QUICK_ROWS = 300
_PATH = Path(__file__).with_name("known_differences.txt")
_MATHEMATICS = (
    "exp|exp2|exp10|log|log2|log10|log1p|sin|cos|tan|asin|acos|atan|sinh|cosh|tanh|asinh|acosh|atanh|lgamma|tgamma|pow|"
    "hypot|atan2|cbrt"
)
# The first that fits: kind, pattern of the query, pattern of Pando's message, reason.
_REASONS = (
    ("refused", "", "no supertype", "ClickHouse answers with Int128, Int256 or a Variant, which Pando has not (386)"),
    ("refused", "", "DECIMAL_OVERFLOW", "The result has more digits than its Decimal (407): ClickHouse keeps them"),
    ("refused", "", "NOT_IMPLEMENTED", "Not implemented, and said so (48)"),
    ("refused", "", "", "Types or arguments that Pando's function does not take (43, 46)"),
    ("fails", "", "Failure in decode", "The result cuts a character in half: Strings are valid UTF-8 in Pando"),
    (
        "fails",
        "numbers|digits|dates|instants|'",
        "CANNOT_PARSE",
        "A text that ClickHouse reads more freely, or wraps around",
    ),
    ("fails", "", "", "A value that is refused by name, where ClickHouse wraps it around or answers a default"),
    ("answers", r"\bfs\b", "", "FixedString where ClickHouse takes only String"),
    ("answers", "", "", "Answered by the general rule where ClickHouse refuses the types or the value"),
    ("type", "", "", "The same values in another type"),
    ("", rf"SELECT (?:{_MATHEMATICS})\(", "", "More last digits than the bound: the argument is large, or a Decimal"),
    ("", r"\bd(?:18|38)\b", "", "A Decimal as a float, whose last digit differs (see queries.py)"),
    ("", "d32|dt3|dt6|dt9|'dt|dtb", "", "Times of other zones, or outside DateTime's range, beside each other"),
    ("", "accurateCastOrNull|CAST", "", "Conversions of borders"),
    ("", "", "", "Another value"),
)


@cache
def known_differences() -> dict[str, str]:
    """From a query to the kind of its difference."""
    result = {}
    for line in _PATH.read_text().splitlines() if _PATH.exists() else []:
        if line and not line.startswith("#"):
            kind, query = line.split("\t", 1)
            result[query] = kind
    return result


def _reason(kind: str, query: str, message: str) -> str:
    for wanted, in_query, in_message, reason in _REASONS:
        if wanted in ("", kind) and re.search(in_query, query) and re.search(in_message, message):
            return reason
    raise ValueError(kind)


def write(differences: list[tuple[str, str, str]]) -> None:
    """(kind, query, Pando's message) of all differences."""
    groups: dict[str, list[str]] = {reason: [] for *_, reason in _REASONS}
    for kind, query, message in differences:
        groups[_reason(kind, query, message)].append(f"{kind}\t{query}")
    lines = [line for reason, own in groups.items() if own for line in (f"# {reason} ({len(own)})", *sorted(own))]
    _PATH.write_text("\n".join(lines) + "\n")


def main(rows: int) -> None:
    from tests.functions.compare import Engines, kind_of, verdict
    from tests.functions.queries import all_queries, ulps_of

    differences = []
    with tempfile.TemporaryDirectory() as directory:
        engines = Engines(Path(directory), rows)
        for name, queries in all_queries().items():
            for query in queries:
                theirs, ours = engines.clickhouse(query), engines.pando(query)
                kind = kind_of(verdict(theirs, ours, ulps_of(name)))
                if kind != "same":
                    differences.append((kind, query, ours.message))
        engines.close()
    write(differences)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else QUICK_ROWS)
