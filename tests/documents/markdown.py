"""Docstrings as Markdown, and tables of it."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.documents.blocks import ROOT

GENERATED = "<!-- python -m tests.documents.generate writes this page -->\n"
_ROLE = re.compile(r":\w+:`~?([^`]+)`")
_RULE = re.compile(r"=+( +=+)+")


def plain(text: str) -> str:
    """A sentence of a docstring: its code in single backquotes."""
    return _ROLE.sub(r"`\1`", text).replace("``", "`").replace("`|`", "the bar")


def cell(text: str) -> str:
    """A cell of a table: one line, without bars of its own."""
    return " ".join(plain(text).split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(cell(each) for each in row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def read_docstring(path: str) -> str:
    """Of a module or package of the repository, by its path."""
    file = ROOT / path
    file = file / "__init__.py" if file.is_dir() else file
    return ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""


def convert_docstring(text: str) -> str:
    """Markdown of a docstring: what stands behind ``::`` and tables of text become blocks."""
    parts: list[str] = []
    blocks = re.split(r"\n\n+", text.strip("\n"))
    while blocks:
        block = blocks.pop(0)
        if _RULE.match(block):
            parts.append(_fenced(block))
        elif block.startswith("    "):
            while blocks and blocks[0].startswith("    "):
                block += "\n\n" + blocks.pop(0)
            parts.append(_fenced(textwrap.dedent(block)))
        elif block.strip() != "::":
            parts.append(plain(re.sub(r"::$", ":", block)))
    return "\n\n".join(parts) + "\n"


def _fenced(text: str) -> str:
    return f"```text\n{text}\n```"


def read_field_docs(owner: type) -> dict[str, str]:
    """The docstring below each annotated field of a class, those that it inherits too."""
    found: dict[str, str] = {}
    for each in reversed(owner.__mro__):
        if each.__module__.split(".")[0] in ("engine", "sql", "parts", "coordination"):
            found |= dict(_fields_of(each))
    return found


def _fields_of(owner: type) -> Iterator[tuple[str, str]]:
    file = Path(inspect.getsourcefile(owner) or "")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    (body,) = [node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == owner.__name__]
    for field, told in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(told, ast.Expr):
            yield field.target.id, " ".join(str(ast.literal_eval(told.value)).split())
