-- Tuples with NULL and NaN: compared, and looked for in sets.
SELECT tuple(number) = tuple(materialize(toUInt64OrNull(''))) AS r FROM numbers(2)
SELECT tuple(number) < tuple(materialize(toUInt64OrNull(''))) AS r, tuple(number) != tuple(materialize(toUInt64OrNull(''))) AS s, tuple(number) >= tuple(materialize(toUInt64OrNull(''))) AS u FROM numbers(2)
SELECT (1, x) = (1, y), (1, x) = (2, y), (1, x) != (2, y), (1, x) < (2, y), (1, x) < (0, y), (1, x) <= (2, y), (1, x) >= (0, y), (1, x) > (2, y) FROM (SELECT materialize(toUInt64OrNull('')) AS x, materialize(5) AS y)
SELECT (x, 1) = (y, 1), (x, 1) = (y, 2), (x, 1) != (y, 2), (x, 1) < (y, 2), (x, 1) < (y, 0), (x, 1) <= (y, 2), (x, 1) >= (y, 0), (x, 1) > (y, 2) FROM (SELECT materialize(toUInt64OrNull('')) AS x, materialize(5) AS y)
SELECT (x, 1) = (x, 1), (x, 1) = (NULL, 1), (1, NULL) = (1, NULL), (1, NULL) = (2, NULL), (1, NULL) < (2, NULL), (1, 2) = (NULL, 2) FROM (SELECT materialize(toUInt64OrNull('')) AS x, materialize(5) AS y)
SELECT (1, ni) = (1, 5), (1, ni) < (1, 5), (1, ni) <= (id, 5), (ni, ns) != (5, 'n1'), (ni, ns) > (5, 'n1') FROM types WHERE id < 30 ORDER BY id
SELECT tuple(ni) = tuple(nf), t = (1, 'a'), t < (1, 'a'), nt = (0, 'y') FROM types WHERE id < 6 ORDER BY id
SELECT (1, (x, 2)) = (1, (3, y)), (1, (x, 2)) = (2, (3, y)), (1, (x, 2)) < (2, (3, y)), (1, (x, 2)) = (1, (3, 5)) FROM (SELECT materialize(toUInt64OrNull('')) AS x, materialize(5) AS y)
SELECT [x] = [x], [x, 1] = [1, x], [(x, 1)] = [(x, 1)], [(1, x)] < [(2, x)] FROM (SELECT materialize(toUInt64OrNull('')) AS x)
SELECT (1.5, nan) = (1.5, nan), (nan, 1) < (1, 1), (1, nan) != (1, nan), (nan, 1) <= (nan, 1), (x, 1) = (x, 1), (1, x) > (1, 2) FROM (SELECT materialize(nan) AS x)
SELECT (1, 'a') = ('1', 'a'), (toDate('2020-01-01'), 1) = ('2020-01-01', 1), (materialize(toDate('2020-01-01')), 1) < ('2020-02-01', 0)
SELECT number FROM numbers(5) WHERE (number, nullIf(number, 2)) != (1, 1)
SELECT (number, NULL) = (1, NULL) FROM numbers(2)
SELECT (nullIf(number, 2), -nullIf(number, 2)) IN ((1, -1), (NULL, NULL), (3, -3)) FROM numbers(5)
SELECT (number, -nullIf(number, 3)) IN (SELECT nullIf(number, 2), -number FROM numbers(1, 3)) FROM numbers(5)
SELECT (number, -nullIf(number, 3)) NOT IN (SELECT nullIf(number, 2), -number FROM numbers(1, 3)) FROM numbers(5)
SELECT (number, nullIf(number, 3)) IN ((1, 1), (3, NULL)), (number, nullIf(number, 3)) NOT IN ((1, 1), (3, NULL)) FROM numbers(5)
SELECT (number, nullIf(number, 3)) IN ((1, 1)), (number, nullIf(number, 3)) NOT IN ((1, 1)) FROM numbers(5)
SELECT nullIf(number, 3) IN (1, NULL), nullIf(number, 3) NOT IN (1, NULL), nullIf(number, 3) IN (NULL) FROM numbers(5)
SELECT nullIf(number, 3) IN (SELECT nullIf(number, 2) FROM numbers(3)), nullIf(number, 3) NOT IN (SELECT nullIf(number, 2) FROM numbers(3)) FROM numbers(5)
SELECT tuple(nullIf(number, 3)) IN (tuple(1), tuple(NULL)) AS x FROM numbers(5)
SELECT (1, NULL) IN ((1, NULL), (2, 3)), (1, NULL) IN ((1, 2)), (1, NULL) IN (SELECT 1, 2)
SELECT count() FROM types WHERE (id, ni) NOT IN (SELECT 21, 1)
SELECT count() FROM types WHERE NOT ((id, ni) IN (SELECT 21, 1))
SELECT has([(1, NULL), (2, 3)], (1, NULL)), has([(1, NULL), (2, 3)], (2, 3)), indexOf([(1, NULL)], (1, NULL))
SELECT (1, toNullable(2)) = (2, toUInt8OrNull('')), (1, (2, NULL)) = (2, (2, 1)), (materialize(1), NULL) = (2, NULL), (1, toUInt8OrNull('')) = (2, 3)
SELECT (id, ni) IN [(21, 1), (25, 5), (3, NULL)] AS x, count() FROM types GROUP BY x ORDER BY x
SELECT t IN ((1, 't1'), (2, 't2')) AS x, count() FROM types GROUP BY x ORDER BY x
SELECT x IN (SELECT ni, id FROM types) AS y, x < (1, 5) AS z, x = (1, 21) AS w, x >= (NULL, 3), id FROM (SELECT (ni, id) AS x, id FROM types) WHERE id < 30 ORDER BY id
SELECT max((ni, ns) = (5, 'n1')), min((nf, dec) < (10, 7)), sum((nf, f64) >= (3, 7)), sum((nf, f64) <= (nf, 7)) FROM types
SELECT count() FROM types WHERE (ni, ns) != (5, 'n1')
SELECT arrayMap(x -> (x, nullIf(x, 2)) <= (2, 2), [1, 2, 3])
SELECT id FROM types WHERE (d, id) < ('2020-01-05', 3) ORDER BY id
SELECT (f64, id) > (10, 5) FROM types ORDER BY id
-- Keys of GROUP BY with subqueries inside.
SELECT u8 IN (SELECT u8 FROM types) AS x, count() FROM types GROUP BY x ORDER BY x
SELECT u8 IN (SELECT u8 FROM types) AS x, count() FROM types GROUP BY u8 IN (SELECT u8 FROM types) ORDER BY x
SELECT x, count() FROM (SELECT u8 IN (SELECT u8 FROM types) AS x FROM types) GROUP BY x ORDER BY x
SELECT u8 IN (SELECT id FROM types WHERE id < 10) AS x, count() FROM types GROUP BY x ORDER BY x
SELECT (SELECT max(id) FROM types) AS x, count() FROM types GROUP BY x ORDER BY x
SELECT count() FROM types GROUP BY id IN (SELECT id FROM types WHERE id < 10) ORDER BY 1
SELECT id IN (SELECT id FROM types WHERE id < 10) AS x, count() FROM types GROUP BY x HAVING x = 1
SELECT u8 % 2 + (SELECT 1) AS x, count(), x + 1 AS y FROM types GROUP BY x ORDER BY x
SELECT not(u8 IN (SELECT id FROM types WHERE id < 10)) AS x, if(x, 'a', 'b') AS z, count() FROM types GROUP BY x ORDER BY x
SELECT id IN (SELECT id FROM types WHERE id < 10) AS x, id IN (SELECT id FROM types WHERE id < 20) AS y, count() FROM types GROUP BY 1, 2 ORDER BY ALL
SELECT id IN (SELECT id FROM types WHERE id < 10), count() FROM types GROUP BY ALL ORDER BY 2
SELECT id IN (SELECT id FROM types WHERE id < 10) AS x, count() FROM types GROUP BY x WITH ROLLUP ORDER BY ALL
SELECT sum(u8) AS s, (id, u8) IN (SELECT id, u8 FROM types WHERE id < 10) AS x FROM types GROUP BY x ORDER BY x DESC LIMIT 1
SELECT (ni, id) IN (SELECT ni, id FROM types) AS x, count() FROM types GROUP BY x ORDER BY x
SELECT (ni, (id, ni)) IN ((1, (21, 1)), (5, (25, 5))) AS x, count() FROM types GROUP BY x ORDER BY x
SELECT (id, ni) IN [(21, 1), (25, 5), (3, NULL)] AS x, count() FROM types GROUP BY x ORDER BY x
SELECT t IN ((1, 't1'), (2, 't2')) AS x, count() FROM types GROUP BY x ORDER BY x
