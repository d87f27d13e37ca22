"""``docs/functions.md``: every function, by what it is for."""

from __future__ import annotations

from collections import defaultdict

import sql.compile.expressions.function_library  # noqa: F401  (it fills the table of functions)
from sql.aggregates.combinators import COMBINATORS
from sql.aggregates.window_names import WINDOW_FUNCTIONS
from sql.compile.from_clause.table_functions import table_function_names
from sql.functions.known_functions import known_functions
from sql.functions.registry import find_aggregate, find_rule, list_functions
from tests.documents.markdown import GENERATED, table

_INTRODUCTION = """# Functions

{count} names. A function that is not here is refused (46) and never guessed. `SELECT name, syntax, alias_to FROM
system.functions` shows the same list. What a function does stands in ClickHouse's documentation; where Pando answers
otherwise, [Differences](differences.md) says so. Names that any case may spell are marked with \\*.

Operators are functions too (`a + b` is `plus(a, b)`), and so are `CASE`, `IN`, `BETWEEN`, `LIKE`, `EXTRACT`,
`INTERVAL` and `CAST`.

"""


def _syntax(name: str) -> str:
    lines = known_functions()[name].syntax.split("\n") if name in known_functions() else []
    shown = [line.strip().rstrip(";") for line in lines if line.strip() and not line.strip().startswith("--")]
    return "; ".join(f"`{line.replace('`', '')}`" for line in shown[:3])


def _rows(names: list[str], others: dict[str, list[str]]) -> list[tuple[str, str, str]]:
    known = known_functions()
    return [
        (
            f"`{name}`" + (" \\*" if name in known and known[name].any_case else ""),
            _syntax(name),
            ", ".join(f"`{other}`" for other in sorted(others[name])),
        )
        for name in sorted(names, key=str.lower)
    ]


def _canonical(name: str) -> str:
    """The name under which a function is listed: ClickHouse's, or that of another one with the same rule here."""
    known = known_functions()
    if name in known and known[name].alias_to in known:
        return known[name].alias_to
    rule = find_aggregate(name) or find_rule(name)
    return rule.name if rule and rule.name in known and not known[rule.name].alias_to else name


def text() -> str:
    known = known_functions()
    aggregates = {name for name, is_aggregate in list_functions() if is_aggregate}
    others: dict[str, list[str]] = defaultdict(list)
    families: dict[str, list[str]] = defaultdict(list)
    for name in sorted({*known, *(name for name, _ in list_functions())}):
        canonical = _canonical(name)
        if canonical != name:
            others[canonical].append(name)
        elif name in aggregates:
            families["Aggregate functions"].append(name)
        elif name in WINDOW_FUNCTIONS:
            families["Window functions"].append(name)
        else:
            families[known[name].categories or "Other"].append(name)
    head = ("function", "syntax", "the same here")
    pages = [f"## {family}\n\n{table(head, _rows(names, others))}" for family, names in sorted(families.items())]
    combinators = ", ".join(f"`-{name}`" for name in sorted(COMBINATORS))
    used = "They stand behind a name: `sumIf`, `uniqArrayIf`."
    functions = ", ".join(f"`{name}`" for name in sorted(table_function_names()))
    return "\n".join(
        [
            GENERATED + _INTRODUCTION.format(count=len({*known, *(name for name, _ in list_functions())})),
            *pages,
            f"## Combinators of aggregate functions\n\n{combinators}. {used}\n",
            f"## Table functions\n\n{functions}\n",
        ]
    )
