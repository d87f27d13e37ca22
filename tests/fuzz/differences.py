"""Random queries answer what ClickHouse (chdb) answers, or differ as ``accepted_differences.txt`` says.

What Pando refuses by name, and what ClickHouse refuses, is no difference; a text of DuckDB's that reaches the user is.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from parts.common.errors import PandoError
from tests.alter.following import Answering, Pando
from tests.fuzz.random_queries import Queries, statements
from tests.fuzz.runner import COMPARED
from tests.sql.oracle import Oracle

SECONDS = 30
_NOT_OURS = re.compile(r"(?:Binder|Catalog|Parser|Conversion|Internal|Invalid Input|Out of Range) Error")
_FLOAT = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


@cache
def accepted(name: str) -> list[tuple[str, re.Pattern[str]]]:
    """The reason of each accepted difference in the file ``accepted_<name>.txt``, and a pattern of what may differ."""
    found, reason = [], ""
    for line in Path(__file__).with_name(f"accepted_{name}.txt").read_text().splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line:
            found.append((reason, re.compile(line)))
    return found


def shown(seed: int) -> str:
    return Queries(seed).query()


@contextlib.contextmanager
def opened() -> Iterator[Callable[[int], str]]:
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        oracle = Oracle()
        stack.callback(oracle.close)
        pando = Pando(Path(directory))
        stack.callback(pando.stop)
        for statement in statements():
            oracle.query(statement)
            pando.query(statement)

        yield lambda seed: compare(oracle, pando, shown(seed))


def compare(oracle: Oracle, pando: Answering, query: str) -> str:
    """Raises ``AssertionError`` where the answers differ and nothing says that they may."""
    if any(pattern.search(query) for _, pattern in accepted("differences")):
        return "skipped: an accepted difference"
    ours = _answer(pando, query)
    if isinstance(ours, PandoError):
        if _NOT_OURS.search(str(ours)):
            raise AssertionError(f"DuckDB's text reaches the user: {ours}")
        return "refused by Pando"
    try:
        theirs = oracle.query(query)
    except RuntimeError:
        return "refused by ClickHouse alone"
    left, right = _rows(theirs), _rows(ours)
    if left == right:
        return COMPARED
    only_theirs = [line for line in left if line not in set(right)]
    only_ours = [line for line in right if line not in set(left)]
    raise AssertionError(f"ClickHouse {len(left)} rows: {only_theirs[:3]}\nPando {len(right)} rows: {only_ours[:3]}")


def _answer(pando: Answering, query: str) -> bytes | PandoError:
    try:
        return pando.query(query)
    except PandoError as error:
        return error


def _rows(text: bytes) -> list[str]:
    """The rows in an order of their own, floats with the digits that do not depend on the order of a sum."""
    return sorted(_FLOAT.sub(_rounded, line) for line in text.decode(errors="replace").splitlines())


def _rounded(number: re.Match[str]) -> str:
    written = number[0]
    return f"{float(written):.9g}" if "." in written or "e" in written else written
