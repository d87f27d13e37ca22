"""The request ``/links/cut``, by which a group of links asks for the next cut of all its tables.

::

    {"tables": [{as in "changes"}, …], "max_rows": …, "max_bytes": …, "wait_seconds": …, "joins": false,
     "idle": false, "mark": "…"}
    → {"place": 4711, "frontier": 4720, "answers": [{as in "changes"}, …], "mark": "…"}

The answers are in the order of the tables, each with all changes up to ``place``; none if there is nothing new.
``frontier`` is the largest zxid that all tables allow at once. ``mark`` is what the server had noticed of the tables
when there was nothing new: a group that has the same since sends it along, and the server looks at no table before it
has noticed more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.links.exchange.fields import Document, get_flag, get_number, get_objects, get_seconds, get_text
from engine.links.exchange.protocol import (
    MAX_BATCH_BYTES,
    MAX_BATCH_ROWS,
    MAX_WAIT_SECONDS,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
    get_table_name,
)
from engine.tables.capabilities.table_links import ChangesAnswer, ChangesRequest
from parts.common.errors import UserError


@dataclass(frozen=True, slots=True)
class CutRequest:
    """A group's question for its next cut: by table's database and name what its link has."""

    tables: Sequence[tuple[tuple[str, str], ChangesRequest]]
    max_rows: int
    max_bytes: int
    wait_seconds: float
    joins: bool = False
    """A table enters the group, or its source is being switched over: a cut is needed even if nothing changed."""
    takes_idle: bool = False
    """Whether a cut is wanted behind commits that are no changes, such as merges: an INSERT may wait for it."""
    mark: str = ""
    """That of the last answer, if nothing was new and nothing has changed here."""


@dataclass(frozen=True, slots=True)
class CutAnswer:
    """The next cut; no answers: there is nothing new."""

    place: int
    frontier: int
    answers: Sequence[ChangesAnswer]
    is_held: bool = False
    """Whether something undecided holds a table back. Not sent."""
    mark: str = ""


def encode_cut_request(request: CutRequest) -> dict[str, Any]:
    """Returns the request as JSON."""
    return {
        "tables": [encode_request(*name, each) for name, each in request.tables],
        "max_rows": request.max_rows,
        "max_bytes": request.max_bytes,
        "wait_seconds": request.wait_seconds,
        "joins": request.joins,
        "idle": request.takes_idle,
        "mark": request.mark,
    }


def decode_cut_request(document: Document) -> CutRequest:
    """Parses the request. Raises 36 (BAD_ARGUMENTS)."""
    tables = [(get_table_name(each), decode_request(each)) for each in get_objects(document, "tables")]
    if not tables:
        raise UserError("BAD_ARGUMENTS", "'tables' must name the tables of the group")
    return CutRequest(
        tables,
        get_number(document, "max_rows", most=MAX_BATCH_ROWS),
        get_number(document, "max_bytes", most=MAX_BATCH_BYTES),
        get_seconds(document, "wait_seconds", MAX_WAIT_SECONDS),
        get_flag(document, "joins"),
        get_flag(document, "idle"),
        get_text(document, "mark", ""),
    )


def encode_cut_answer(answer: CutAnswer) -> dict[str, Any]:
    """Returns the answer as JSON."""
    return {
        "place": answer.place,
        "frontier": answer.frontier,
        "answers": [encode_answer(each) for each in answer.answers],
        "mark": answer.mark,
    }


def decode_cut_answer(document: Document) -> CutAnswer:
    """Parses the answer. Raises 36 (BAD_ARGUMENTS)."""
    answers = [decode_answer(each) for each in get_objects(document, "answers")]
    place, frontier = get_number(document, "place"), get_number(document, "frontier")
    return CutAnswer(place, frontier, answers, mark=get_text(document, "mark", ""))
