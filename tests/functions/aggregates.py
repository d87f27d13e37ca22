"""Which calls of aggregate and window functions are compared, as whole queries; templates as in ``calls``."""

from __future__ import annotations

from pathlib import Path

from tests.functions.calls import expanded, templates


def aggregate_queries() -> dict[str, list[str]]:
    """For every function: over groups, and over nothing."""
    result: dict[str, dict[str, None]] = {}
    for names, own in templates("aggregates.txt"):
        for name in names:
            queries = result.setdefault(name, {})
            for call in [call for template in own for call in expanded(template.replace("@", name))]:
                queries[f"SELECT {call} AS r FROM t GROUP BY toUInt16(su8 % 4) ORDER BY toUInt16(su8 % 4)"] = None
                queries[f"SELECT {call} AS r FROM t WHERE id > 4000000000"] = None
    return {name: list(queries) for name, queries in result.items()}


def window_queries() -> list[str]:
    lines = Path(__file__).with_name("windows.txt").read_text().splitlines()
    calls = [call for line in lines for call in expanded(line)]
    whole = [call.replace(" FROM t", " AS r FROM t") if " FROM t" in call else f"{call} AS r FROM t" for call in calls]
    return [f"SELECT {call} ORDER BY id" for call in whole]
