"""What the generated pages must tell."""

from __future__ import annotations

import pytest

from parts.common.errors import CODES
from sql.functions.registry import list_functions
from sql.settings.merge_tree_settings import SUPPORTED_MERGE_TREE_SETTINGS
from sql.settings.supported_settings import SUPPORTED_SETTINGS
from tests.documents.error_meanings import MEANINGS
from tests.documents.errors_page import find_raised
from tests.documents.generate import PAGES

pytestmark = pytest.mark.xdist_group("pages")
"""The page of errors is made once in a process."""


def test_every_error_that_the_code_raises_is_on_the_page() -> None:
    page, raised = PAGES["docs/errors.md"](), find_raised()
    assert len(raised) > 150
    assert not [name for name in raised if f"| {CODES[name]} | `{name}` |" not in page]


def test_meanings_are_of_errors_that_there_are() -> None:
    assert not MEANINGS.keys() - CODES.keys()


def test_every_setting_that_has_an_effect_is_on_the_page() -> None:
    page = PAGES["docs/settings.md"]()
    assert not [name for name in {*SUPPORTED_SETTINGS, *SUPPORTED_MERGE_TREE_SETTINGS} if f"| `{name}` |" not in page]


def test_every_function_is_on_the_page() -> None:
    page = PAGES["docs/functions.md"]()
    assert not [name for name, _ in list_functions() if f"`{name}`" not in page]


def test_every_node_has_a_meaning() -> None:
    assert not [
        line for line in PAGES["docs/formats.md"]().splitlines() if line.startswith("| `<root>") and "|  |" in line
    ]
