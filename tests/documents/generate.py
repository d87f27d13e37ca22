"""Writes the generated documents anew: ``python -m tests.documents.generate``.

Each page is a module beside this one with ``text()``; the packages of ``ARCHITECTURE.md`` stand between two marks.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.documents import (
    configuration_page,
    errors_page,
    formats_page,
    functions_page,
    package_list,
    settings_page,
)
from tests.documents.blocks import ROOT

PAGES: dict[str, Callable[[], str]] = {
    "ARCHITECTURE.md": package_list.text,
    "docs/configuration.md": configuration_page.text,
    "docs/errors.md": errors_page.text,
    "docs/formats.md": formats_page.text,
    "docs/functions.md": functions_page.text,
    "docs/settings.md": settings_page.text,
}
"""Every document that is generated, wholly or in part: its path, and what makes its text."""

if __name__ == "__main__":
    for path, make in PAGES.items():
        (ROOT / path).write_text(make(), encoding="utf-8")
