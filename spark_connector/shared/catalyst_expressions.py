"""Encodes conditions of Spark's optimized plan as JSON for the route ``/scan/push``.

``engine.scan.push_down.expressions`` describes the form. What it has no form for becomes an empty object, which the
server leaves to Spark.
"""

from __future__ import annotations

import ctypes
from typing import Any

_CALLS = {
    "And": "AND", "Or": "OR", "Not": "NOT", "IsNull": "IS_NULL", "IsNotNull": "IS_NOT_NULL", "IsNaN": "IS_NAN",
    "EqualTo": "=", "EqualNullSafe": "<=>", "LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">",
    "GreaterThanOrEqual": ">=", "StartsWith": "STARTS_WITH", "EndsWith": "ENDS_WITH", "Contains": "CONTAINS",
}  # fmt: skip
_PLAIN = frozenset({"boolean", "byte", "short", "integer", "long", "date", "timestamp"})


def encode_expression(node: Any) -> dict[str, Any]:
    """Returns an expression of Catalyst in JSON."""
    kind = str(node.getClass().getSimpleName())
    if kind in _CALLS:
        return _call(_CALLS[kind], list_scala_elements(node.children()))
    match kind:
        case "AttributeReference":
            return {"column": node.name()}
        case "Literal":
            return _literal(node.value(), node.dataType().typeName())
        case "Cast":
            return {**_call("CAST", [node.child()]), "type": node.dataType().typeName()}
        case "In":
            return _call("IN", [node.value(), *list_scala_elements(node.list())])
        case "InSet":
            type_ = node.child().dataType().typeName()
            values = [_literal(value, type_) for value in list_scala_elements(node.hset().toSeq())]
            return {"call": "IN", "children": [encode_expression(node.child()), *values]}
        case "Like" if node.escapeChar() == "\\":
            return _call("LIKE", [node.left(), node.right()])
    return {}


def list_scala_elements(sequence: Any) -> list[Any]:
    """Returns the elements of a Scala sequence."""
    return [sequence.apply(index) for index in range(sequence.size())]


def _call(name: str, children: list[Any]) -> dict[str, Any]:
    return {"call": name, "children": [encode_expression(child) for child in children]}


def _literal(value: Any, type_: str) -> dict[str, Any]:
    if value is None or type_ in _PLAIN:
        return {"literal": value, "type": type_}
    if type_ == "float":  # Catalyst gives only the digits that distinguish it from other floats
        return {"literal": repr(ctypes.c_float(value).value), "type": type_}
    if type_ == "double":
        return {"literal": repr(value), "type": type_}
    if type_ == "string" or type_.startswith("decimal"):
        return {"literal": value.toString(), "type": type_}
    return {}
