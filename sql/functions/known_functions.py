"""What ClickHouse says of the functions that Pando has, as data: ``functions.tsv``, written by
``tests/functions/generate.py`` from ClickHouse.

A line has a name, 1 if upper and lower case are the same there, the name it is an alias of, its categories and its
syntax (with ``\\n`` for a line feed).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class KnownFunction:
    any_case: bool
    alias_to: str
    categories: str
    syntax: str


@cache
def known_functions() -> Mapping[str, KnownFunction]:
    lines = files(__package__).joinpath("functions.tsv").read_text(encoding="utf-8").splitlines()
    rows = (line.replace("\\n", "\n").split("\t") for line in lines)
    return {name: KnownFunction(case == "1", *rest) for name, case, *rest in rows}
