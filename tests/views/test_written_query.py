"""The text that is kept of a query: its tree again, and ClickHouse's layout."""

from __future__ import annotations

from typing import Any

import pytest

from sql.grammar.queries.query_formatter import format_view_query
from sql.grammar.queries.query_parser import parse_query
from tests.portions import one_in

AS_CLICKHOUSE = [
    "select a, count() c from db.t where b = 'x' and a in (1,2,3) or not c group by a, b having c > 1 order by a desc",
    "with 1 as one select *, t.a + one * 2 as z, a = 1 ? 2 : 3, a::Int8, [1,2], (1, 'x'), -a, -1, a is null from t",
    "with q as (select 1 as y), r as (select 2 union all select 3) select * from q as x left join r on x.y = r.y",
    "select arrayMap((x, y) -> x + y, a, b), arr[1][2], f(a + 1), quantile(0.5)(x), `weird name`, (a, b).2 from t",
    "select sum(a) over w, row_number() over (order by a rows between unbounded preceding and current row) from t"
    " window w as (partition by b)",
    "select a from (select distinct a from t limit 3 offset 4) as s any left join u using (a, b) prewhere a > 1",
    "select a from t group by rollup(a, b)",
    "select * except (a, b), t.*, columns('a.*'), * replace (a + 1 as a) from t final",
    "select a from t where a in (select 1) and exists(select 2) and (c or d) order by a nulls first, b desc nulls last",
    "select case when a = 1 then 2 else 3 end, interval 1 day, a || 'it\\'s', a - (b - c), (a as q) + 1 from t",
    "select a from t left array join arr as q, arr2 where {x:UInt32} = 1 limit 1 by a, b limit 2",
    "select any(a) ignore nulls, 1.5, null, true, 18446744073709551615 from numbers(10) as n, u",
]
OTHERS = [
    "select count(distinct a), sum(a) filter (where b > 1) from t sample 1/10 offset 1/2",
    "select distinct on (a) a from t order by all",
    "select a from t group by grouping sets ((a), (a, b))",
    "select a from t group by all limit 3 with ties",
    "select a from t as x, (select 1) as y, (t as z inner join u on z.a = u.a)",
    "select a = any (select 1), -(-1), - -a, not not a, 0x10, 1e10, t.1, * apply (sum), * apply (x -> x + 1) from t",
    "select a from t where a in (" + ", ".join(map(str, range(3000))) + ")",
    "select 1 intersect distinct (select 2 union all select 3) except all select 4",
    "select a from view(select 1 as a) offset 5",
    "select nan, -inf, a from t global any left join u using (a) where a global not in (select 1)",
    "select map('k', 1)['k'], tuple(), tuple(1), array(), [], `a.b`.c, a.`b.c`, lambda(tuple(x), x), date '2020-01-01'",
]


@pytest.fixture(scope="module")
def oracle() -> Any:
    from chdb import session

    return session.Session()


@pytest.mark.parametrize("query", AS_CLICKHOUSE)
@pytest.mark.parametrize("one_line", [False, True])
def test_layout(oracle: Any, query: str, one_line: bool) -> None:
    escaped = query.replace("\\", "\\\\").replace("'", "\\'")
    function = "formatQuerySingleLine" if one_line else "formatQuery"
    expected = str(oracle.query(f"SELECT {function}('{escaped}') FORMAT TSVRaw")).rstrip("\n")
    assert format_view_query(parse_query(query), one_line=one_line) == expected


@pytest.mark.parametrize("query", one_in(3, [*AS_CLICKHOUSE, *OTHERS]))
def test_the_text_is_the_same_query(query: str) -> None:
    tree = parse_query(query)
    assert parse_query(format_view_query(tree)) == tree
    assert parse_query(format_view_query(tree, one_line=True)) == tree
