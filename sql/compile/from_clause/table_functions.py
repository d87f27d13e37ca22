"""Table functions of FROM: numbers, zeros, generateSeries, values, file, view, generateRandom."""

from __future__ import annotations

from parts.common.errors import UserError
from parts.types import TupleType, parse_structure
from sql.compile.compiled_query import CompiledQuery
from sql.compile.compiler_interfaces import FromClauseCompiling
from sql.compile.expressions.constant_numbers import evaluate_row_count
from sql.compile.from_clause.generate_random import compile_generate_random
from sql.compile.generated_rows import generated_rows
from sql.compile.names.scope import column_sql
from sql.compile.shards.remote_table_functions import SHARD_FUNCTIONS
from sql.grammar.syntax_tree import Identifier, Node, Subquery, TableFunction
from sql.typing.casts.casts import cast_to
from sql.typing.duckdb.sql_fragments import Fragment, fragment, join_fragments
from sql.typing.result_types import supertype
from sql.typing.typed_expressions import UINT8, UINT64, Typed

_MAX_ROWS = 9_223_372_036_854_775_807
_MAX_UINT64 = (1 << 64) - 1


def compile_table_function(clause: FromClauseCompiling, node: TableFunction) -> Fragment:
    """Compiles a table function. Raises ``UserError`` 46 for an unknown name."""
    build = _FUNCTIONS.get("values" if node.name.lower() == "values" else node.name)
    if build is None:
        known = ", ".join(table_function_names())
        raise UserError("UNKNOWN_FUNCTION", f"Unknown table function {node.name} (known: {known})")
    return build(clause, node)


def table_function_names() -> list[str]:
    """Returns the names of all table functions, sorted."""
    return sorted([*_FUNCTIONS, *SHARD_FUNCTIONS])


def _compile_numbers(clause: FromClauseCompiling, node: TableFunction) -> Fragment:
    counts = _count_arguments(clause, node)
    if len(counts) > 3:
        raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", "numbers takes at most (offset, count, step)")
    start, step = (counts[0], counts[2] if len(counts) > 2 else 1) if len(counts) > 1 else (0, 1)
    if step == 0:
        raise UserError("BAD_ARGUMENTS", f"Table function {node.name} requires step to be a positive number")
    end = _MAX_ROWS if not counts else (counts[0] if len(counts) == 1 else start + counts[1])
    return _compile_range(clause, node, "number", start, end, step)


def _count_arguments(clause: FromClauseCompiling, node: TableFunction) -> list[int]:
    """Returns the arguments as numbers. Raises 43 (ILLEGAL_TYPE_OF_ARGUMENT) for one that is no UInt64."""
    for arg in node.args:
        number = clause.rows.compile(arg).value
        if isinstance(number, int | float) and not (0 <= number <= _MAX_UINT64 and number == int(number)):
            raise UserError("ILLEGAL_TYPE_OF_ARGUMENT", f"The value {number} is not representable as UInt64")
    return [evaluate_row_count(arg, clause.rows, f"Argument of {node.name}") for arg in node.args]


def _compile_range(
    clause: FromClauseCompiling, node: TableFunction, column: str, start: int, end: int, step: int
) -> Fragment:
    """Compiles a range of UInt64.

    DuckDB's range is signed: beyond Int64 the rows are counted, and numbers continue from 0 after the last. More than
    ``_MAX_ROWS`` rows are never read to the end.
    """
    source = clause.add_source(node.alias or ("" if node.args else node.name), [(column, UINT64)])
    name = column_sql(source.number, column)
    rows = max(min(-(-(end - start) // step), _MAX_ROWS), 0)
    made = generated_rows(rows, 8, clause.rows.environment.settings)
    if max(start, end, step) <= _MAX_ROWS:
        end = min(end, start + made.rows * step)
        return fragment(
            "(SELECT CAST(range AS UBIGINT) AS {} FROM range({}, {}, {}) {})",
            name, start, end, step, made.check(start, step),
        )  # fmt: skip
    return fragment(
        "(SELECT CAST((CAST(range AS HUGEINT) * {} + {}) % {} AS UBIGINT) AS {} FROM range({}) {})",
        step, start, _MAX_UINT64 + 1, name, made.rows, made.check(0, 1),
    )  # fmt: skip


def _compile_series(clause: FromClauseCompiling, node: TableFunction) -> Fragment:
    if len(node.args) not in (2, 3):
        raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", f"{node.name} takes (start, stop[, step])")
    start, stop, step = [*_count_arguments(clause, node), 1][:3]
    if step == 0:
        raise UserError("BAD_ARGUMENTS", f"Table function '{node.name}' requires step to be a non-zero number")
    if (stop - start) // step >= _MAX_UINT64:
        raise UserError(
            "BAD_ARGUMENTS",
            f"Table function '{node.name}' would generate more values than can be represented in UInt64",
        )
    return _compile_range(clause, node, "generate_series", start, stop + 1, step)


def _compile_zeros(clause: FromClauseCompiling, node: TableFunction) -> Fragment:
    count = min(_count_arguments(clause, node)[0], _MAX_ROWS) if node.args else _MAX_ROWS
    source = clause.add_source(node.alias, [("zero", UINT8)])
    name = column_sql(source.number, "zero")
    made = generated_rows(count, 1, clause.rows.environment.settings)
    return fragment("(SELECT CAST(0 AS UTINYINT) AS {} FROM range({}) {})", name, made.rows, made.check(0, 1))


def _check_width(width: int, wanted: int) -> None:
    if width != wanted:
        raise UserError("BAD_ARGUMENTS", f"A row of values has {width} columns, the structure {wanted}")


def _row_cells(row: Typed) -> tuple[Typed, ...]:
    """Returns the columns of a row: the elements of a tuple, or the value itself."""
    return row.elements if row.elements and isinstance(row.type, TupleType) else (row,)


def _parse_columns(text: object) -> list[tuple[str, object]]:
    """Returns the columns that a structure text names; none if the text is a value. Raises ``UserError``."""
    if not isinstance(text, str):
        return []
    try:
        columns = parse_structure(text)
    except UserError:
        if " " in text.strip():
            raise
        return []
    return [(name or f"c{position}", type_) for position, (name, type_) in enumerate(columns, 1)]


def _compile_values(clause: FromClauseCompiling, node: TableFunction) -> Fragment:
    """Compiles ``values(['structure',] row, …)``. Raises ``UserError`` 36, 42."""
    rows = [clause.rows.compile(arg) for arg in node.args]
    if not rows:
        raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", "values takes a structure and rows")
    columns = _parse_columns(rows[0].value)
    if columns:
        rows.pop(0)
    else:
        parts = [_row_cells(row) for row in rows]
        width = len(parts[0])
        for part in parts:
            _check_width(len(part), width)
        columns = [(f"c{i + 1}", supertype(part[i].type for part in parts)) for i in range(width)]
    if not rows:
        raise UserError("BAD_ARGUMENTS", "values needs at least one row")
    lines = []
    for row in rows:
        cells = _row_cells(row) if len(columns) > 1 else (row,)
        _check_width(len(cells), len(columns))
        zone = clause.query.environment.zone
        texts = [cast_to(cell, type_, zone) for cell, (_, type_) in zip(cells, columns, strict=True)]  # type: ignore[arg-type]
        lines.append(fragment("({})", join_fragments(", ", texts)))
    compiled = CompiledQuery(fragment("VALUES {}", join_fragments(", ", lines)), tuple(columns))  # type: ignore[arg-type]
    return clause.derived(compiled, node.alias)


def _compile_view(clause: FromClauseCompiling, node: TableFunction) -> Fragment:
    if len(node.args) != 1 or not isinstance(node.args[0], Subquery):
        raise UserError("BAD_ARGUMENTS", "view takes a query: view(SELECT …)")
    return clause.derived(clause.query.compile(node.args[0].query), node.alias)


def _compile_file(clause: FromClauseCompiling, node: TableFunction) -> Fragment:
    if not 1 <= len(node.args) <= 3:
        raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", "file takes (path[, format[, structure]])")
    texts = [_text_argument(clause, argument) for argument in node.args]
    relation = clause.query.catalog.find_file(*texts)
    return clause.relation(relation, node.alias)


def _text_argument(clause: FromClauseCompiling, node: Node) -> str:
    """Returns a constant or a bare word as a text. Raises ``UserError`` 36."""
    if isinstance(node, Identifier):
        return ".".join(node.parts)
    value = clause.query.constant(clause.rows.compile(node))
    if not isinstance(value, str):
        raise UserError("BAD_ARGUMENTS", f"The arguments of file are texts, got {value!r}")
    return value


_FUNCTIONS = {
    "numbers": _compile_numbers,
    "numbers_mt": _compile_numbers,
    "zeros": _compile_zeros,
    "zeros_mt": _compile_zeros,
    "generateSeries": _compile_series,
    "generate_series": _compile_series,
    "values": _compile_values,
    "file": _compile_file,
    "generateRandom": compile_generate_random,
    "view": _compile_view,
}
