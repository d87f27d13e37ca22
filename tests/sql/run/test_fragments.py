"""DuckDB SQL as a tree: what is rendered, what is equal, and what is known without rendering."""

from __future__ import annotations

import pytest

from sql.compile.macros_and_kernels import check_macro_weight
from sql.functions import memory_guards
from sql.typing.duckdb.sql_fragments import (
    EMPTY,
    WINDOW,
    WRITE_ONCE,
    Fragment,
    ScanReference,
    fragment,
    function_call,
    join_fragments,
    leaf,
)
from sql.typing.typed_expressions import string_literal

_X = leaf('"1.x"')


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (fragment("CAST({} AS {})", _X, "DOUBLE"), 'CAST("1.x" AS DOUBLE)'),
        (fragment("({0} + {1}) * {0}", _X, 2), '("1.x" + 2) * "1.x"'),
        (fragment("{low} <= {} AND {} <= {low}", _X, 7, low=3), '3 <= "1.x" AND 7 <= 3'),
        (fragment("MAP {{}}"), "MAP {}"),
        (function_call("f"), "f()"),
        (function_call("f", _X, "a"), 'f("1.x", a)'),
        (join_fragments(", ", ["a", _X, 1]), 'a, "1.x", 1'),
        (join_fragments(", ", ["a"]), "a"),
        (join_fragments(", ", []), ""),
        (fragment("{}{}", EMPTY, string_literal("it's {}")), "'it''s {}'"),
    ],
)
def test_rendered(made: Fragment, expected: str) -> None:
    assert made.render() == expected
    assert made.size == len(expected)
    assert bool(made) == bool(expected)


def test_tables_are_written_as_is_said_at_the_end() -> None:
    sql = fragment("{} JOIN {}", ScanReference(1), ScanReference(2))
    assert sql.render() == "s1 JOIN s2"
    assert sql.render({2: "(SELECT 1)"}) == "s1 JOIN (SELECT 1)"


@pytest.mark.parametrize("part", [None, True, 1.5, b"x"])
def test_only_sql_words_and_integers_stand_in_holes(part: object) -> None:
    with pytest.raises(TypeError):
        fragment("f({})", part)  # type: ignore[arg-type]


@pytest.mark.parametrize("parts", [(), ("a", "b")])
def test_every_hole_has_a_part(parts: tuple[str, ...]) -> None:
    with pytest.raises(TypeError):
        fragment("f({})", *parts)


def test_no_fragment_becomes_text_by_the_way() -> None:
    with pytest.raises(TypeError):
        str(_X)
    with pytest.raises(TypeError):
        f"f({_X})"


def test_equal_is_what_is_made_in_the_same_way() -> None:
    one, two = (fragment("f({}, {})", fragment("g({})", leaf('"1.x"')), "a") for _ in range(2))
    assert one == two
    assert {one: 1}[two] == 1
    assert one != fragment("f({}, {})", fragment("g({})", leaf('"1.y"')), "a")
    assert one != fragment("f({}, {})", fragment("g({})", leaf('"1.x"')), "b")


@pytest.mark.long
def test_trees_are_as_deep_as_they_like() -> None:
    def nested(levels: int) -> Fragment:
        sql = _X
        for _ in range(levels):
            sql = fragment("f({})", sql)
        return sql

    one, two = nested(100_000), nested(100_000)
    assert hash(one) == hash(two)
    assert one == two
    assert one.render() == "f(" * 100_000 + '"1.x"' + ")" * 100_000
    assert one.depth == 100_000


def test_a_tree_that_doubles_is_known_without_writing_it_out() -> None:
    one = two = fragment("pando_low_signed({})", _X)
    for _ in range(100):
        one, two = fragment("({0} + {0})", one), fragment("({0} + {0})", two)
    assert one == two
    assert one.size > 2**100
    assert one.weight > 2**100
    assert sum(1 for _ in one.nodes()) == 102


def test_macros_write_their_arguments_out() -> None:
    """``pando_replace`` names its first argument twice."""
    sql = _X
    once = fragment("lower({})", sql).weight
    written, parted = (
        fragment("pando_replace(lower({}), 1, 2)", sql),
        function_call("pando_replace", fragment("lower({})", sql), 1, 2),
    )
    assert written.weight == parted.weight > 2 * once
    assert written.depth == parted.depth == 2
    for _ in range(20):
        sql = fragment("pando_replace({}, 'a', 'b')", sql)
    with pytest.raises(Exception, match="too big"):
        check_macro_weight(sql)


def test_traits_are_inherited_and_no_user_text_has_any() -> None:
    window = fragment("rank(){}", fragment(" OVER (ORDER BY {})", _X))
    assert fragment("abs({})", window).traits & WINDOW
    assert fragment("abs({})", window).traits & WRITE_ONCE
    assert not string_literal("rank() OVER (ORDER BY random())").traits


def test_lambdas_in_lambdas_look_whether_the_query_may_go_on() -> None:
    inner = memory_guards.interruptible_body(fragment("x + 1"), False)
    assert inner.render() == "x + 1"
    outer = memory_guards.interruptible_body(fragment("list_transform(y, lambda x: {})", inner), False)
    assert outer.render().count("pando_room('/*run*/;watch'") == 2
    assert memory_guards.interruptible_body(fragment("x + 1"), True).render().count("pando_room('/*run*/;watch'") == 1
    again = memory_guards.interruptible_body(fragment("list_transform(z, lambda y: {})", outer), False)
    assert again.render().count("pando_room('/*run*/;watch'") == 3
    assert memory_guards.is_guarded(again)
    assert not memory_guards.is_guarded(inner)
