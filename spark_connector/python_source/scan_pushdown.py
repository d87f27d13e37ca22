"""Pushes columns and filters into scans: ``narrowed(df)`` reads only what the frame's plan needs.

Spark 4.3 tells a Python data source neither columns nor, safely, filters. Its optimized plan shows both: right above
each scan stand the filter that every row must pass, and the wanted columns. So each scan of a table is replaced by one
with a schema of these columns and with the option ``filter``. What stands above stays as it was, with its filters, and
uses the same column ids. Columns that nobody needs are constants there (not NULL: Spark turns a count of a column
without NULLs into a count of rows).

The rows are the same, because the optimized plan equals the frame's plan for whatever the table holds. It reads only
the wanted columns of rows that pass. Rows that do not pass, and other columns, may be missing.

Invariant: a scan is only replaced when all of its uses in the optimized plan are known. A subtree that Spark copies
(WITH that is used twice) gets new ids: then nothing is replaced.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from parts.common.errors import UserError
from spark_connector.python_source.session_options import read_session_options
from spark_connector.shared.catalyst_expressions import encode_expression, list_scala_elements
from spark_connector.shared.options import Options, parse_options
from spark_connector.shared.transport import Transport
from spark_connector.shared.type_mapping import read_options_from_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_Ids = tuple[int, ...]
_CATALYST = "org.apache.spark.sql.catalyst"
_COPY = "option."
_SMALL = ("boolean", "tinyint", "smallint", "date", "int", "float", "bigint", "double", "timestamp")


@dataclass(frozen=True)
class _Use:
    """One use of a scan in the optimized plan: the wanted column ids, and the filter."""

    wanted: frozenset[int]
    condition: Any = None


def narrowed(frame: DataFrame) -> DataFrame:
    """Returns an equal frame that reads less.

    Of every Pando table in it, it reads only the columns that it needs, and the rows that pass the conditions that the
    servers understand as Spark does. The conditions are those of now: where the plan asks for the current date or time,
    only columns are left out. Subqueries, ``query``, ``task_query`` and streams are read as before.

    Raises ``UserError`` 48 for a frame of Spark Connect, which shows no plan, and 36 for one without a Pando table.
    """
    from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

    if not isinstance(frame, ClassicFrame):
        raise UserError(
            "NOT_IMPLEMENTED",
            "Format pando: narrowed() looks at the frame's plan, which Spark Connect does not show: give the options "
            "'columns' and 'filter' when you load the frame",
        )
    execution = frame._jdf.queryExecution()
    analyzed, optimized = execution.analyzed(), execution.optimizedPlan()
    found = {_column_ids(leaf): leaf for leaf in _find_scans(analyzed)}
    if not found:
        raise UserError(
            "BAD_ARGUMENTS", "Format pando: narrowed() is for frames that read tables of Pando, not this one"
        )
    inside = {_column_ids(leaf) for plan in list_scala_elements(analyzed.subqueriesAll()) for leaf in _find_scans(plan)}
    uses = _find_uses(optimized, found.keys() | inside)
    surgeon = _PlanRewriter(
        frame.sparkSession,
        with_conditions=not _uses_current_time(analyzed, frame.sparkSession),
        scan_name=uuid.uuid4().hex if len(found) > 1 else "",
    )
    new = {ids: surgeon.make_replacement(leaf, uses[ids]) for ids, leaf in found.items() if ids in uses}
    plan = surgeon.rebuild(analyzed, {ids: leaf for ids, leaf in new.items() if leaf is not None})
    if plan is analyzed:
        return frame
    dataset = frame.sparkSession._jvm.org.apache.spark.sql.classic.Dataset
    return ClassicFrame(dataset.ofRows(frame.sparkSession._jsparkSession, plan), frame.sparkSession)


def _uses_current_time(plan: Any, spark: SparkSession) -> bool:
    """Returns whether the plan uses the current time, of which Spark makes constants."""
    patterns = getattr(spark._jvm, _CATALYST).trees.TreePattern
    return bool(plan.containsPattern(patterns.CURRENT_LIKE()))


# -- reading plans -----------------------------------------------------------------------------------------------------


def _find_scans(plan: Any) -> Iterator[Any]:
    """Yields the relations of Pando in an analyzed plan."""
    if _is_scan(plan):
        yield plan
    for child in list_scala_elements(plan.children()):
        yield from _find_scans(child)


def _is_scan(node: Any) -> bool:
    kind = node.getClass().getSimpleName()
    if kind not in ("DataSourceV2Relation", "DataSourceV2ScanRelation"):
        return False
    table = (node if kind == "DataSourceV2Relation" else node.relation()).table()
    return table.getClass().getSimpleName() == "PythonTable" and table.name() == "pando"


def _find_uses(optimized: Any, known: Set[_Ids]) -> dict[_Ids, list[_Use]]:
    """Returns the uses of each scan; nothing at all if one was copied."""
    uses: dict[_Ids, list[_Use]] = {}
    for plan in (optimized, *list_scala_elements(optimized.subqueriesAll())):
        for leaf, use in _find_leaves(plan, []):
            if _column_ids(leaf) not in known:
                return {}
            uses.setdefault(_column_ids(leaf), []).append(use)
    return uses


def _find_leaves(plan: Any, above: list[Any]) -> Iterator[tuple[Any, _Use]]:
    if _is_scan(plan):
        yield plan, _find_use(plan, above)
    for child in list_scala_elements(plan.children()):
        yield from _find_leaves(child, [*above, plan])


def _find_use(leaf: Any, above: Sequence[Any]) -> _Use:
    """Returns the use of a scan, from the filters right above it and the projection above them."""
    condition, wanted = None, set()
    for node in reversed(above):
        kind = node.getClass().getSimpleName()
        if kind not in ("Filter", "Project"):
            break
        if kind == "Filter" and condition is None:
            condition = node.condition()
        wanted |= {attribute.exprId().id() for attribute in list_scala_elements(node.references().toSeq())}
        if kind == "Project":
            return _Use(frozenset(wanted), condition)
    return _Use(frozenset(_column_ids(leaf)), condition)


def _column_ids(leaf: Any) -> _Ids:
    return tuple(attribute.exprId().id() for attribute in list_scala_elements(leaf.output()))


# -- making plans ------------------------------------------------------------------------------------------------------


class _PlanRewriter:
    """Replaces scans in a plan.

    ``with_conditions`` lets new scans filter. Under ``scan_name`` all of them read one state of a table; it is empty if
    there is one scan, which has a name of its own.
    """

    def __init__(self, spark: SparkSession, *, with_conditions: bool, scan_name: str) -> None:
        self._spark = spark
        self._expressions = getattr(spark._jvm, _CATALYST).expressions
        self._with_conditions = with_conditions
        self._scan_name = scan_name

    def rebuild(self, plan: Any, replacements: dict[_Ids, Any]) -> Any:
        """Returns the plan with its scans replaced; the plan itself where nothing is."""
        if _is_scan(plan):
            return replacements.get(_column_ids(plan), plan)
        children = list_scala_elements(plan.children())
        new = [self.rebuild(child, replacements) for child in children]
        if all(after is before for after, before in zip(new, children, strict=True)):
            return plan
        return plan.withNewChildren(self._sequence(new))

    def make_replacement(self, leaf: Any, uses: Sequence[_Use]) -> Any | None:
        """Returns a projection of another scan, with the columns of ``leaf``; ``None`` if that reads no less."""
        schema = _read_schema(leaf)
        given = _read_options(leaf, schema)
        options = parse_options(given, read_session_options(self._spark))
        if options.query or options.task_query:
            return None
        wanted = frozenset().union(*(use.wanted for use in uses))
        names = [a.name() for a in list_scala_elements(leaf.output()) if a.exprId().id() in wanted] or [
            _find_smallest_column(schema)
        ]
        condition = self._build_condition(options, schema, uses) if self._with_conditions else ""
        if len(names) == len(schema.fields) and not condition and not self._scan_name:
            return None
        conditions = [f"({text}\n)" for text in (options.filter.strip(), condition) if text]
        named = {"scan_name": self._scan_name} if self._scan_name else {}
        reader = self._spark.read.format("pando").options(**{**given, **named, "filter": " AND ".join(conditions)})
        kept = type(schema)([field for field in schema.fields if field.name in names])
        scan = reader.schema(kept).load()._jdf.queryExecution().analyzed()
        return self._project_with_same_ids(leaf, scan)

    def _build_condition(self, options: Options, schema: StructType, uses: Sequence[_Use]) -> str:
        """Returns a condition that holds wherever a use needs the row.

        It is ``""`` if a use needs all rows, or the server cannot say of which ones.
        """
        if any(use.condition is None for use in uses):
            return ""
        fields = [{**field.jsonValue(), "metadata": {}} for field in schema.fields]
        body = {
            "database": options.database,
            "table": options.table,
            "fields": fields,
            "conditions": [encode_expression(use.condition) for use in uses],
        }
        with Transport(options) as transport:
            answer = transport.try_servers(options.urls, lambda url: transport.call(url, "/scan/push", body))
        terms = [found["sql"] for found in answer["conditions"] if found is not None]
        return " OR ".join(terms) if len(terms) == len(uses) else ""

    def _project_with_same_ids(self, leaf: Any, scan: Any) -> Any:
        new = {attribute.name(): attribute for attribute in list_scala_elements(scan.output())}
        none = self._sequence([])
        items = []
        for old in list_scala_elements(leaf.output()):
            value = new.get(old.name()) or self._expressions.Literal.default(old.dataType())
            metadata = self._spark._jvm.scala.Option.apply(old.metadata())
            items.append(self._expressions.Alias(value, old.name(), old.exprId(), none, metadata, none))
        project = getattr(self._spark._jvm, _CATALYST).plans.logical.Project
        return project(self._sequence(items), scan)

    def _sequence(self, items: list[Any]) -> Any:
        return self._spark._jvm.PythonUtils.toSeq(items)


def _read_schema(leaf: Any) -> StructType:
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(leaf.schema().json()))


def _read_options(leaf: Any, schema: StructType) -> dict[str, str]:
    """Returns the options that the scan was made with, or its table of the catalog."""
    given = {**read_options_from_schema(schema), **leaf.options().asCaseSensitiveMap()}
    plain = {name.lower(): value for name, value in given.items()}
    return {**{name.removeprefix(_COPY): value for name, value in plain.items() if name.startswith(_COPY)},
            **{name: value for name, value in plain.items() if not name.startswith(_COPY)}}  # fmt: skip


def _find_smallest_column(schema: StructType) -> str:
    """Returns the column with the smallest type, to count rows by."""
    ranks = {name: rank for rank, name in enumerate(_SMALL)}
    return min(schema.fields, key=lambda field: ranks.get(field.dataType.simpleString(), len(ranks))).name
