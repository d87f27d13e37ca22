"""Computes constant expressions in DuckDB and caches the values by text."""

from __future__ import annotations

from parts.common.lru_cache import LruCache
from sql.compile.macros_and_kernels import check_macro_weight
from sql.grammar.text_cache import MAX_CACHED_TEXT_CHARACTERS, TextKey, make_text_cache
from sql.run.duckdb import database
from sql.typing.typed_expressions import Typed


def fold_constant(value: Typed) -> object:
    """Returns the Python value of a constant expression.

    The time is a literal in the text, so equal texts have equal values.
    """
    check_macro_weight(value.sql)
    sql = value.number.render()
    return _constants.get((sql, None), lambda: _compute_constant(sql))


def _constant_size(value: object) -> int:
    if isinstance(value, (str, bytes)):
        return len(value)
    return MAX_CACHED_TEXT_CHARACTERS + 1 if isinstance(value, (list, tuple, dict)) else 0


_constants: LruCache[TextKey, object] = make_text_cache(2048, _constant_size)


def _compute_constant(sql: str) -> object:
    cursor = database.open_cursor()
    try:
        return cursor.execute(database.prepare_sql(f"SELECT {sql}")).fetchall()[0][0]
    except Exception as error:
        raise database.translate_error(error) from None
    finally:
        cursor.close()
