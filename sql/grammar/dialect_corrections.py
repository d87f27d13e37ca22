"""Corrects what sqlglot's translation leaves different from ClickHouse, or refuses it.

This module imports sqlglot.

- Differences and sums of dates get a unit, and numbers that are numbers. Strings are characters, not bytes.
- An aggregate over no rows is NULL; the default separator of GROUP_CONCAT is the dialect's own.
- In other dialects ``SELECT lower(name) AS name … WHERE name = 'X'`` means the column everywhere but in ORDER BY; in
  ClickHouse it would mean the alias. The column is qualified with its table.
- ``a / b`` of dialects that divide integers as integers needs operands whose types stand in the text.
- Refused: ROLLUP, CUBE and GROUPING SETS, whose missing keys are not NULL here, and aggregates of ordered rows, whose
  order would be lost.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.errors import UnsupportedError
from sqlglot.optimizer.annotate_types import annotate_types

_UTF8_FUNCTIONS = {
    exp.Length: "lengthUTF8", exp.Upper: "upperUTF8", exp.Lower: "lowerUTF8", exp.Substring: "substringUTF8",
    exp.Left: "leftUTF8", exp.Right: "rightUTF8", exp.StrPosition: "positionUTF8",
}  # fmt: skip
_NULL_OF_NO_ROWS = (exp.Sum, exp.Min, exp.Max, exp.Avg, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue)
_JOINED_BY_NOTHING = ("snowflake", "redshift", "oracle", "spark", "databricks")
_SUNDAY_IS_1 = ("spark", "spark2", "databricks", "hive", "mysql", "doris", "starrocks", "bigquery")
_SUNDAY_IS_0 = ("postgres", "duckdb")
_DATE_UNITS = ("day", "week", "month", "quarter", "year")


def correct_tree(tree: Any, dialect: str) -> Any:
    """Returns the corrected tree; changes it in place. Raises sqlglot's ``UnsupportedError``."""
    if not isinstance(tree, exp.Query):
        raise UnsupportedError(f"{tree.key.upper()} is not a query")
    for node in list(tree.find_all(exp.Select)):
        _name_shadowed_columns(node)
    if any(division.args.get("typed") for division in tree.find_all(exp.Div)):
        tree = annotate_types(tree, dialect=dialect)
    return tree.transform(_correct_node, dialect, copy=False)


def _correct_node(node: Any, dialect: str) -> Any:
    match node:
        case exp.DateDiff() | exp.TsOrDsDiff() | exp.TimestampDiff() | exp.DatetimeDiff():
            unit = (node.text("unit") or "day").lower()
            sides = (_cast_to_date(node.expression, unit), _cast_to_date(node.this, unit))
            return _make_call("dateDiff", exp.Literal.string(unit), *sides)
        case exp.DateAdd() | exp.TsOrDsAdd() | exp.TimestampAdd() | exp.DatetimeAdd():
            return exp.Paren(this=exp.Add(this=node.this, expression=_make_interval(node)))
        case exp.DateSub() | exp.TimestampSub() | exp.DatetimeSub():
            return exp.Paren(this=exp.Sub(this=node.this, expression=_make_interval(node)))
        case exp.AddMonths():
            return _make_call("addMonths", node.this, node.expression)
        case exp.Interval(this=exp.Literal(is_string=True)) if node.name.lstrip("+-").isdigit():
            node.set("this", exp.Literal.number(node.name))
        case exp.DayOfWeek():
            return _make_day_of_week(node.this, dialect, node)
        case exp.Extract() if node.name.upper() in ("DOW", "DAYOFWEEK"):
            return _make_day_of_week(node.expression, dialect, node)
        case exp.IntDiv():
            return _make_call("intDiv", node.this, _null_if_zero(node.expression))
        case exp.Div() if node.args.get("typed"):
            return _correct_division(node)
        case exp.In() if any(isinstance(item, exp.Null) for item in node.expressions):
            raise UnsupportedError(f"{node.sql()} would leave NULL out")
        case exp.GroupConcat():
            if not node.args.get("separator") and dialect not in _JOINED_BY_NOTHING:
                node.set("separator", exp.Literal.string(","))
        case exp.AggFunc() | exp.WithinGroup() | exp.Group():
            return _correct_group(node)
    name = _UTF8_FUNCTIONS.get(type(node))
    return _make_call(name, *_list_arguments(node)) if name else node


def _correct_group(node: Any) -> Any:
    match node:
        case exp.Group():
            if node.find(exp.Rollup, exp.Cube, exp.GroupingSets):
                raise UnsupportedError("keys that ROLLUP, CUBE and GROUPING SETS leave out would not be NULL")
        case exp.WithinGroup():
            raise UnsupportedError(f"the order in {node.sql()} would be lost")
        case _ if isinstance(node.this, exp.Order):
            raise UnsupportedError(f"the order in {node.sql()} would be lost")
        case _ if isinstance(node, _NULL_OF_NO_ROWS) and _may_have_no_rows(node):
            node.set("this", _make_call("toNullable", node.this))
    return node


def _may_have_no_rows(aggregate: Any) -> bool:
    """Returns whether the aggregate can see no rows.

    A group has rows, unless a filter or a window takes them.
    """
    select = aggregate.find_ancestor(exp.Select)
    is_of_group = select is not None and select.args.get("group")
    return not is_of_group or isinstance(aggregate.parent, exp.Filter | exp.Window | exp.IgnoreNulls | exp.RespectNulls)


def _make_call(name: str, *arguments: Any) -> Any:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _list_arguments(call: Any) -> list[Any]:
    """Returns the arguments of a function of at most three, in their order."""
    return [value for name in call.arg_types if isinstance(value := call.args.get(name), exp.Expression)]


def _cast_to_date(value: Any, unit: str) -> Any:
    if isinstance(value, exp.Literal) and value.is_string:
        return exp.cast(value, "date" if unit in _DATE_UNITS and ":" not in value.name else "timestamp")
    return value


def _make_day_of_week(date: Any, dialect: str, node: Any) -> Any:
    if dialect in _SUNDAY_IS_1:
        return _make_call("toDayOfWeek", date, exp.Literal.number(3))
    if dialect in _SUNDAY_IS_0:
        return _make_call("toDayOfWeek", date, exp.Literal.number(2))
    raise UnsupportedError(f"{node.sql()}: which day of the week is the first is not known")


def _null_if_zero(value: Any) -> Any:
    """Makes a divisor NULL where it is zero, since a quotient by NULL is NULL."""
    if isinstance(value, exp.Literal) and value.name.strip("0."):
        return value
    return _make_call("nullIf", value, exp.Literal.number(0))


def _correct_division(division: Any) -> Any:
    sides = (division.this, division.expression)
    if any(side.type is not None and side.is_type(*exp.DataType.REAL_TYPES) for side in sides):
        return division
    if all(side.type is not None and side.is_type(*exp.DataType.INTEGER_TYPES) for side in sides):
        return _make_call("intDiv", *sides)
    raise UnsupportedError(
        f"{division.sql()} divides integers as integers, and the types of its operands do not stand in the query: "
        "CAST one of them (to DOUBLE PRECISION, or both to BIGINT)"
    )


def _make_interval(node: Any) -> Any:
    amount = node.expression
    if isinstance(amount, exp.Interval):
        return amount
    if isinstance(amount, exp.Literal) and amount.is_string:
        amount = exp.Literal.number(amount.name)
    return exp.Interval(this=amount, unit=node.args.get("unit") or exp.var("DAY"))


def _name_shadowed_columns(select: Any) -> None:
    aliases = {item.alias: item for item in select.expressions if isinstance(item, exp.Alias)}
    shadowed = {
        name
        for name, item in aliases.items()
        if not isinstance(item.this, exp.Column)
        and any(c.name == name and not c.table for c in item.find_all(exp.Column))
    }
    if not shadowed:
        return
    source = select.args.get("from_") or select.args.get("from")
    if source is None or select.args.get("joins") or not source.this.alias_or_name:
        raise UnsupportedError(
            f"The alias {sorted(shadowed)[0]!r} hides a column of the same name: name the column with its table"
        )
    for part in ("expressions", "where", "group", "having", "qualify"):
        value = select.args.get(part)
        for root in value if isinstance(value, list) else [value]:
            for column in root.find_all(exp.Column) if root is not None else ():
                if column.name in shadowed and not column.table and column.find_ancestor(exp.Select) is select:
                    column.set("table", exp.to_identifier(source.this.alias_or_name, quoted=True))
