"""Writes the generated documents anew: ``python -m tests.documents.generate``.

Each page is a module beside this one with ``text()``; the packages of ``ARCHITECTURE.md`` stand between two marks.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.documents import package_list
from tests.documents.blocks import ROOT

PAGES: dict[str, Callable[[], str]] = {"ARCHITECTURE.md": package_list.text}
"""Every document that is generated, wholly or in part: its path, and what makes its text."""

if __name__ == "__main__":
    for path, make in PAGES.items():
        (ROOT / path).write_text(make(), encoding="utf-8")
