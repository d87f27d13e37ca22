r"""ClickHouse's facts about the functions that Pando has, read from ``functions.tsv``.

``tests/sql/functions/generate.py`` writes that file from ClickHouse. A line has a name, 1 if it is case-insensitive,
the name it is an alias of, its categories and its syntax (with ``\\n`` for a line feed).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class KnownFunction:
    """One line of ``functions.tsv``."""

    any_case: bool
    alias_to: str
    categories: str
    syntax: str


@cache
def known_functions() -> Mapping[str, KnownFunction]:
    """Returns the functions by name."""
    lines = files(__package__).joinpath("functions.tsv").read_text(encoding="utf-8").splitlines()
    rows = (line.replace("\\n", "\n").split("\t") for line in lines)
    return {name: KnownFunction(case == "1", *rest) for name, case, *rest in rows}
