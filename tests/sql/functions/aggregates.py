"""Which calls of aggregate and window functions are compared, as whole queries; templates as in ``calls``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.sql.functions.calls import KINDS, expanded, templates


def aggregate_calls(kinds: Mapping[str, str] = KINDS) -> dict[str, list[str]]:
    """The calls of every function."""
    result: dict[str, list[str]] = {}
    for names, own in templates("aggregates.txt"):
        for name in names:
            found = result.setdefault(name, [])
            found += [call for template in own for call in expanded(template.replace("@", name), kinds)]
    return result


def aggregate_queries() -> dict[str, list[str]]:
    """For every function: over groups, and over nothing."""
    result: dict[str, dict[str, None]] = {}
    for name, own in aggregate_calls().items():
        queries = result.setdefault(name, {})
        for call in own:
            queries[f"SELECT {call} AS r FROM t GROUP BY toUInt16(su8 % 4) ORDER BY toUInt16(su8 % 4)"] = None
            queries[f"SELECT {call} AS r FROM t WHERE id > 4000000000"] = None
    return {name: list(queries) for name, queries in result.items()}


def window_queries() -> list[str]:
    lines = Path(__file__).with_name("windows.txt").read_text().splitlines()
    calls = [call for line in lines for call in expanded(line)]
    whole = [call.replace(" FROM t", " AS r FROM t") if " FROM t" in call else f"{call} AS r FROM t" for call in calls]
    return [f"SELECT {call} ORDER BY id" for call in whole]
