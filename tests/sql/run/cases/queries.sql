-- Aggregates
SELECT count(), count(*), count(ni), count(1), sum(u8), sum(i8), sum(f64), sum(dec), avg(u8), avg(f64), avg(dec), min(u8), max(s), any(u8) FROM types
SELECT sum(i64), sum(u64), sum(f32), sum(ni), avg(ni), min(ni), max(ns), sum(b), avg(b), min(d), max(dt), min(f32) FROM types
SELECT uniq(s), uniqExact(u8), count(DISTINCT s), uniq(s, u8), uniq(ni), countDistinct(lc), sum(DISTINCT u8 % 5), uniqCombined(s) FROM types
SELECT countIf(u8 > 50), sumIf(i32, i32 > 0), avgIf(f64, b), minIf(s, u8 > 100), maxIf(u8, u8 < 10), uniqIf(s, b), anyIf(s, id = 5), countIf(ni, b), sumIf(ni, b) FROM types
SELECT sumIf(u8, 0), avgIf(u8, 0), minIf(s, 0), countIf(0), maxIf(dt, 0), groupArrayIf(u8, 0), sumOrNull(u8), sumIfOrNull(u8, 0) FROM types
SELECT count(), sum(a), avg(a), min(a), max(s), any(s), uniq(a), groupArray(a), sum(n), max(n), quantile(0.5)(a), stddevPop(a), argMin(s, a) FROM nothing
SELECT a, count() FROM nothing GROUP BY a
SELECT quantile(0.5)(u8), quantile(0.9)(f64), quantiles(0.1, 0.5, 0.9)(i32), median(u8), quantileExact(0.5)(i32), quantilesExact(0.25, 0.75)(u8), medianExact(f64), quantile(ni) FROM types
SELECT stddevPop(u8), stddevSamp(f64), varPop(i32), varSamp(u8), covarPop(u8, i32), covarSamp(u8, f64), corr(u8, i32), corr(u8, u8) FROM types
SELECT argMin(s, i32), argMax(u8, f64), argMax(s, dec), argMin(id, ni) FROM types
SELECT arraySort(groupUniqArray(lc)), arraySort(groupArray(u8 % 4))[1], length(groupArray(3)(u8)), groupBitAnd(u8), groupBitOr(u8), groupBitXor(u16), topK(1)(if(id < 70, 5, id)), arraySort(groupUniqArray(ni % 3)) FROM types
SELECT groupArray(x), groupConcat(',')(x), groupArraySorted(2)(x) FROM (SELECT arrayJoin(['b', 'a', 'c']) AS x)
SELECT max(x), min(x), sum(x), avg(x) FROM floats WHERE isFinite(x)
SELECT max(x), min(x), count(x), argMax(id, x) FROM floats WHERE id < 7 AND NOT isNaN(x)
SELECT any(ni), anyLast(ni), any(lc), min(e), max(ip), min(uid), max(b) FROM (SELECT * FROM types ORDER BY id)
SELECT sumWithOverflow(u8), avgWeighted(u8, id), entropy(u8) FROM types WHERE 0 = 1 OR id < 0
SELECT sum(u8) + 1, sum(u8) / count(), round(avg(f64), 2), max(u8) - min(u8), if(count() > 5, 'many', 'few'), toString(max(d)) FROM types
-- GROUP BY
SELECT lc, count(), sum(u8), avg(f64), min(d), max(s) FROM types GROUP BY lc ORDER BY lc
SELECT lcn, ns, count() AS c FROM types GROUP BY lcn, ns ORDER BY lcn, ns, c
SELECT u8 % 3 AS k, b, count() AS c, sum(i32) AS total FROM types GROUP BY k, b HAVING c > 10 ORDER BY k, b
SELECT toYYYYMM(d) AS m, count(), uniq(s) FROM types GROUP BY m ORDER BY m DESC
SELECT region, toStartOfMonth(day) AS month, sum(revenue) AS r, avg(duration) FROM visits GROUP BY region, month ORDER BY region, month
SELECT u8 % 2, count() FROM types GROUP BY u8 % 2 ORDER BY u8 % 2
SELECT u8 % 2 + 1, count() FROM types GROUP BY u8 % 2 ORDER BY 1
SELECT region, count() FROM visits GROUP BY 1 ORDER BY 2 DESC, 1
SELECT region, user % 2 AS odd, count() FROM visits GROUP BY ALL ORDER BY ALL
SELECT (u8 % 2, b) AS k, count() FROM types GROUP BY k ORDER BY k
SELECT region, sum(revenue) AS s FROM visits GROUP BY region WITH ROLLUP ORDER BY s, region
SELECT region, user % 2 AS odd, count() AS c FROM visits GROUP BY ROLLUP(region, odd) ORDER BY region, odd, c
SELECT region, user % 2 AS odd, count() AS c FROM visits GROUP BY CUBE(region, odd) ORDER BY region, odd, c
SELECT max(u8) AS mx FROM types GROUP BY lc HAVING mx > 100 AND count() > 10 ORDER BY mx
SELECT lc AS key, arraySum(groupArray(u8)) AS total, arrayMap(x -> x + length(key), [1]) FROM types GROUP BY key ORDER BY key
SELECT count() FROM types HAVING count() > 1000
SELECT DISTINCT lc, b FROM types ORDER BY lc, b
SELECT DISTINCT u8 % 3 AS k FROM types ORDER BY k DESC
SELECT DISTINCT ON (lc) lc, id FROM types ORDER BY lc, id
SELECT count(DISTINCT user, region) FROM visits
-- ORDER BY, LIMIT
SELECT ni FROM types ORDER BY ni LIMIT 100
SELECT ni FROM types ORDER BY ni DESC
SELECT ni FROM types ORDER BY ni NULLS FIRST, id
SELECT id, x FROM floats ORDER BY x, id
SELECT id, x FROM floats ORDER BY x DESC, id
SELECT id, x FROM floats ORDER BY x DESC NULLS FIRST, id
SELECT id, x FROM floats ORDER BY x NULLS FIRST, id
SELECT nf, id FROM types ORDER BY nf DESC, id LIMIT 50
SELECT id FROM types ORDER BY s, i32 DESC LIMIT 5, 10
SELECT id FROM types ORDER BY s DESC, id LIMIT 10 OFFSET 3
SELECT s, id FROM types ORDER BY s, id LIMIT 2 BY s LIMIT 7
SELECT s, id FROM types ORDER BY id LIMIT 1 OFFSET 1 BY s
SELECT u8 % 5 AS k FROM types ORDER BY k LIMIT 3 WITH TIES
SELECT e, id FROM types ORDER BY e, id LIMIT 5
SELECT id FROM types ORDER BY (lc, id) LIMIT 5
SELECT uid FROM types ORDER BY uid LIMIT 3
SELECT id FROM types WHERE id < 5 ORDER BY -id
SELECT id AS x, -x AS y FROM types WHERE y > -4 ORDER BY y
SELECT id FROM types PREWHERE id < 10 WHERE u8 > 3 ORDER BY id
SELECT id FROM types WHERE ni > 0 AND NOT (s LIKE '%1%') ORDER BY id
-- Names and aliases
SELECT u8 + 1 AS a, a * 2 AS b, b + a FROM types ORDER BY id LIMIT 3
SELECT 1 AS x, x + 1 AS y, y * x
WITH 5 AS five, five + 1 AS six SELECT five, six, six * 2
WITH (SELECT max(u8) FROM types) AS highest SELECT highest, count() FROM types WHERE u8 = highest
WITH big AS (SELECT * FROM types WHERE u8 > 100) SELECT count(), min(u8) FROM big
WITH a AS (SELECT 1 AS x), b AS (SELECT x + 1 AS y FROM a) SELECT * FROM a, b
SELECT * FROM users ORDER BY user LIMIT 3
SELECT * EXCEPT (city) FROM users ORDER BY user LIMIT 2
SELECT * REPLACE (age + 1 AS age) FROM users ORDER BY user LIMIT 2
SELECT COLUMNS('^u') FROM users ORDER BY user LIMIT 2
SELECT users.*, users.name FROM users ORDER BY user LIMIT 1
SELECT u.name, default.users.age FROM users AS u, users ORDER BY u.user, users.user LIMIT 2
SELECT sum(x) FROM (SELECT u8 AS x FROM types UNION ALL SELECT i8 FROM types)
SELECT toTypeName(x), x FROM (SELECT 1 AS x UNION ALL SELECT -1) ORDER BY x
SELECT x FROM (SELECT 1 AS x UNION DISTINCT SELECT 1 UNION DISTINCT SELECT 2) ORDER BY x
SELECT * FROM (SELECT number FROM numbers(5) INTERSECT SELECT number FROM numbers(3, 4)) ORDER BY number
SELECT * FROM (SELECT number FROM numbers(5) EXCEPT SELECT number FROM numbers(3)) ORDER BY number
SELECT number, number * 2 FROM numbers(3)
SELECT number FROM system.numbers LIMIT 3
SELECT sum(number) FROM numbers(10, 5)
SELECT * FROM values('a UInt8, b String', (1, 'x'), (2, 'y'))
SELECT generate_series FROM generate_series(1, 5, 2)
SELECT sum(zero) FROM zeros(3)
-- Subqueries
SELECT id FROM types WHERE u8 = (SELECT max(u8) FROM types)
SELECT id FROM types WHERE s IN (SELECT s FROM types WHERE id < 2) ORDER BY id LIMIT 5
SELECT count() FROM types WHERE id NOT IN (SELECT user FROM users)
SELECT count() FROM users WHERE user GLOBAL IN (SELECT user FROM visits)
SELECT name FROM users WHERE EXISTS (SELECT 1 FROM visits WHERE visits.user = users.user AND duration > 560) ORDER BY name
SELECT name, (SELECT count() FROM visits WHERE visits.user = users.user) AS c FROM users ORDER BY name LIMIT 10
SELECT (SELECT 1), (SELECT max(u8) FROM types), (SELECT 'x') AS named
SELECT count() FROM (SELECT user, count() AS c FROM visits GROUP BY user HAVING c > 20)
SELECT x.k, x.c FROM (SELECT region AS k, count() AS c FROM visits GROUP BY k) AS x ORDER BY x.k
-- Joins
SELECT name, count() AS c, sum(revenue) FROM visits JOIN users ON visits.user = users.user GROUP BY name ORDER BY c DESC, name LIMIT 10
SELECT u.name, v.url, v.duration FROM users AS u LEFT JOIN visits AS v ON u.user = v.user AND v.duration > 550 ORDER BY u.name, v.url, v.duration
SELECT u.name, v.day, v.region FROM visits AS v RIGHT JOIN users AS u ON u.user = v.user AND v.duration > 565 ORDER BY u.name, v.day, v.region
SELECT a.x, b.x, b.y FROM (SELECT number AS x FROM numbers(4)) AS a FULL JOIN (SELECT number + 2 AS x, 'v' || toString(number) AS y FROM numbers(4)) AS b ON a.x = b.x ORDER BY a.x, b.x
SELECT x, y FROM (SELECT number AS x FROM numbers(4)) AS a LEFT JOIN (SELECT number + 2 AS x, toNullable(number) AS y FROM numbers(4)) AS b USING (x) ORDER BY x
SELECT * FROM (SELECT 1 AS x, 'l' AS l) AS a FULL JOIN (SELECT 2 AS x, 'r' AS r) AS b USING x ORDER BY x
SELECT count() FROM users CROSS JOIN quotes
SELECT count() FROM users, quotes WHERE users.age > 60 AND quotes.price > 110
SELECT count() FROM visits ANY LEFT JOIN users USING (user)
SELECT a.k, b.v FROM (SELECT number % 3 AS k FROM numbers(6)) AS a ANY INNER JOIN (SELECT number AS k, number * 10 AS v FROM numbers(2)) AS b ON a.k = b.k ORDER BY a.k, b.v
SELECT name FROM users LEFT SEMI JOIN visits ON users.user = visits.user ORDER BY name
SELECT name FROM users LEFT ANTI JOIN visits ON users.user = visits.user ORDER BY name
SELECT trades.symbol, trades.at, amount, price, quotes.at FROM trades ASOF JOIN quotes ON trades.symbol = quotes.symbol AND trades.at >= quotes.at ORDER BY trades.at, trades.symbol
SELECT trades.symbol, trades.at, price FROM trades ASOF LEFT JOIN quotes ON trades.symbol = quotes.symbol AND trades.at >= quotes.at ORDER BY trades.at, trades.symbol
SELECT symbol, at, price FROM trades ASOF JOIN quotes USING (symbol, at) ORDER BY at, symbol
SELECT u1.name, u2.name FROM users u1 JOIN users u2 ON u1.age = u2.age + 1 AND u1.city = u2.city ORDER BY u1.name, u2.name
SELECT count() FROM users a JOIN users b ON a.user = b.user JOIN visits c ON b.user = c.user
SELECT t.s, u.name FROM types t INNER JOIN users u ON t.id = u.user WHERE u.age > 20 AND t.u8 < 60 ORDER BY t.id
SELECT * FROM users AS a JOIN (SELECT user, count() AS visits FROM visits GROUP BY user) AS b ON a.user = b.user ORDER BY a.user LIMIT 5
-- Windows
SELECT id, row_number() OVER (ORDER BY id), rank() OVER (ORDER BY u8 % 5), dense_rank() OVER (ORDER BY u8 % 5) FROM types ORDER BY id LIMIT 10
SELECT id, lc, sum(u8) OVER (PARTITION BY lc ORDER BY id), avg(u8) OVER (PARTITION BY lc), count() OVER (PARTITION BY lc ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM types ORDER BY id LIMIT 20
SELECT id, lag(u8) OVER (ORDER BY id), lead(u8, 2, 99) OVER (ORDER BY id), lagInFrame(u8, 1) OVER (ORDER BY id), first_value(u8) OVER (ORDER BY id), last_value(u8) OVER (ORDER BY id), nth_value(u8, 2) OVER (ORDER BY id) FROM types ORDER BY id LIMIT 10
SELECT id, ntile(4) OVER (ORDER BY id), percent_rank() OVER (ORDER BY id), max(u8) OVER w, min(u8) OVER w FROM types WINDOW w AS (PARTITION BY b ORDER BY id) ORDER BY id LIMIT 10
SELECT region, count() AS c, sum(count()) OVER () AS total, rank() OVER (ORDER BY count() DESC) FROM visits GROUP BY region ORDER BY region
SELECT id FROM types QUALIFY row_number() OVER (PARTITION BY lc ORDER BY id DESC) = 1 ORDER BY id
SELECT day, sum(revenue) AS r, sum(r) OVER (ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running FROM visits GROUP BY day ORDER BY day LIMIT 10
SELECT id, sum(u8) OVER (ORDER BY id RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING), leadInFrame(u8) OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM types ORDER BY id LIMIT 8

-- INTERSECT binds before UNION and EXCEPT
SELECT * FROM (SELECT 1 AS x EXCEPT SELECT 1 INTERSECT SELECT 2) ORDER BY x
SELECT * FROM (SELECT 1 AS x UNION ALL SELECT 2 INTERSECT SELECT 2 EXCEPT SELECT 1) ORDER BY x
SELECT * FROM (SELECT arrayJoin([1, 1, 2, 2, 3]) AS x EXCEPT SELECT 1 UNION ALL SELECT 2 INTERSECT SELECT arrayJoin([2, 2])) ORDER BY x
SELECT * FROM (SELECT arrayJoin([1, 1, 2, 2, 3]) AS x EXCEPT (SELECT 1 EXCEPT SELECT 2) INTERSECT SELECT 2) ORDER BY x
SELECT * FROM ((SELECT arrayJoin([1, 1, 2, 2, 3]) AS x EXCEPT SELECT 1) INTERSECT SELECT 2) ORDER BY x
SELECT * FROM (SELECT arrayJoin([1, 1, 2, 2, 3]) AS x UNION DISTINCT SELECT 4 INTERSECT DISTINCT SELECT arrayJoin([4, 4]) EXCEPT DISTINCT SELECT 3) ORDER BY x
SELECT * FROM (SELECT arrayJoin([1, 1, 2]) AS x INTERSECT ALL SELECT arrayJoin([1, 1, 3]) UNION ALL SELECT 4 EXCEPT ALL SELECT 1) ORDER BY x

-- ROLLUP and CUBE over no rows
SELECT number, count() FROM numbers(0) GROUP BY ROLLUP(number)
SELECT number, count() FROM numbers(0) GROUP BY CUBE(number)
SELECT number % 2 AS a, number % 3 AS b, count() AS c FROM numbers(6) GROUP BY ROLLUP(a, b) HAVING c > 1 ORDER BY ALL
