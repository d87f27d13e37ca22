"""Compiles JOIN in all of ClickHouse's kinds and strictnesses, as DuckDB joins.

An outer join gives defaults, not NULLs (``join_use_nulls = 0``): columns of the side that may lack a row are marked
*filled*, and every reference to them replaces NULL by the default. ANY and SEMI keep one row for each key by DISTINCT
ON the key, or, where that would change values, by a window over it.
"""

from __future__ import annotations

from parts.common.errors import UserError
from parts.types import DataType, EnumType, make_nullable, strip_nullable
from sql.compile.compiler_interfaces import FromClauseCompiling
from sql.compile.names.scope import Source, SourceColumn
from sql.grammar.syntax_tree import Function, Identifier, Join, Node, Subquery, conjuncts, walk
from sql.grammar.tokens import not_implemented
from sql.typing.casts.casts import convert_to_supertype
from sql.typing.column_kernels.float_bits import floats_to_bits, has_floats_inside
from sql.typing.duckdb.engine_types import duckdb_type
from sql.typing.duckdb.sql_fragments import EMPTY, Fragment, fragment, join_fragments
from sql.typing.result_types import is_date_or_time, is_number, supertype
from sql.typing.typed_expressions import Typed


def compile_join(clause: FromClauseCompiling, node: Join) -> Fragment:
    """Compiles a JOIN. Raises ``UserError`` 47, 48, 169, 386, 403."""
    left_sql = clause.compile(node.left)
    left = list(clause.scope.sources)
    right_sql = clause.compile(node.right)
    right = clause.scope.sources[len(left) :]
    if node.kind == "CROSS" or (node.on is None and not node.using):
        return fragment("{} CROSS JOIN {}", left_sql, right_sql)
    sides = _Sides(clause, left, right)
    if node.using:
        sides.add_using(node.using, asof=node.strictness == "ASOF")
    else:
        sides.add_conditions(node.on)
    text = _JOINS[node.strictness](node, sides, left_sql, right_sql)
    _mark_filled(clause, node, left, right)
    if node.using:
        sides.merge_using(node)
    return text


class _Sides:
    """The two sides of a join and its condition, split into equalities and everything else."""

    def __init__(self, clause: FromClauseCompiling, left: list[Source], right: list[Source]) -> None:
        self.clause = clause
        self.left = left
        self.right = right
        self.keys: list[tuple[Fragment, Fragment]] = []
        self.other: list[Fragment] = []
        self._nearest: list[Typed] = []
        self.right_only: list[Fragment] = []
        self.left_only: list[Fragment] = []
        self._using: list[tuple[Source, Source, str, Typed, Typed]] = []

    def add_conditions(self, on: Node | None) -> None:
        """Splits the condition of ON."""
        for term in conjuncts(on):
            side = self._side_of(term)
            pair = self._equality(term)
            if pair is not None:
                self.keys.append(pair)
            elif side == "left":
                self.left_only.append(self.clause.rows.condition(term))
            elif side == "right":
                self.right_only.append(self.clause.rows.condition(term))
            else:
                self.other.append(self.clause.rows.condition(term))

    def _equality(self, term: Node) -> tuple[Fragment, Fragment] | None:
        if not isinstance(term, Function) or term.name != "equals" or len(term.args) != 2:
            return None
        first, second = term.args
        sides = self._side_of(first), self._side_of(second)
        if sides == ("right", "left"):
            first, second = second, first
        elif sides != ("left", "right"):
            return None
        return self._key(self.clause.rows.compile(first).plain, self.clause.rows.compile(second).plain)

    def _key(self, left: Typed, right: Typed) -> tuple[Fragment, Fragment]:
        common = supertype([left.type, right.type])
        a, b = self._converted(left, right)
        return floats_to_bits(a, common), floats_to_bits(b, common)

    def _converted(self, left: Typed, right: Typed) -> tuple[Fragment, Fragment]:
        common = supertype([left.type, right.type])
        zone = self.clause.query.environment.zone
        return convert_to_supertype(left, common, zone), convert_to_supertype(right, common, zone)

    def _side_of(self, node: Node) -> str:
        """Returns the side whose columns an expression reads: left, right, both, or "" for none."""
        sides: set[str] = set()
        for part in walk(node):
            if isinstance(part, Subquery):
                return "both"
            if isinstance(part, Identifier):
                target = self.clause.scope.aliases.get(part.parts[0])
                found = self.clause.scope.find_column(part.parts)
                if found is not None:
                    sides.add("left" if found[0] in self.left else "right")
                elif target is not None:
                    sides.add(self._side_of(target))
        sides.discard("")
        return "both" if len(sides) > 1 else (sides.pop() if sides else "")

    def add_using(self, names: tuple[str, ...], *, asof: bool) -> None:
        """Adds the equalities of USING. Raises ``UserError`` 47."""
        for position, name in enumerate(names):
            first = _find_using_source(self.left, name, "left")
            second = _find_using_source(self.right, name, "right")
            first.used[name] = second.used[name] = None
            a, b = (first.columns[name].merged or first.columns[name]).typed, second.columns[name].typed
            if asof and position == len(names) - 1:
                self.other.append(fragment("{} >= {}", *self._converted(a, b)))
                self._nearest += [a, b]
            else:
                self.keys.append(self._key(a, b))
            self._using.append((first, second, name, a, b))

    def merge_using(self, node: Join) -> None:
        """Defines what USING's names mean without a table.

        A name means the left column, or the right one where only the right row exists. Each table's own column takes
        the common type of both.
        """
        zone = self.clause.query.environment.zone
        lost = {"LEFT": self.right, "RIGHT": self.left}[node.kind] if node.strictness == "ANTI" else []
        for first, second, name, a, b in self._using:
            own, copy = first.columns[name], second.columns[name]
            known = own.merged or own
            common = supertype([a.type, b.type])
            left, right = convert_to_supertype(a, common, zone), convert_to_supertype(b, common, zone)
            copy.hidden = copy.copied = True
            _set_common_type(copy, common, _null_of_type(common) if second in lost else right)
            _set_common_type(known, common, _null_of_type(common) if first in lost else left)
            if node.kind == "FULL":
                own.merged = SourceColumn(name, known.type, fragment("coalesce({}, {})", left, right))
            elif node.kind == "RIGHT":
                own.merged = SourceColumn(name, common, right)
        self.clause.scope.using.append(tuple(name for _, _, name, _, _ in self._using))

    @property
    def condition(self) -> Fragment:
        """The whole condition as SQL."""
        terms = [fragment("{} = {}", left, right) for left, right in self.keys]
        return join_fragments(" AND ", [*terms, *self.left_only, *self.right_only, *self.other]) or fragment("true")

    def check_asof_types(self, on: Node | None) -> None:
        """Checks the types of the inequality of ASOF.

        Raises 169 (BAD_TYPE_OF_FIELD) for a type without distances.
        """
        for term in conjuncts(on):
            if self._side_of(term) == "both" and self._equality(term) is None and isinstance(term, Function):
                self._nearest += [self.clause.rows.compile(argument) for argument in term.args]
        for type_ in (strip_nullable(value.type) for value in self._nearest):
            if not (is_number(type_) or is_date_or_time(type_) or isinstance(type_, EnumType)):
                raise UserError("BAD_TYPE_OF_FIELD", f"ASOF JOIN is not supported for the type {type_.name}")

    def one_row_per_left_key(self, sql: Fragment) -> Fragment:
        """Returns the rows of the left side, one for each key."""
        return _keep_one_row_per_key(sql, self.left, [key for key, _ in self.keys], self.left_only)

    def one_row_per_right_key(self, sql: Fragment) -> Fragment:
        """Returns the rows of the right side, one for each key."""
        return _keep_one_row_per_key(sql, self.right, [key for _, key in self.keys], self.right_only)

    def require_keys(self, what: str) -> None:
        """Raises ``UserError`` 48 unless the condition is a conjunction of equalities."""
        if not self.keys or self.other:
            raise not_implemented(f"{what} JOIN with a condition that is not a conjunction of equalities")


def _set_common_type(column: SourceColumn, common: DataType, sql: Fragment) -> None:
    was_nullable = column.type.is_nullable
    column.sql, column.type = sql, make_nullable(common) if was_nullable else common


def _find_using_source(sources: list[Source], name: str, side: str) -> Source:
    for source in sources:
        if name in source.columns and not source.columns[name].hidden:
            return source
    raise UserError("UNKNOWN_IDENTIFIER", f"JOIN USING identifier '{name}' is not a column of the {side} side")


def _join_all(node: Join, sides: _Sides, left: Fragment, right: Fragment) -> Fragment:
    return fragment("({} {} JOIN {} ON {})", left, node.kind, right, sides.condition)


def _join_any(node: Join, sides: _Sides, left: Fragment, right: Fragment) -> Fragment:
    sides.require_keys("ANY")
    if sides.clause.query.settings.any_join_distinct_right_table_keys:  # only the right side keeps one row a key
        return _join_all(node, sides, left, sides.one_row_per_right_key(right))
    if node.kind == "FULL":
        raise not_implemented("ANY FULL JOIN")
    if node.kind in ("LEFT", "INNER"):
        right = sides.one_row_per_right_key(right)
    if node.kind in ("RIGHT", "INNER"):
        left = sides.one_row_per_left_key(left)
    return _join_all(node, sides, left, right)


def _keep_one_row_per_key(
    sql: Fragment, sources: list[Source], keys: list[Fragment], filters: list[Fragment]
) -> Fragment:
    where = fragment(" WHERE {}", join_fragments(" AND ", filters)) if filters else EMPTY
    key = join_fragments(", ", keys)
    if any(has_floats_inside(column.type) for source in sources for column in source.columns.values()):
        return fragment("(SELECT * FROM {}{} QUALIFY row_number() OVER (PARTITION BY {}) = 1)", sql, where, key)
    return fragment("(SELECT DISTINCT ON ({}) * FROM {}{})", key, sql, where)


def _join_semi(node: Join, sides: _Sides, left: Fragment, right: Fragment) -> Fragment:
    sides.require_keys("SEMI")
    if node.kind == "LEFT":
        right = sides.one_row_per_right_key(right)
    else:
        left = sides.one_row_per_left_key(left)
    return fragment("({} INNER JOIN {} ON {})", left, right, sides.condition)


def _join_anti(node: Join, sides: _Sides, left: Fragment, right: Fragment) -> Fragment:
    lost = sides.right if node.kind == "LEFT" else sides.left
    text = (
        fragment("({} ANTI JOIN {} ON {})", left, right, sides.condition)
        if node.kind == "LEFT"
        else fragment("({} ANTI JOIN {} ON {})", right, left, sides.condition)
    )
    for source in lost:  # the rows of this side do not exist
        for column in source.columns.values():
            column.sql = _null_of_type(column.type)
    return text


def _null_of_type(type_: DataType) -> Fragment:
    return fragment("CAST(NULL AS {})", duckdb_type(type_))


def _join_asof(node: Join, sides: _Sides, left: Fragment, right: Fragment) -> Fragment:
    if node.kind not in ("LEFT", "INNER"):
        raise not_implemented(f"ASOF {node.kind} JOIN")
    if len(sides.other) != 1:
        raise UserError(
            "INVALID_JOIN_ON_EXPRESSION", "ASOF JOIN needs equalities and exactly one inequality (<, <=, >, >=)"
        )
    sides.check_asof_types(node.on)
    return fragment("({} ASOF {}JOIN {} ON {})", left, "LEFT " if node.kind == "LEFT" else "", right, sides.condition)


_JOINS = {"ALL": _join_all, "ANY": _join_any, "SEMI": _join_semi, "ANTI": _join_anti, "ASOF": _join_asof}


def _mark_filled(clause: FromClauseCompiling, node: Join, left: list[Source], right: list[Source]) -> None:
    missing = {"LEFT": right, "RIGHT": left, "FULL": [*left, *right]}.get(node.kind, [])
    if node.strictness in ("ASOF", "ANY"):  # fewer candidates would change which row is kept
        for source in [*left, *right]:
            source.prunable = source.prunable and source in left and node.kind == "LEFT"
    use_nulls = clause.query.settings.join_use_nulls
    for source in missing:
        source.prunable = False
        if node.strictness == "SEMI" and not use_nulls:  # no row is missing
            continue
        for column in source.columns.values():
            column.lose_row(use_nulls=use_nulls)
