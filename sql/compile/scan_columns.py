"""Moves expressions over a table's columns into its scan.

A scan decodes its columns in batches of many thousand rows, and computes such a value there
(``sql.typing.column_kernels.scannable``). All stages between a scan and an expression pass its columns on by ``*``, so
a column that the scan adds is visible wherever its other columns are.

Invariant: the name ``"<n>=<k>"`` of a computed column of scan ``n`` is no other name in a statement.
"""

from __future__ import annotations

from sql.compile.compiled_query import Scan
from sql.compile.names.scope import column_sql
from sql.typing.column_kernels.scannable import ScanComputation, Scannable
from sql.typing.duckdb.bound_values import BoundFragment
from sql.typing.duckdb.sql_fragments import SCANNABLE, Fragment, leaf
from sql.typing.typed_expressions import quote_identifier


def move_values_to_scans(sql: Fragment, scans: list[Scan]) -> Fragment:
    """Returns the statement with columns in place of the values that scans compute from now on."""
    if not sql.traits & SCANNABLE:
        return sql
    moving = _ValueMover(scans)
    while moving.has_found:
        sql = moving.move(sql)
    return sql


class _ValueMover:
    """One statement whose values are being moved into its scans."""

    def __init__(self, scans: list[Scan]) -> None:
        self._known: dict[Fragment, tuple[Scan, str | ScanComputation]] = {
            column_sql(scan.source.number, name): (scan, name) for scan in scans for name in scan.definitions
        }
        """The fragments that a scan has as columns or can compute."""
        self._columns = set(self._known)
        self._names: dict[Fragment, Fragment] = {}
        self.has_found = True

    def move(self, sql: Fragment) -> Fragment:
        """Goes through the statement once and returns it with columns in place of moved values.

        Where a bound value became a column, its body may contain more values to move: ``has_found`` is set.
        """
        self.has_found = False
        done: dict[int, Fragment] = {}
        for node in sql.unfinished(lambda node: not node.traits & SCANNABLE or id(node) in done):
            done[id(node)] = (
                self._replace_by_column(node, done) or self._unbind(node, done) or self._rebuild(node, done)
            )
        return done.get(id(sql), sql)

    def _replace_by_column(self, node: Fragment, done: dict[int, Fragment]) -> Fragment | None:
        """Returns the column that replaces the node, or ``None``."""
        found = self._find_computation(node, done)
        if found is None or not isinstance(node, Scannable) or not node.is_worth_it:
            return None
        scan, value = found
        if node not in self._names:
            name = f"{scan.source.number}={len(scan.computed)}"
            scan.computed[name] = value
            self._names[node] = leaf(quote_identifier(name))
            self._known[self._names[node]] = found
            self._columns.add(self._names[node])
        return self._names[node]

    def _find_computation(self, node: Fragment, done: dict[int, Fragment]) -> tuple[Scan, ScanComputation] | None:
        """Returns the scan that has all inputs of the node, and the computation; or ``None``."""
        if not isinstance(node, Scannable):
            return None
        # The inputs of a value need not be part of the statement.
        inputs = [
            self._known.get(done.get(id(value), value)) or self._find_computation(value, done) for value in node.values
        ]
        if not inputs or inputs[0] is None:
            return None
        scan = inputs[0][0]
        given = tuple([found[1] for found in inputs if found is not None and found[0] is scan])
        return (
            (scan, ScanComputation(given, node.compute, node.result, node.worth_at))
            if len(given) == len(inputs)
            else None
        )

    def _unbind(self, node: Fragment, done: dict[int, Fragment]) -> Fragment | None:
        """Returns the body of a bound value that is a column now, or ``None``."""
        if not isinstance(node, BoundFragment):
            return None
        value = done.get(id(node.value)) or self._replace_by_column(node.value, done) or node.value
        if value not in self._columns:
            return None
        self.has_found = True
        return node.body(value)

    def _rebuild(self, node: Fragment, done: dict[int, Fragment]) -> Fragment:
        other = node.with_parts(tuple([done.get(id(part), part) for part in node.parts]))
        found = self._find_computation(node, done)
        if found is not None:
            self._known[other] = found
        return other
