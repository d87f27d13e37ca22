"""Memory checks before DuckDB calls that build much data from little.

DuckDB fills a whole vector of values before it looks at anything. So a function that makes large values from small
arguments (``range``, ``repeat``, …) passes the size of each value through the DuckDB function ``pando_room(spec, size,
weight)``. That function returns the size if a vector of such values (``weight`` bytes for each unit of size) fits the
query's memory; otherwise it ends the query with 241. ``spec`` names the running query and a limit. The compilers write
:data:`RUN_PLACEHOLDER`; the executor replaces it by the number under which it registered the query's status. A lambda
that may run for very many elements calls the same function, to check whether the query may go on.

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
"""No user text can look like this: inside a SQL string literal a quote is always doubled."""
_GUARDED_SIZE = f"{_CALL}{{}}', {{}}, {{}})"
_WATCH = "watch"
_WATCHED = f"(CASE WHEN {_CALL}{_WATCH}', 1, 1) IS NULL THEN NULL ELSE ({{}}) END)"
_COPIES = 6
"""Copies of a vector that may be in memory at once: created, grown, copied, converted to Arrow and to text."""
_VECTOR_ROWS = 2048
_UNCHECKED_BYTES = 8 << 20
"""A vector of at most this size needs no check."""
_DEFAULT_LIMIT_BYTES = 256 << 20
"""The limit where no query is known: in the expressions of a table."""


class SizeLimit(NamedTuple):
    """A limit of ClickHouse on the sizes of a vector: on each size, or on their sum."""

    error: str
    maximum: int
    is_of_sum: bool
    message: str
    """The error's message, with ``{size}`` and ``{maximum}`` as fields."""


_limits: list[SizeLimit] = []

_numbers = itertools.count(1)
_running: dict[str, QueryStatus] = {}
_lock = threading.Lock()


def guarded_size(size: Fragment, weight: Piece = 1, limit: SizeLimit | None = None) -> Fragment:
    """Returns ``size`` with a check that a vector of values of this size fits the query's memory.

    ``weight`` is the bytes of one unit of size; ``limit`` is one of ClickHouse to check as well.
    """
    if limit is not None and limit not in _limits:
        _limits.append(limit)
    bound = _limits.index(limit) if limit is not None else ""
    return fragment(_GUARDED_SIZE, bound, size, weight)


def guarded_size_for(value: Typed, size: Fragment, weight: int, limit: SizeLimit) -> Fragment:
    """Returns ``guarded_size`` unless ``value`` bounds the size so low that no check is needed.

    The size is at most ``value``: a small literal or an 8-bit number cannot make much data.
    """
    largest = _find_maximum(value)
    if largest is None or largest * weight * _VECTOR_ROWS > _UNCHECKED_BYTES:
        return guarded_size(size, weight, limit)
    in_bounds = largest * (_VECTOR_ROWS if limit.is_of_sum else 1) <= limit.maximum
    return size if in_bounds else guarded_size(size, weight, limit)


def _find_maximum(value: Typed) -> int | None:
    if isinstance(value.value, int):
        return max(0, value.value)
    return value.type.maximum if isinstance(value.type, IntegerType) and value.type.bits == 8 else None


def with_side_effect(name: str, bounds: tuple[int, ...], size: Fragment) -> Fragment:
    """Returns ``size``, with a call of the named function in :data:`EFFECTS` for each vector of it."""
    return fragment(_GUARDED_SIZE, " ".join(map(str, (name, *bounds))), size, 1)


EFFECTS: dict[str, Callable[[str, tuple[int, ...], pa.ChunkedArray, QueryStatus | None], None]] = {}
"""Functions called for their side effect, with the name and the bounds of ``with_side_effect``."""


def is_guarded(sql: Fragment) -> bool:
    """Tells whether the SQL contains a memory check."""
    return bool(sql.traits & GUARDED)


class _UninterruptibleBody(Fragment):
    """The body of a lambda without an inner or outer lambda so far, and without an interruption check."""

    __slots__ = ()

    def __init__(self, body: Fragment) -> None:
        super().__init__(("", ""), (body,), body.size, body.traits | UNWATCHED, 0, body.weight, body.depth)


def interruptible_body(body: Fragment, is_watched: bool) -> Fragment:
    """Returns a lambda's body that checks at every vector of elements whether the query may go on.

    The check costs time, so it is added only if ``is_watched`` is set, and in all of several nested lambdas.
    """
    if not is_watched and not body.traits & (WATCHED | UNWATCHED):
        return _UninterruptibleBody(body)
    done: dict[int, Fragment] = {}
    for node in body.unfinished(lambda node: not node.traits & UNWATCHED or id(node) in done):
        parts = tuple([done.get(id(part), part) for part in node.parts])
        done[id(node)] = (
            fragment(_WATCHED, *parts) if isinstance(node, _UninterruptibleBody) else node.with_parts(parts)
        )
    return fragment(_WATCHED, done.get(id(body), body))


@contextmanager
def bind_running_query(sql: str, status: QueryStatus) -> Iterator[str]:
    """Yields a guarded statement's text for one run, and registers the query's status meanwhile."""
    number = str(next(_numbers))
    with _lock:
        _running[number] = status
    try:
        yield sql.replace(_CALL, _CALL.replace(RUN_PLACEHOLDER, number))
    finally:
        with _lock:
            _running.pop(number, None)


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Registers the function ``pando_room`` on a DuckDB connection."""
    connection.create_function(
        GUARD_FUNCTION, _guard, ["VARCHAR", "BIGINT", "BIGINT"], "BIGINT",
        type="arrow", side_effects=True, null_handling="special",
    )  # fmt: skip


def _guard(spec: pa.ChunkedArray, size: pa.ChunkedArray, weight: pa.ChunkedArray) -> pa.ChunkedArray:
    if not len(spec):
        return size
    run, _, bound = spec[0].as_py().partition(";")
    status = _running.get(run)
    try:
        if bound == _WATCH:
            _check_interruption(status)
        elif " " in bound:
            name, *bounds = bound.split(" ")
            EFFECTS[name](name, tuple(map(int, bounds)), size, status)
        else:
            check_room(size, weight, _limits[int(bound)] if bound else None, status)
    except PandoError as error:
        raise ValueError(f"pando:{error.code}:{error.message}") from None
    return size


def _check_interruption(status: QueryStatus | None) -> None:
    """Checks that the query may go on, and that a growing array can be copied to twice its size."""
    if status is not None:
        status.check()
        status.memory.check_available(status.memory.measured_bytes, "an array that grows")


def check_room(
    size: pa.ChunkedArray, weight: pa.ChunkedArray, limit: SizeLimit | None, status: QueryStatus | None
) -> None:
    """Raises an error if values of these sizes are too large for a limit or for the query's memory.

    Raises the limit's error, 241 if the values and the copies made of them do not fit, and what ``status.check``
    raises.
    """
    if status is not None:
        status.check()
    if limit is not None:
        found = (pc.sum(size) if limit.is_of_sum else pc.max(size)).as_py() or 0
        if found > limit.maximum:
            raise UserError(limit.error, limit.message.format(size=found, maximum=limit.maximum))
    made = pc.sum(pc.multiply(pc.cast(size, pa.float64(), safe=False), pc.cast(weight, pa.float64(), safe=False)))
    made_bytes = int(made.as_py() or 0)
    if status is not None:
        status.memory.check_available(made_bytes * _COPIES, f"making values of {made_bytes} bytes")
    elif made_bytes > _DEFAULT_LIMIT_BYTES:
        raise UserError(
            "MEMORY_LIMIT_EXCEEDED", f"Values of {made_bytes} bytes are more than {_DEFAULT_LIMIT_BYTES} bytes"
        )
