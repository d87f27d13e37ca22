"""``ARCHITECTURE.md`` names what there is, and all of it; generated documents are what their generator makes."""

from __future__ import annotations

import ast
import re

import pytest

from tests.documents.blocks import ROOT
from tests.documents.generate import PAGES
from tests.documents.package_list import DOCUMENT, TOP, list_packages

_NAMED = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", DOCUMENT.read_text(encoding="utf-8"), flags=re.DOTALL))
_TOPS = (*TOP, "tests")
_PATHS = sorted({name for name in _NAMED if re.fullmatch(rf"(?:{'|'.join(_TOPS)})(?:/[\w.]+)*", name)})
_FUNCTIONS = re.findall(r"`([\w/]+\.py)` \(`(\w+)`\)", DOCUMENT.read_text(encoding="utf-8"))


def test_every_path_of_the_architecture_exists() -> None:
    assert len(_PATHS) > 200
    assert not [path for path in _PATHS if not (ROOT / path).exists()]


@pytest.mark.parametrize(("path", "function"), _FUNCTIONS)
def test_a_function_of_the_architecture_exists(path: str, function: str) -> None:
    nodes = ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
    assert function in {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


def test_every_module_that_is_named_is_a_path() -> None:
    """A bare ``module.py`` would be looked for in vain after the next move."""
    assert not [name for name in _NAMED if name.endswith(".py") and name not in _PATHS]


@pytest.mark.parametrize("top", _TOPS)
def test_every_package_is_named(top: str) -> None:
    assert not [str(package) for package in list_packages(top) if str(package) not in _PATHS]


@pytest.mark.xdist_group("pages")
@pytest.mark.parametrize("path", PAGES)
def test_the_page_is_what_its_generator_makes(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == PAGES[path](), "python -m tests.documents.generate"
