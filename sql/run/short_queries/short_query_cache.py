"""Answers short queries at once in the calling thread, without compiling or waiting.

When a text comes again it is examined once (:meth:`ShortQueryCache.learn`): may it be short? A query without tables is
then computed, if its text alone decides the result. A query whose rows the key finds keeps its plan by the *shape* of
its text, so that another key compiles nothing (``sql.run.short_queries.bound_literals``). Whether a query *is* short is
decided anew each time from the pruned parts: few granules, little to decode, few rows
(``sql.run.short_queries.short_plans``). A query that is not short, or that fails in any way, is left to the normal
path, which also reports the error.

Invariants

- An answer is what ``QueryEngine.select`` would give for the same text, settings and tables.
- Nothing is kept of a query but its plan. A table is looked up anew every time, and its snapshot released at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from parts.common.errors import PandoError
from parts.common.lru_cache import LruCache
from sql.compile.passes.pipeline import run_passes
from sql.grammar.queries.query_parser import parse_query
from sql.grammar.query_limits import QueryGuard
from sql.grammar.statement_parser import parse_statement
from sql.grammar.statements.statement import ParsedStatement, SelectQuery
from sql.grammar.syntax_tree import Select
from sql.relations import RelationCatalog
from sql.run.query_engine import QueryEngine
from sql.run.query_plans import has_only_cacheable_nodes
from sql.run.short_queries.short_plans import (
    EVENT_LOOP_LIMITS,
    MAX_RESULT_BYTES,
    MAX_RESULT_COLUMNS,
    MAX_RESULT_ROWS,
    ShortPlan,
    ShortQueryLimits,
    ShortResult,
    make_short_plan,
)
from sql.run.short_queries.statement_shapes import MAX_SHAPED_CHARACTERS, StatementShape, find_shape
from sql.settings.supported_settings import (
    Settings,
)

_MOST_TEXTS = 512
_MOST_PLANS_OF_SHAPE = 64
_MAX_EXAMINATIONS = 32
_Key = tuple[object, ...]
"""Text or shape, database, identity of the settings."""


@dataclass(slots=True)
class _Known:
    """A text or a shape that may be short; with neither plan nor answer it is not.

    ``settings`` is held because the key has its ``id``.
    """

    settings: Settings
    shape: _KnownShape | None
    plan: ShortPlan | None = None
    answer: ShortResult | None = None

    def is_current(self, catalog: RelationCatalog) -> bool:
        """Returns whether examining the text again would give the same."""
        try:
            return self.plan is None or self.plan.relation(catalog) is not None
        except PandoError:
            return False


@dataclass(slots=True)
class _KnownShape:
    """The plans of a shape, by its literals that are not bound."""

    fixed: tuple[int, ...] = ()
    plans: LruCache[tuple[str, ...], _Known] = field(default_factory=lambda: LruCache(_MOST_PLANS_OF_SHAPE))
    times_examined: int = -1
    """How often a text of it was examined since one was short. The first time it is only noted."""


class ShortQueryCache:
    """The short queries of one engine."""

    def __init__(self, engine: QueryEngine) -> None:
        self._engine = engine
        self._texts: LruCache[_Key, _Known] = LruCache(_MOST_TEXTS)
        self._shapes: LruCache[_Key, _KnownShape] = LruCache(_MOST_TEXTS)

    def answer(
        self,
        text: str,
        settings: Settings,
        database: str,
        catalog: RelationCatalog,
        parameters: Mapping[str, str] | None = None,
        limits: ShortQueryLimits = EVENT_LOOP_LIMITS,
    ) -> ShortResult | None:
        """Returns the whole answer to a statement; ``None`` if it is not known to be short, or is not."""
        known, literals = self._find_known(text, settings, database, parameters)
        if known is None:
            return None
        try:
            answer = known.answer if known.plan is None else known.plan.run(literals, catalog, limits)
        except PandoError:
            return None  # the normal path runs it again and reports the error
        if answer is not None and known.shape is not None:
            known.shape.times_examined = 0
        return answer

    def _find_known(
        self, text: str, settings: Settings, database: str, parameters: Mapping[str, str] | None
    ) -> tuple[_Known | None, tuple[str, ...]]:
        """Returns what is known of the text or its shape, and the literals that a shape's plan needs."""
        if len(text) > MAX_SHAPED_CHARACTERS:
            return None, ()
        known = self._texts.find((text, database, id(settings)))
        literals: tuple[str, ...] = ()
        if known is None:
            shape = find_shape(text, parameters)
            of_shape = None if shape is None else self._shapes.find((shape.key, database, id(settings)))
            if shape is None or of_shape is None:
                return None, ()
            literals = shape.literals
            known = of_shape.plans.find(tuple(literals[slot] for slot in of_shape.fixed))
        return (known if known is not None and known.settings is settings else None), literals

    def learn(
        self,
        text: str,
        parsed: ParsedStatement,
        settings: Settings,
        database: str,
        catalog: RelationCatalog,
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        """Notes a SELECT that ran with nothing but these; examines the second of a text or shape.

        That takes as long as compiling. It happens once for a text, and for a shape only a few times in vain.
        """
        key = (text, database, id(settings))
        if len(text) > MAX_SHAPED_CHARACTERS:
            return
        known, _ = self._find_known(text, settings, database, parameters)
        if known is not None and known.is_current(catalog):
            return
        shape = find_shape(text, parameters)
        shape_key = (shape.key if shape else text, database, id(settings))
        of_shape = self._shapes.find(shape_key)
        if of_shape is None:
            of_shape = _KnownShape()
            self._shapes.keep(shape_key, of_shape)
        of_shape.times_examined += 1
        if not 0 < of_shape.times_examined <= _MAX_EXAMINATIONS:
            return
        known = _Known(settings, of_shape)
        try:
            if shape is not None and shape.parameters:
                parsed = parse_statement(shape.with_literals(list(shape.literals)))
            self._examine(known, shape, parsed, database, catalog)
        except PandoError:
            return
        if known.plan is None and known.answer is None:
            if not parameters:
                self._texts.keep(key, known)
            return
        if shape is not None and not _accepts_parameters(known, shape.parameters):
            return
        if shape is None or known.plan is None or known.plan.bound is None:
            self._texts.keep(key, known)
            return
        bound = known.plan.bound.slots
        fixed = tuple(slot for slot in range(len(shape.literals)) if slot not in bound)
        if of_shape.fixed != fixed:
            of_shape = known.shape = _KnownShape(fixed, times_examined=of_shape.times_examined)
            self._shapes.keep(shape_key, of_shape)
        of_shape.plans.keep(tuple(shape.literals[slot] for slot in fixed), known)

    def _examine(
        self,
        known: _Known,
        shape: StatementShape | None,
        parsed: ParsedStatement,
        database: str,
        catalog: RelationCatalog,
    ) -> None:
        assert isinstance(parsed.statement, SelectQuery)
        query = parsed.statement.query
        tree = run_passes(parse_query(query, QueryGuard(text=query)), {})
        if not isinstance(tree, Select) or not has_only_cacheable_nodes(tree):
            return
        if tree.source is None:
            known.answer = self._compute_answer(query, parsed, known.settings, database, catalog)
        else:
            known.plan = make_short_plan(tree, parsed, shape, self._engine, catalog, known.settings, database)

    def _compute_answer(
        self, query: str, parsed: ParsedStatement, settings: Settings, database: str, catalog: RelationCatalog
    ) -> ShortResult | None:
        """Computes a query whose text alone decides the result."""
        result = self._engine.select(
            query, catalog=catalog, settings=settings, database=database, constants={"timezone": settings.timezone}
        )
        batches = []
        rows = size = 0
        try:
            if len(result.columns) > MAX_RESULT_COLUMNS:
                return None
            for batch in result.batches:
                rows += batch.num_rows
                size += batch.nbytes
                if rows > MAX_RESULT_ROWS or size > MAX_RESULT_BYTES:
                    return None
                batches.append(batch)
        finally:
            result.close()
        return ShortResult(result.columns, tuple(batches), result.statistics, parsed.format)


def _accepts_parameters(known: _Known, parameters: Sequence[tuple[int, str]]) -> bool:
    """Returns whether values of parameters may replace literals of the plan."""
    bound = None if known.plan is None else known.plan.bound
    return not parameters or (bound is not None and all(bound.accepts(slot, type_) for slot, type_ in parameters))
