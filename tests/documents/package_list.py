"""The list of packages in ``ARCHITECTURE.md``: one line each, the first sentence of the package's docstring."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.documents.blocks import ROOT

DOCUMENT = ROOT / "ARCHITECTURE.md"
TOP = ("engine", "recovery", "sql", "coordination", "parts", "spark_connector", "benchmarks", "demo", "examples")
FAMILIES = ("sql/formats", "sql/functions", "sql/typing")
"""Packages whose folders have names that say what is in them: one line for all."""
_BEGIN, _END = "<!-- packages -->\n", "<!-- end of packages -->\n"


def list_packages(top: str) -> Iterator[Path]:
    """The folders of modules below a folder of the repository, and itself, sorted; relative to the repository."""
    found = (ROOT / top).rglob("__init__.py")
    return iter(sorted(file.parent.relative_to(ROOT) for file in found))


def read_first_sentence(package: Path) -> str:
    """Of the package's docstring, on one line. Raises :class:`AssertionError` if there is none."""
    told = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8")))
    assert told, f"{package} has no docstring"
    paragraph = " ".join(told.split("\n\n")[0].split())
    return re.split(r"(?<=[.:;])\s+(?=[A-Z])|;\s", paragraph)[0].rstrip(".:").replace("``", "`")


def _line(package: Path, packages: Sequence[Path]) -> str:
    inner = [str(each) for each in packages if package in each.parents] if str(package) in FAMILIES else []
    folders = f" Its folders: {', '.join(f'`{each}`' for each in inner)}." if inner else ""
    return f"- `{package}`: {read_first_sentence(package)}.{folders}"


def text() -> str:
    """The document with its list of packages made anew."""
    packages = [package for top in TOP for package in list_packages(top)]
    listed = [each for each in packages if not any(str(above) in FAMILIES for above in each.parents)]
    lines = [_line(package, packages) for package in listed]
    before, rest = DOCUMENT.read_text(encoding="utf-8").split(_BEGIN)
    return "".join([before, _BEGIN, *(f"{line}\n" for line in lines), _END, rest.split(_END)[1]])
