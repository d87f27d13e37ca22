-- 0.0 and -0.0, and NaN: two in hash tables (keys, sets, distinct values), one in comparisons and windows.
SELECT x, count() FROM zeros GROUP BY x ORDER BY toString(x)
SELECT f, count() FROM zeros GROUP BY f ORDER BY toString(f)
SELECT n, count() FROM zeros GROUP BY n ORDER BY toString(n)
SELECT a, count() FROM zeros GROUP BY a ORDER BY toString(a)
SELECT tuple(x,1) AS t, count() FROM zeros GROUP BY t ORDER BY toString(t)
SELECT x, f, count() FROM zeros GROUP BY x, f ORDER BY toString(x), toString(f)
SELECT x, f, count() FROM zeros GROUP BY x, f WITH ROLLUP ORDER BY toString(x), toString(f), count()
SELECT x, id % 2 AS p, count() FROM zeros GROUP BY x, p ORDER BY toString(x), p
SELECT x + 0 AS y, count() FROM zeros GROUP BY y ORDER BY toString(y)
SELECT toString(x) AS s, count() FROM zeros GROUP BY x ORDER BY s
SELECT x + 1 AS s, count() FROM zeros GROUP BY x ORDER BY s
SELECT uniqExact(tuple(x, 1)), uniqExact(tuple(x)) FROM zeros
SELECT sum(DISTINCT x), avg(DISTINCT x), sumDistinct(x), count(DISTINCT x, f), countDistinct(x) FROM zeros
SELECT arraySort(x -> toString(x), groupUniqArray(x)), length(groupUniqArray(x)), length(groupUniqArray(n)), length(groupUniqArray(a)) FROM zeros
SELECT length(groupArrayDistinct(x)) FROM zeros
SELECT length(arrayDistinct(groupArray(x))), arrayUniq(groupArray(x)) FROM zeros
SELECT arrayDistinct([0., -0., nan, nan]), arrayUniq([0., -0., nan, nan]), has([0.], -0.), indexOf([0., -0.], -0.), countEqual([0.,-0.],0.)
SELECT arrayDistinct([[0.], [-0.]]), arrayUniq([[0.],[-0.]]), arrayDistinct([(0.,1),(-0.,1)])
SELECT x FROM zeros INTERSECT SELECT -0. ORDER BY 1
SELECT x FROM (SELECT x FROM zeros INTERSECT SELECT 0.) ORDER BY toString(x)
SELECT x FROM zeros INTERSECT DISTINCT SELECT 0.
SELECT x FROM zeros INTERSECT DISTINCT SELECT nan
SELECT x FROM (SELECT x FROM zeros EXCEPT SELECT 0.) ORDER BY toString(x)
SELECT x FROM (SELECT x FROM zeros EXCEPT DISTINCT SELECT 0.) ORDER BY toString(x)
SELECT x FROM (SELECT x FROM zeros EXCEPT DISTINCT SELECT nan) ORDER BY toString(x)
SELECT x FROM (SELECT x FROM zeros UNION DISTINCT SELECT -0.) ORDER BY toString(x)
SELECT count() FROM zeros JOIN (SELECT -0. AS y) AS r ON x = y
SELECT count() FROM zeros JOIN (SELECT nan AS y) AS r ON x = y
SELECT count() FROM zeros JOIN (SELECT 0. AS y) AS r ON x = y
SELECT count() FROM zeros JOIN (SELECT 0. AS x) AS r USING x
SELECT count() FROM zeros AS l JOIN zeros AS r ON l.x = r.x
SELECT count() FROM zeros AS l JOIN zeros AS r ON l.x = r.x AND l.id = r.id
SELECT count() FROM zeros AS l ANY JOIN zeros AS r ON l.x = r.x
SELECT count() FROM zeros AS l SEMI JOIN zeros AS r ON l.x = r.x
SELECT count() FROM zeros AS l ANTI JOIN (SELECT 0. AS x) AS r ON l.x = r.x
SELECT count() FROM zeros AS l ANY LEFT JOIN (SELECT 0. AS x, 1 AS y) AS r ON l.x = r.x
SELECT count() FROM zeros AS l JOIN zeros AS r ON l.n = r.n
SELECT count() FROM zeros AS l JOIN zeros AS r ON l.f = r.x
SELECT count() FROM zeros AS l JOIN zeros AS r ON l.a = r.a
SELECT count() FROM zeros AS l JOIN zeros AS r ON (l.x, 1) = (r.x, 1)
SELECT count() FROM zeros AS l ANY LEFT JOIN (SELECT number::Float64 AS x FROM numbers(2)) AS r ON l.x = r.x WHERE r.x = 0
SELECT id FROM zeros WHERE x IN (0.) ORDER BY id
SELECT id FROM zeros WHERE x IN (-0.) ORDER BY id
SELECT id FROM zeros WHERE x IN (0.,1.5) ORDER BY id
SELECT id FROM zeros WHERE x IN (0) ORDER BY id
SELECT id FROM zeros WHERE x IN (nan) ORDER BY id
SELECT id FROM zeros WHERE f IN (0., 5.) ORDER BY id
SELECT id FROM zeros WHERE x IN (SELECT 0.) ORDER BY id
SELECT id FROM zeros WHERE x IN (SELECT -0.) ORDER BY id
SELECT id FROM zeros WHERE x IN (SELECT nan) ORDER BY id
SELECT id FROM zeros WHERE x NOT IN (SELECT 0.) ORDER BY id
SELECT id FROM zeros WHERE x NOT IN (0.) ORDER BY id
SELECT id FROM zeros WHERE n IN (0., nan) ORDER BY id
SELECT id FROM zeros WHERE n NOT IN (0., nan) ORDER BY id
SELECT id FROM zeros WHERE (x, 1) IN ((0., 1)) ORDER BY id
SELECT id FROM zeros WHERE (x, 1) IN (SELECT 0., 1) ORDER BY id
SELECT id FROM zeros WHERE a IN ([0.]) ORDER BY id
SELECT id FROM zeros WHERE a = [0.] ORDER BY id
SELECT id FROM zeros WHERE a = [nan] ORDER BY id
SELECT id FROM zeros WHERE x = 0 ORDER BY id
SELECT id FROM zeros WHERE (x,1) = (0.,1) ORDER BY id
SELECT id FROM zeros WHERE x IN (SELECT x FROM zeros) ORDER BY id
SELECT -0. IN (0.), 0. IN (-0.), nan IN (nan), -0. IN (0), 0 IN (-0.), 0. IN [-0.], has([nan], nan)
SELECT id, x FROM zeros ORDER BY id LIMIT 1 BY x
SELECT id, f FROM zeros ORDER BY id LIMIT 1 BY f
SELECT id, a FROM zeros ORDER BY id LIMIT 1 BY a
SELECT DISTINCT ON (x) id, x FROM zeros ORDER BY id
SELECT id, count() OVER (PARTITION BY x) FROM zeros ORDER BY id
SELECT id, count() OVER (PARTITION BY f) FROM zeros ORDER BY id
SELECT id, count() OVER (PARTITION BY n) FROM zeros ORDER BY id
SELECT id, count() OVER (PARTITION BY a) FROM zeros ORDER BY id
SELECT id, rank() OVER (ORDER BY x), dense_rank() OVER (ORDER BY x) FROM zeros ORDER BY id
SELECT id, count() OVER (ORDER BY x) FROM zeros ORDER BY id
SELECT id, count() OVER (ORDER BY a) FROM zeros ORDER BY id
SELECT x, count() FROM zeros GROUP BY x HAVING x = 0 ORDER BY toString(x)
SELECT count() FROM (SELECT x FROM zeros GROUP BY x) WHERE x = -0.
SELECT if(x = 0, 'z', 'o') AS k, x, count() FROM zeros GROUP BY k, x ORDER BY k, toString(x)
SELECT uniqIf(x, id > 0), uniqExactIf(x, id > 1), uniqArray([x, -x]), uniqExactArray([x, -x]) FROM zeros
SELECT CASE x WHEN 0. THEN 'z' WHEN -0. THEN 'm' ELSE 'o' END FROM zeros ORDER BY id
SELECT transform(x, [0., 1.5], ['z','q'], 'o'), transform(x, [-0., 1.5], ['m','q'], 'o') FROM zeros ORDER BY id
SELECT min(x), max(x) FROM zeros WHERE x = 0
SELECT entropy(x) FROM zeros
SELECT x, count() AS c FROM (SELECT x FROM zeros UNION ALL SELECT x FROM zeros) GROUP BY x ORDER BY toString(x)
SELECT toFloat64(toString(x)) AS y, uniq(y) OVER (PARTITION BY y) FROM zeros ORDER BY id
SELECT x FROM zeros AS l LEFT JOIN (SELECT nan AS y, 7 AS v) AS r ON l.x = r.y WHERE v = 7
SELECT x <=> -0., x IS NOT DISTINCT FROM nan FROM zeros ORDER BY id
SELECT id FROM zeros WHERE a IN ([0.], [1.5]) ORDER BY id
SELECT id FROM zeros WHERE a IN ([[0.], [1.5]]) ORDER BY id
SELECT id FROM zeros WHERE a IN (SELECT a FROM zeros WHERE id = 1) ORDER BY id
SELECT length(groupArrayDistinct(x)), avg(DISTINCT x), entropy(x), entropy(id) FROM zeros WHERE id <> 2 AND id <> 6
SELECT avg(DISTINCT f), avgDistinct(n), avgDistinct(id) FROM zeros WHERE id <> 2 AND id <> 6
SELECT length(groupArrayDistinct(5)(x)), length(groupArrayDistinct(2)(id)) FROM zeros
SELECT arrayFilter(y -> y IN (SELECT x FROM zeros WHERE id = 1), [0., -0.])
SELECT entropy(s) FROM (SELECT arrayJoin(['a', 'b', 'a']) AS s)
SELECT count(DISTINCT x) FROM zeros GROUP BY f = 0 ORDER BY 1
SELECT m, count() FROM (SELECT map('a', x) AS m FROM zeros) GROUP BY m ORDER BY toString(m)
SELECT DISTINCT map('a', x)['a'] FROM zeros WHERE id < 2
SELECT t.1, t.2.1 FROM (SELECT DISTINCT (x, (f, [n])) AS t FROM zeros) ORDER BY toString(t)
SELECT CAST((x, f), 'Tuple(a Float64, b Float32)') AS t, count() FROM zeros GROUP BY t ORDER BY toString(t)
SELECT toFloat32(0.1) IN (0.1), toFloat32(0.1) IN (SELECT 0.1), 0 IN (SELECT -0.), materialize(0) IN (SELECT -0.), toFloat32(0.1) = 0.1
SELECT transform(toFloat32(0.1), [0.1], ['a'], 'b'), transform(1.5, [1, 2], ['a', 'b'], 'c'), transform(1, [1.0, 2.5], ['a', 'b'], 'c'), transform(0, [-0.], ['a'], 'b'), transform(nan, [nan], ['a'], 'b')
SELECT CASE toFloat32(0.1) WHEN 0.1 THEN 1 ELSE 2 END, CASE nan WHEN nan THEN 1 ELSE 2 END, CASE 0 WHEN -0. THEN 1 ELSE 2 END, CASE materialize(-0.) WHEN 0 THEN 1 ELSE 2 END
SELECT CASE materialize(1.5) WHEN materialize(0.) THEN 1 WHEN 1.5 THEN 2 END
SELECT CASE materialize(-0.) WHEN materialize(0.) THEN 1 WHEN 1.5 THEN 2 END
SELECT transform(-0., [0., 1.5], [7., 8.]), transform(materialize(2.5), [0., 1.5], [7., 8.])
SELECT transform([1.], [[1.], [2.]], ['a', 'b'], 'c')
SELECT x FROM (SELECT DISTINCT x FROM zeros) ORDER BY toString(x)
SELECT a, n FROM (SELECT DISTINCT a, n FROM zeros) ORDER BY toString(a), toString(n)
SELECT arraySort(v -> toString(v), topK(5)(x)), arraySort(v -> toString(v), groupUniqArrayArray([x])) FROM zeros
SELECT any(a), anyLast(a), min(a), max(a), argMin(a, id), argMax(a, id), first_value(a) FROM zeros WHERE id IN (1, 4)
SELECT any(t), argMax(t, id), any(m), argMin(m, id) FROM (SELECT id, (x, 1) AS t, map('a', x) AS m FROM zeros WHERE id = 1)
SELECT l.id, l.a, r.a FROM zeros AS l LEFT SEMI JOIN zeros AS r ON l.id = r.id ORDER BY l.id
SELECT l.id, l.a, r.a FROM zeros AS l ANY LEFT JOIN zeros AS r ON l.id = r.id ORDER BY l.id
SELECT count() FROM zeros AS l LEFT SEMI JOIN (SELECT DISTINCT a FROM zeros) AS r ON l.a = r.a
SELECT count() FROM zeros AS l ANY LEFT JOIN (SELECT map('a', x) AS m FROM zeros) AS r ON map('a', l.x) = r.m
SELECT a, b, greatest(a, b), greatest(toNullable(a), b), greatest(a, toNullable(b)), greatest(a, b, toNullable(2.)) FROM (SELECT arrayJoin([nan, -0., 0., 1.5, inf]) AS a, arrayJoin([nan, -0., 0., 1.5, inf]) AS b) ORDER BY toString(a), toString(b)
SELECT greatest(-x, nan), greatest(nan, -x), greatest(nan, x * -1), greatest(x, NULL), greatest(NULL, x) FROM (SELECT arrayJoin([1.5, -2.5, nan]) AS x) ORDER BY toString(x)
SELECT a, b, least(a, b), least(toNullable(a), b), least(a, toNullable(b)), least(a, b, toNullable(2.)) FROM (SELECT arrayJoin([nan, -0., 0., 1.5, inf]) AS a, arrayJoin([nan, -0., 0., 1.5, inf]) AS b) ORDER BY toString(a), toString(b)
SELECT least(-x, nan), least(nan, -x), least(nan, x * -1), least(x, NULL), least(NULL, x) FROM (SELECT arrayJoin([1.5, -2.5, nan]) AS x) ORDER BY toString(x)
SELECT a, b, a >= b, b >= a, NOT (a >= b), f >= b FROM (SELECT arrayJoin([nan, NULL, 1.5]) AS a, arrayJoin([nan, NULL, 1.5]) AS b, ifNull(a, nan) AS f) ORDER BY toString(a), toString(b)
SELECT a, b, a > b, b > a, NOT (a > b), f > b FROM (SELECT arrayJoin([nan, NULL, 1.5]) AS a, arrayJoin([nan, NULL, 1.5]) AS b, ifNull(a, nan) AS f) ORDER BY toString(a), toString(b)
SELECT a, b, a < b, b < a, NOT (a < b), f < b FROM (SELECT arrayJoin([nan, NULL, 1.5]) AS a, arrayJoin([nan, NULL, 1.5]) AS b, ifNull(a, nan) AS f) ORDER BY toString(a), toString(b)
SELECT a, b, a <= b, b <= a, NOT (a <= b), f <= b FROM (SELECT arrayJoin([nan, NULL, 1.5]) AS a, arrayJoin([nan, NULL, 1.5]) AS b, ifNull(a, nan) AS f) ORDER BY toString(a), toString(b)
SELECT a, b, a = b, b = a, NOT (a = b), f = b FROM (SELECT arrayJoin([nan, NULL, 1.5]) AS a, arrayJoin([nan, NULL, 1.5]) AS b, ifNull(a, nan) AS f) ORDER BY toString(a), toString(b)
SELECT a, b, a != b, b != a, NOT (a != b), f != b FROM (SELECT arrayJoin([nan, NULL, 1.5]) AS a, arrayJoin([nan, NULL, 1.5]) AS b, ifNull(a, nan) AS f) ORDER BY toString(a), toString(b)
