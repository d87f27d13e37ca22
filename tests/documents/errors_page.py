"""``docs/errors.md``: every error code, what it means here, and what to do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from parts.common.errors import CODES
from tests.documents.blocks import ROOT
from tests.documents.error_meanings import MEANINGS
from tests.documents.markdown import GENERATED, table

_PACKAGES = ("engine", "recovery", "sql", "coordination", "parts", "spark_connector")
_LONGEST = 140
_INTRODUCTION = """# Errors

Codes and names are ClickHouse's. An answer over HTTP has the code in the header `X-ClickHouse-Exception-Code`, and
`Code: 60. DB::Exception: … (UNKNOWN_TABLE)` as its text. `SELECT * FROM system.errors` counts those of a server since
its start.

What may be done next depends on the kind of error, not on its code:

| kind | what to do |
|---|---|
| the request is wrong | change it |
| somebody else was first (384, 388, 517) | look again, then send it again |
| a service is away (225, 242, 243, 252, 999) | send it again later |
| the outcome is unknown (319, 341, 659) | 319 and 659: send the same again; 341: wait |
| bytes have changed (40, 74, 226, 246) | [Recovery](recovery.md) |
| somebody ended it (394, 236) | nothing |

"""


@cache
def find_raised() -> dict[str, str]:
    """Name of an error → a message with which the code raises it; empty where the message is not beside the name."""
    found: dict[str, str] = {}
    for package in _PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            if file.name == "errors.py" and file.parent.name == "common":
                continue
            for name, message in _names_in(ast.parse(file.read_text(encoding="utf-8"))):
                found[name] = found.get(name) or message
    return found


def _names_in(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in CODES:
            yield str(node.value), ""
        if isinstance(node, ast.Call) and len(node.args) > 1:
            name = getattr(node.args[0], "value", None)
            if isinstance(name, str) and name in CODES:
                yield name, _message(node.args[1])


def _message(node: ast.expr) -> str:
    """A literal, its values as ``…``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value
    elif isinstance(node, ast.JoinedStr):
        text = "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values)
    else:
        return ""
    text = re.sub(r"…+", "…", " ".join(text.split()))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST].rsplit(' ', 1)[0]} …"


def text() -> str:
    raised = find_raised()
    rows = []
    for name, code in sorted(CODES.items(), key=lambda item: item[1]):
        meaning, remedy = MEANINGS.get(name, (f"“{raised.get(name)}”" if raised.get(name) else "", ""))
        rows.append((str(code), f"`{name}`", meaning or "As in ClickHouse.", remedy or "Read the message."))
    return f"{GENERATED}{_INTRODUCTION}{table(('code', 'name', 'what it means', 'what to do'), rows)}"
