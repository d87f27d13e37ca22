"""The list of known differences: a reason (``# …``) above lines of ``kind<TAB>query``.

A kind is that over few rows and over many; where they differ both stand there, as ``few/many``: ``same/differs`` is a
difference only over many rows. ``python -m tests.sql.functions.known`` writes the list anew over few rows (minutes),
``… known 200000`` over many, and ``… known 300 round floor`` for some functions only."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

QUICK_ROWS = 300
_FUNCTIONS_A_PROCESS = 20
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
    (
        "differs",
        r"SELECT (?:any|anyLast|argMin|argMax|groupArray|groupConcat)(?:If|OrNull)?\(",
        "",
        "Whose value of many, or in which order, is not said: the rows come as threads read them",
    ),
    (
        "differs",
        r"SELECT (?:quantiles?|median|quantileDeterministic|medianDeterministic|uniqCombined(?:64)?)(?:If|OrNull)?\(",
        "",
        "An estimate from a sample or a sketch, where Pando counts exactly or takes another sample",
    ),
    (
        "differs",
        r"SELECT (?:corr|covar|stddev|var)\w*\(",
        "",
        "The last digits of sums that are added up in another order",
    ),
    (
        "differs",
        r"SELECT (?:array(?:Compact|Distinct|Uniq|Min|Max)\(.*af\)|uniqExact\(.*f64|arraySort\(groupUniqArray\(s?n?f)",
        "",
        "0 and -0 are one value, where ClickHouse tells them apart",
    ),
    ("", rf"SELECT (?:{_MATHEMATICS})\(", "", "More last digits than the bound: the argument is large, or a Decimal"),
    ("", r"\bd(?:18|38)\b", "", "A Decimal as a float, whose last digit differs (see queries.py)"),
    ("", "d32|dt3|dt6|dt9|'dt|dtb", "", "Times of other zones, or outside DateTime's range, beside each other"),
    ("", "accurateCastOrNull|CAST", "", "Conversions of borders"),
    ("", "", "", "Another value"),
)


Found = dict[str, tuple[str, str]]
"""From a query that was compared to its kind, ``same`` too, and to Pando's message."""


@cache
def known_differences(many: bool = False) -> dict[str, str]:
    """From a query to the kind of its difference, over few rows or over many."""
    return {query: kinds[many] for query, (kinds, _) in _listed().items() if kinds[many] != "same"}


def _listed() -> dict[str, tuple[tuple[str, str], str]]:
    """From a query to its kinds over few rows and over many, and to the reason above it."""
    result, reason = {}, ""
    for line in _PATH.read_text().splitlines() if _PATH.exists() else []:
        if line.startswith("# "):
            reason = line[2:].rpartition(" (")[0]
        elif line:
            kinds, query = line.split("\t", 1)
            few, _, many = kinds.partition("/")
            result[query] = ((few, many or few), reason)
    return result


def _reason(kind: str, query: str, message: str) -> str:
    for wanted, in_query, in_message, reason in _REASONS:
        if wanted in ("", kind) and re.search(in_query, query) and re.search(in_message, message):
            return reason
    raise ValueError(kind)


def merged(old: tuple[str, str], kind: str, many: bool) -> tuple[str, str]:
    """The kinds when a query was compared again: the same over many rows is so over few; what was never different
    between them is not now."""
    few, more = old
    if many:
        return ("same" if kind == "same" else few, kind)
    return (kind, kind if few == more else more)


def write(found: Found, many: bool, queries: set[str]) -> None:
    """Brings the list up to date: what was not compared stays, and what is not among ``queries`` goes."""
    groups: dict[str, list[str]] = {reason: [] for *_, reason in _REASONS}
    listed = {query: entry for query, entry in _listed().items() if query in queries}
    for query in {**listed, **found}:
        kinds, reason = listed.get(query, (("same", "same"), ""))
        if query in found:
            kind, message = found[query]
            kinds = merged(kinds, kind, many)
            different = [kind for kind in kinds if kind != "same"]
            if different and (message or not reason):
                reason = _reason(different[0], query, message)
        if kinds != ("same", "same"):
            groups[reason].append(f"{kinds[0] if kinds[0] == kinds[1] else '/'.join(kinds)}\t{query}")
    lines = [line for reason, own in groups.items() if own for line in (f"# {reason} ({len(own)})", *sorted(own))]
    _PATH.write_text("\n".join(lines) + "\n")


def main(rows: int, names: list[str]) -> None:
    """Prints every difference, and how long each function took; the list is up to date behind each."""
    from tests.sql.functions.compare import Engines, kind_of
    from tests.sql.functions.queries import all_queries, ulps_of

    every = all_queries()
    asked = {query for queries in every.values() for query in queries}
    with tempfile.TemporaryDirectory() as directory:
        engines = Engines(Path(directory), rows)
        for name in names:
            began = time.monotonic()
            found: Found = {}
            for query in every[name]:
                compared = engines.compared(query, ulps_of(name))
                found[query] = (kind_of(compared.verdict), compared.message)
                if found[query][0] != "same":
                    print(f"{compared.verdict}: {query}: {compared.detail}", flush=True)
            write(found, rows > QUICK_ROWS, asked)
            print(f"# {name}: {len(found)} calls, {time.monotonic() - began:.1f} s", flush=True)
        engines.close()


def in_processes(rows: int) -> None:
    """Every function; what a call over many rows has taken, a process gives back only when it ends."""
    from tests.sql.functions.queries import all_queries

    names = list(all_queries())
    for start in range(0, len(names), _FUNCTIONS_A_PROCESS):
        batch = names[start : start + _FUNCTIONS_A_PROCESS]
        subprocess.run([sys.executable, "-m", "tests.sql.functions.known", str(rows), *batch], check=True)


if __name__ == "__main__":
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else QUICK_ROWS
    if sys.argv[2:]:
        main(rows, sys.argv[2:])
    else:
        in_processes(rows)
