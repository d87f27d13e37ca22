"""Writes ``sql/functions/functions.tsv`` anew from chdb's ClickHouse: ``python -m tests.sql.functions.generate``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from chdb.session import Session

import sql.compile.expressions.function_library  # noqa: F401  (it fills the table of functions)
from sql.aggregates.window_names import WINDOW_FUNCTIONS
from sql.compile.expressions.function_library import FUNCTION_FAMILIES
from sql.compile.expressions.special_forms import SPECIAL_FORMS
from sql.functions.registry import (
    find_rule,
    list_functions,
)

TARGET = Path(__file__).parents[3] / "sql" / "functions" / "functions.tsv"
_UNKNOWN = r"Code: (46|63)\b"
"""The codes of ClickHouse for a function and an aggregate function that it does not have."""
_OWN = {
    "currentPosition": "currentPosition('db.table')",
    "inSyncClusters": "inSyncClusters('db.table', position)",
    "lastCut": "lastCut('db.table')",
}
"""Functions of Pando's own, with their syntax."""


def _answers(session: Session, name: str) -> bool:
    """Whether a call is refused, if at all, for another reason than that nobody knows the name."""
    for arguments in ("", "1"):
        try:
            session.query(f"SELECT {name}({arguments}) FORMAT Null")
        except RuntimeError as error:
            if re.search(_UNKNOWN, str(error)):
                continue
        return True
    return False


def lines() -> Iterator[str]:
    """One a function, sorted. Raises :class:`AssertionError` for a name that ClickHouse does not have."""
    assert FUNCTION_FAMILIES, "importing them has filled the table of functions"
    session = Session()
    listed = {}
    answer = session.query("SELECT name, alias_to, categories, syntax FROM system.functions", "JSONCompactEachRow")
    for line in answer.bytes().decode().splitlines():
        name, *rest = json.loads(line)
        listed[name] = rest
    forms = {name for name in (*SPECIAL_FORMS, *WINDOW_FUNCTIONS) if name in listed}
    for name in sorted(forms | {name for name, _ in list_functions()}):
        if name in _OWN:
            yield "\t".join((name, "0", "", "Other", _OWN[name]))
            continue
        assert name in listed or _answers(session, name), f"ClickHouse has no {name}"
        rule = find_rule(name)
        alias, categories, syntax = listed.get(name, (rule.name if rule and rule.name != name else "", "", ""))
        any_case = all(_answers(session, other) for other in (name.lower(), name.upper()))
        escaped = syntax.strip().replace("\t", "    ").replace("\n", "\\n")
        yield "\t".join((name, str(int(any_case)), alias, categories, escaped))
    session.close()


if __name__ == "__main__":
    TARGET.write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")
