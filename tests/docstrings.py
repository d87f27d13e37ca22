"""``python -m tests.docstrings [folder …]``: looks at the docstrings of the product, as ``make lint`` does.

A first line is one sentence of at most 100 characters and says what the thing does or is; a sentence has at most 30
words; of the public names at most 15 % have no docstring, those where name and types say all.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGES = ("engine", "coordination", "parts", "sql", "recovery", "spark_connector")
MOST_CHARACTERS = 100
MOST_WORDS = 30
MOST_BARE = 0.15
_OPENINGS = re.compile(
    r"(Of|Who|Whose|Whom|Those|That|What|Which|Where|When|It|They|Makes no|Does|Has|Is|Are|As|In|For|By|To|From|With)\b"
)
"""A docstring that opens so does not say what the thing does: it must be read twice."""
_SENTENCE_END = re.compile(r"(?<=[.:;])\s+")
_WORDS_TO_AVOID = re.compile(r"\b(whoever|whatever it be|let go of by|hears of it|slept)\b")
_Documented = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Finding(NamedTuple):
    place: str
    fault: str


def public_names(file: Path) -> Iterator[tuple[str, _Documented]]:
    """The module and its public classes and functions, with ``file:line name``."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module):
            yield f"{file.relative_to(ROOT)}:1", node
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield f"{file.relative_to(ROOT)}:{node.lineno} {node.name}", node


def faults(node: _Documented, text: str) -> Iterator[str]:
    """What is wrong with a docstring."""
    first = text.splitlines()[0]
    if len(first) > MOST_CHARACTERS:
        yield f"the first line has {len(first)} characters, at most {MOST_CHARACTERS}"
    if not isinstance(node, ast.Module) and _OPENINGS.match(first):
        yield f"it opens with {first.split()[0]!r}: say first what the thing does"
    for sentence in _sentences(text):
        if len(sentence.split()) > MOST_WORDS:
            yield f"a sentence has {len(sentence.split())} words, at most {MOST_WORDS}: {sentence[:60]} …"
    if found := _WORDS_TO_AVOID.search(text):
        yield f"the word {found.group()!r}"


def _sentences(text: str) -> Iterator[str]:
    """Yields the sentences, without tables and the examples of a command's help (after a backspace)."""
    for paragraph in text.split("\n\n"):
        if not paragraph.lstrip("\n ").startswith(("===", "\b")):
            yield from _SENTENCE_END.split(" ".join(paragraph.split()))


def look(files: Iterator[Path]) -> tuple[list[Finding], int, int]:
    """The faults, how many public names there are, and how many have no docstring."""
    found: list[Finding] = []
    names = bare = 0
    for file in files:
        for place, node in public_names(file):
            names += 1
            text = ast.get_docstring(node)
            if text:
                found += [Finding(place, fault) for fault in faults(node, text)]
            else:
                bare += 1
    return found, names, bare


def main(folders: list[str]) -> int:
    files = (file for folder in folders or PACKAGES for file in sorted((ROOT / folder).rglob("*.py")))
    found, names, bare = look(files)
    for finding in found:
        print(f"{finding.place}: {finding.fault}")
    print(f"{len(found)} faults; {bare} of {names} public names have no docstring ({bare / names:.0%})")
    return int(bool(found) or (not folders and bare > MOST_BARE * names))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
