"""Bounds on what one call of a function may make: DuckDB fills a whole vector of values before it looks at anything.

A function that makes much of little (``range``, ``repeat``, …) passes the size of each value through the function
``pando_room(spec, size, weight)``, which gives the size back if a vector of such values (``weight`` bytes for each unit
of size) fits the query's memory, and otherwise ends the query with 241. ``spec`` names the running query and a bound:
the compilers write :data:`RUN_PLACEHOLDER`, and the executor puts the number there under which it entered the query's
status. A lambda that is run for very many elements calls the same function, to look whether the query may go on.

Invariant: every call sees the sizes of one vector, up to 2048 values, and is never folded to a constant.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from parts.common.errors import PandoError, UserError
from parts.common.query_status import QueryStatus
from parts.types import IntegerType
from sql.typing.duckdb.sql_fragments import GUARDED, UNWATCHED, WATCHED, Fragment, Piece, fragment
from sql.typing.typed_expressions import Typed

GUARD_FUNCTION = "pando_room"
RUN_PLACEHOLDER = "/*run*/"
"""Stands for the number of the running query."""
_CALL = f"{GUARD_FUNCTION}('{RUN_PLACEHOLDER};"
"""A text of the user's has no quote that stands alone, so that none is taken for this."""
_ROOM = f"{_CALL}{{}}', {{}}, {{}})"
_WATCH = "watch"
_WATCHED = f"(CASE WHEN {_CALL}{_WATCH}', 1, 1) IS NULL THEN NULL ELSE ({{}}) END)"
_COPIES = 6
"""How often a vector may be in memory at once: made, grown, copied, turned to Arrow and to text."""
_VECTOR_ROWS = 2048
_LITTLE_BYTES = 8 << 20
"""A vector of values that no query's memory notices."""
_ALWAYS_BYTES = 256 << 20
"""What may be made where no query is known: in the expressions of a table."""


class SizeLimit(NamedTuple):
    """A bound of ClickHouse's on the sizes of a vector: on each, or on their sum."""

    error: str
    most: int
    is_of_sum: bool
    message: str
    """With ``{size}`` and ``{most}``."""


_mosts: list[SizeLimit] = []

_numbers = itertools.count(1)
_running: dict[str, QueryStatus] = {}
_lock = threading.Lock()


def guarded_size(size: Fragment, weight: Piece = 1, most: SizeLimit | None = None) -> Fragment:
    """A guarded size; ``weight`` is the bytes of a unit of it."""
    if most is not None and most not in _mosts:
        _mosts.append(most)
    bound = _mosts.index(most) if most is not None else ""
    return fragment(_ROOM, bound, size, weight)


def guarded_size_for(value: Typed, size: Fragment, weight: int, most: SizeLimit) -> Fragment:
    """``guarded_size`` for a size that is that of ``value``, or nothing: a literal or a number of eight bits makes
    little, and is not looked at."""
    largest = _largest(value)
    if largest is None or largest * weight * _VECTOR_ROWS > _LITTLE_BYTES:
        return guarded_size(size, weight, most)
    in_bounds = largest * (_VECTOR_ROWS if most.is_of_sum else 1) <= most.most
    return size if in_bounds else guarded_size(size, weight, most)


def _largest(value: Typed) -> int | None:
    if isinstance(value.value, int):
        return max(0, value.value)
    return value.type.maximum if isinstance(value.type, IntegerType) and value.type.bits == 8 else None


def with_side_effect(name: str, bounds: tuple[int, ...], size: Fragment) -> Fragment:
    """``size``, for each vector of which the function of that name in :data:`EFFECTS` is called."""
    return fragment(_ROOM, " ".join(map(str, (name, *bounds))), size, 1)


EFFECTS: dict[str, Callable[[str, tuple[int, ...], pa.ChunkedArray, QueryStatus | None], None]] = {}
"""What a call does beside its value, with the name and the bounds that it was written with."""


def is_guarded(sql: Fragment) -> bool:
    return bool(sql.traits & GUARDED)


class _Unwatched(Fragment):
    """The body of a lambda that has no other lambda in it, or around it so far."""

    __slots__ = ()

    def __init__(self, body: Fragment) -> None:
        super().__init__(("", ""), (body,), body.size, body.traits | UNWATCHED, 0, body.weight, body.depth)


def interruptible_body(body: Fragment, is_watched: bool) -> Fragment:
    """The body of a lambda, looking whether the query may go on at every vector of elements.

    That costs, and so it is done only where ``is_watched`` says so, and in lambdas in one another: in all of them.
    """
    if not is_watched and not body.traits & (WATCHED | UNWATCHED):
        return _Unwatched(body)
    done: dict[int, Fragment] = {}
    for node in body.unfinished(lambda node: not node.traits & UNWATCHED or id(node) in done):
        parts = tuple([done.get(id(part), part) for part in node.parts])
        done[id(node)] = fragment(_WATCHED, *parts) if isinstance(node, _Unwatched) else node.with_parts(parts)
    return fragment(_WATCHED, done.get(id(body), body))


@contextmanager
def bind_running_query(sql: str, status: QueryStatus) -> Iterator[str]:
    """The text of a guarded statement for one run of it."""
    number = str(next(_numbers))
    with _lock:
        _running[number] = status
    try:
        yield sql.replace(_CALL, _CALL.replace(RUN_PLACEHOLDER, number))
    finally:
        with _lock:
            _running.pop(number, None)


def register(connection: duckdb.DuckDBPyConnection) -> None:
    connection.create_function(
        GUARD_FUNCTION, _room, ["VARCHAR", "BIGINT", "BIGINT"], "BIGINT",
        type="arrow", side_effects=True, null_handling="special",
    )  # fmt: skip


def _room(spec: pa.ChunkedArray, size: pa.ChunkedArray, weight: pa.ChunkedArray) -> pa.ChunkedArray:
    if not len(spec):
        return size
    run, _, bound = spec[0].as_py().partition(";")
    status = _running.get(run)
    try:
        if bound == _WATCH:
            _watch(status)
        elif " " in bound:
            name, *bounds = bound.split(" ")
            EFFECTS[name](name, tuple(map(int, bounds)), size, status)
        else:
            check_room(size, weight, _mosts[int(bound)] if bound else None, status)
    except PandoError as error:
        raise ValueError(f"pando:{error.code}:{error.message}") from None
    return size


def _watch(status: QueryStatus | None) -> None:
    """An array that grows is copied to twice its size: there must be room for that."""
    if status is not None:
        status.check()
        status.memory.check_available(status.memory.measured_bytes, "an array that grows")


def check_room(
    size: pa.ChunkedArray, weight: pa.ChunkedArray, most: SizeLimit | None, status: QueryStatus | None
) -> None:
    """Raises ``most``'s error; 241 when values of these sizes, and the copies made of them, are too much for the query;
    and what ``status`` raises."""
    if status is not None:
        status.check()
    if most is not None:
        found = (pc.sum(size) if most.is_of_sum else pc.max(size)).as_py() or 0
        if found > most.most:
            raise UserError(most.error, most.message.format(size=found, most=most.most))
    made = pc.sum(pc.multiply(pc.cast(size, pa.float64(), safe=False), pc.cast(weight, pa.float64(), safe=False)))
    made_bytes = int(made.as_py() or 0)
    if status is not None:
        status.memory.check_available(made_bytes * _COPIES, f"making values of {made_bytes} bytes")
    elif made_bytes > _ALWAYS_BYTES:
        raise UserError("MEMORY_LIMIT_EXCEEDED", f"Values of {made_bytes} bytes are more than {_ALWAYS_BYTES} bytes")
