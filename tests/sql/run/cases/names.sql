-- Keys and frames of windows, and names: aliases that are columns, tables with aliases, names of the query around.
SELECT id, sum(a) OVER (PARTITION BY 1) FROM named ORDER BY id
SELECT id, sum(a) OVER (PARTITION BY 1, 'x') FROM named ORDER BY id
SELECT id, sum(a) OVER (PARTITION BY NULL) FROM named ORDER BY id
SELECT id, sum(a) OVER (PARTITION BY 1 ORDER BY id) FROM named ORDER BY id
SELECT id, sum(a) OVER (PARTITION BY s, 1 ORDER BY 1) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY 1) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY 'x') FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY NULL) FROM named ORDER BY id
SELECT id, row_number() OVER (PARTITION BY toDate('2020-01-01') ORDER BY id) FROM named ORDER BY id
SELECT id, sum(a) OVER (PARTITION BY 1.5 ORDER BY id) FROM named ORDER BY id
SELECT id, sum(a) OVER (PARTITION BY (1, 2)) FROM named ORDER BY id
SELECT id, sum(a) OVER (PARTITION BY -1 ORDER BY -1, id) FROM named ORDER BY id
SELECT id, sum(1) OVER (PARTITION BY true) FROM named ORDER BY id
SELECT count() FROM named GROUP BY NULL
SELECT count() FROM named GROUP BY 'x'
SELECT count() FROM named GROUP BY 1.5
SELECT count() FROM named GROUP BY toDate('2020-01-01')
SELECT count(), -1 AS k FROM named GROUP BY k
SELECT count(), 99 AS k FROM named GROUP BY k
SELECT count(), 99 AS k FROM named GROUP BY k, s ORDER BY s
SELECT count(), [1] AS k FROM named GROUP BY k
SELECT id FROM named ORDER BY 'x', id LIMIT 2
SELECT id FROM named ORDER BY NULL, id LIMIT 2
SELECT id FROM named ORDER BY 1.5, id LIMIT 2
SELECT id FROM named ORDER BY toDate('2020-01-01'), id LIMIT 2
SELECT id FROM named ORDER BY id LIMIT 1 BY 1
SELECT id FROM named ORDER BY id LIMIT 1 BY 'x'
SELECT id FROM named ORDER BY id LIMIT 2 BY s, 'x'
SELECT id FROM named ORDER BY id LIMIT 1 BY NULL
SELECT id FROM named ORDER BY id LIMIT 1 BY toDate('2020-01-01')
SELECT DISTINCT 1 FROM named
SELECT DISTINCT ON (1) id FROM named ORDER BY id
SELECT id FROM named WHERE EXISTS (SELECT 1 FROM named AS u WHERE u.a = named.a AND u.id > named.id) ORDER BY id
SELECT id AS a FROM named AS o WHERE EXISTS (SELECT 1 FROM named AS u WHERE u.a = o.id) ORDER BY id
SELECT id AS x1 FROM named AS o WHERE EXISTS (SELECT 1 FROM named AS u WHERE u.a = x1) ORDER BY id
SELECT id AS a FROM named AS o WHERE EXISTS (SELECT 1 FROM named AS u WHERE a = 3 AND u.id = o.id) ORDER BY id
SELECT a + 1 AS id FROM named AS o WHERE EXISTS (SELECT 1 FROM named AS u WHERE u.id = o.a) ORDER BY id LIMIT 5
SELECT (SELECT max(a) FROM named AS u WHERE u.id < o.id) AS a, id FROM named AS o ORDER BY id
SELECT id, (SELECT sum(id) FROM named AS u WHERE u.s = o.s) AS s FROM named AS o ORDER BY id
SELECT o.id AS k FROM named AS o WHERE (SELECT count() FROM named AS u WHERE u.a = k) > 0 ORDER BY k
SELECT named.id FROM named WHERE EXISTS (SELECT 1 FROM named WHERE a = 3) ORDER BY id LIMIT 3
SELECT number AS n FROM numbers(5) AS o WHERE EXISTS (SELECT 1 FROM named WHERE named.n = o.number) ORDER BY n
SELECT number AS n FROM numbers(5) AS o WHERE EXISTS (SELECT 1 FROM named WHERE n = 3 AND named.id = o.number) ORDER BY n
WITH 3 AS a SELECT id FROM named WHERE a = 3 ORDER BY id
WITH id + 1 AS a SELECT id, a FROM named WHERE EXISTS (SELECT 1 FROM named AS u WHERE u.a = named.a) ORDER BY id LIMIT 3
SELECT sum(a) AS a FROM named
SELECT id, count() OVER (PARTITION BY (SELECT 1)) FROM named ORDER BY id LIMIT 2
SELECT id, sum(a) OVER (ORDER BY (SELECT 1)) FROM named ORDER BY id LIMIT 2
SELECT s, sum(a) OVER (PARTITION BY count()) FROM named GROUP BY s, a ORDER BY s, a
SELECT count() FROM named HAVING count() > 100
SELECT arrayJoin(arr) AS q, count() FROM named GROUP BY q ORDER BY q
SELECT id, arrayJoin(arr) AS q, sum(q) OVER (PARTITION BY q) FROM named ORDER BY id, q
SELECT id FROM named LIMIT 0
SELECT id FROM named LIMIT 1 OFFSET 100
SELECT lag(a, 1, 7) OVER (ORDER BY id), lead(a, 2) OVER (PARTITION BY 1 ORDER BY id), nth_value(a, 2) OVER (ORDER BY id), ntile(3) OVER (ORDER BY id) FROM named ORDER BY id LIMIT 3
SELECT id, sum(a) OVER (ORDER BY a RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY n DESC RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY n NULLS FIRST RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY n) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY n DESC) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY n DESC RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY x RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY d RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY toDateTime(d) RANGE BETWEEN 86400 PRECEDING AND CURRENT ROW) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY toNullable(x) RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY id ROWS 2 PRECEDING), sum(a) OVER (ORDER BY id ROWS 1 PRECEDING), sum(a) OVER (ORDER BY a RANGE 1 PRECEDING) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY id ROWS BETWEEN 0 PRECEDING AND 0 FOLLOWING) FROM named ORDER BY id
SELECT 1 AS k, count() OVER (PARTITION BY k) FROM named
SELECT count() OVER (PARTITION BY 1) FROM numbers(3)
SELECT count() OVER (PARTITION BY 'a'), row_number() OVER (PARTITION BY 'a' ORDER BY 'b') FROM numbers(3)
SELECT count() OVER (PARTITION BY toString(1)) FROM numbers(3)
SELECT count() OVER (PARTITION BY 'a' || 'b'), sum(number) OVER (PARTITION BY -5), sum(number) OVER (PARTITION BY 1 = 1), sum(number) OVER (PARTITION BY 9999999999) FROM numbers(3)
SELECT count() OVER (PARTITION BY NULL ORDER BY NULL) FROM numbers(3)
SELECT count() OVER (PARTITION BY map('a', 1)), count() OVER (PARTITION BY [1, NULL]) FROM numbers(3)
SELECT count() OVER (ORDER BY 1 RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM numbers(3)
SELECT count() OVER (ORDER BY 'a' RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM numbers(3)
SELECT max(number) OVER (PARTITION BY 1 ORDER BY 2 DESC, 'x' NULLS FIRST) FROM numbers(3)
SELECT count() OVER (PARTITION BY toDateTime('2020-01-01 00:00:00')) , count() OVER (PARTITION BY INTERVAL 1 DAY) FROM numbers(3)
SELECT count() OVER (PARTITION BY 0.5), count() OVER (PARTITION BY toDecimal32(1, 2)), count() OVER (PARTITION BY toUUID('00000000-0000-0000-0000-000000000000')), count() OVER (PARTITION BY true) FROM numbers(3)
SELECT id, rank() OVER (ORDER BY 1, id), dense_rank() OVER (ORDER BY 'a', 1.5) FROM named ORDER BY id
SELECT count(), sum(count()) OVER (PARTITION BY 'x') FROM named GROUP BY s ORDER BY s
SELECT count() AS c, 'x' AS p, sum(c) OVER (PARTITION BY p, s) FROM named GROUP BY s ORDER BY s
SELECT u.a, named.id FROM named AS u ORDER BY 1, 2 LIMIT 2
SELECT named.id FROM named AS u JOIN (SELECT 1 AS x) AS v ON 1 = v.x ORDER BY named.id LIMIT 2
SELECT named.id FROM named AS t ORDER BY 1 LIMIT 2
SELECT id FROM named AS o WHERE EXISTS (SELECT 1 FROM numbers(3) WHERE number = id) ORDER BY id
SELECT id AS number FROM named AS o WHERE EXISTS (SELECT 1 FROM numbers(3) WHERE number = 2) ORDER BY id
SELECT id AS number FROM named AS o WHERE EXISTS (SELECT 1 FROM numbers(3) WHERE number = o.id) ORDER BY id
SELECT id + 1 AS number FROM named AS o WHERE EXISTS (SELECT number FROM numbers(3) AS x WHERE x.number = o.id) ORDER BY id
SELECT id AS number, a FROM named AS o WHERE (SELECT max(number) FROM numbers(3) AS x WHERE x.number <= o.id) = 2 ORDER BY id
SELECT id, (SELECT count() FROM numbers(5) AS number WHERE number.number < o.id) AS number FROM named AS o ORDER BY id
SELECT o.id AS number FROM named AS o WHERE EXISTS (SELECT 1 FROM numbers(3) AS i WHERE i.number = number) ORDER BY 1
SELECT o.id AS a FROM named AS o WHERE EXISTS (SELECT a FROM named AS i WHERE i.id = o.id AND a = 3) ORDER BY 1
SELECT o.s AS a FROM named AS o WHERE EXISTS (SELECT 1 FROM named AS i WHERE i.a = o.a AND a > 1) ORDER BY 1
SELECT s, sum(a) AS a FROM named GROUP BY s ORDER BY s
SELECT s, sum(a) AS a FROM named GROUP BY s HAVING a > 3 ORDER BY a
SELECT max(id) AS id, min(a) AS a FROM named
SELECT sum(a + 1) AS a, count() FROM named
SELECT any(s) AS s FROM named GROUP BY a ORDER BY s
SELECT id % 2 AS id, sum(a) AS a FROM named GROUP BY id ORDER BY id
SELECT sum(a) OVER (ORDER BY id) AS a FROM named ORDER BY id
SELECT a + 1 AS a FROM named ORDER BY a LIMIT 3
SELECT a AS a, sum(a) AS b FROM named GROUP BY a ORDER BY a
SELECT arrayMap(a -> a + 1, [a]) AS a FROM named ORDER BY id LIMIT 2
SELECT DISTINCT a % 2 AS k FROM named ORDER BY a % 2
SELECT id AS x1 FROM named AS o WHERE (SELECT count() FROM named AS u WHERE u.a = x1) > 0 ORDER BY x1
SELECT id AS x1, (SELECT count() FROM named AS u WHERE u.a = x1) AS c FROM named AS o ORDER BY x1
SELECT id AS x1, (SELECT max(b) FROM others WHERE b = x1) AS c FROM named AS o ORDER BY x1
SELECT a AS x1 FROM named WHERE EXISTS (SELECT 1 FROM others WHERE others.id = x1) ORDER BY named.id
SELECT a + 1 AS x1 FROM named WHERE EXISTS (SELECT 1 FROM others WHERE others.id = x1) ORDER BY named.id
SELECT id + 1 AS x1 FROM named WHERE EXISTS (SELECT 1 FROM others WHERE others.id = x1) ORDER BY named.id
SELECT a AS b FROM named WHERE EXISTS (SELECT 1 FROM others WHERE b = named.id) ORDER BY named.id
SELECT a AS b FROM named WHERE EXISTS (SELECT 1 FROM others WHERE others.id = b) ORDER BY named.id
SELECT s, count() OVER (PARTITION BY toDate('2020-01-01') + id) FROM named ORDER BY id
SELECT id, count() OVER (PARTITION BY toDateTime(concat('2020-01-0', toString(a + 1), ' 00:00:00'))) FROM named ORDER BY id
SELECT id, count() OVER (PARTITION BY leftPad(s, a + 1)) FROM named ORDER BY id
SELECT id, count() OVER (PARTITION BY toInt32(s)) FROM named ORDER BY id
SELECT id, count() OVER (PARTITION BY toInt32(s) ORDER BY toInt32(s)), row_number() OVER (ORDER BY toDateTime('2020-01-01 00:00:00'), id) FROM named ORDER BY id
SELECT id, sum(toInt32(s)) OVER (ORDER BY id) FROM named ORDER BY id
SELECT id, count() OVER (PARTITION BY intDiv(id, a + 1)) FROM named ORDER BY id
SELECT id FROM named ORDER BY id LIMIT 1 BY toInt32(s)
SELECT s, count() OVER (PARTITION BY toInt32(s)) FROM named GROUP BY s ORDER BY s
SELECT id, lag(toInt32(s)) OVER (PARTITION BY (SELECT max(id) FROM named) ORDER BY id) FROM named ORDER BY id
SELECT id, count() OVER (PARTITION BY id IN (SELECT id FROM others)) FROM named ORDER BY id
SELECT id, count() OVER (PARTITION BY arrayMap(x -> x + 1, [a])) FROM named ORDER BY id
SELECT named.id FROM named AS a JOIN named AS b ON a.id = b.id ORDER BY 1 LIMIT 2
SELECT named.* FROM named AS u ORDER BY id LIMIT 2
SELECT u.*, named.a FROM named AS u ORDER BY id LIMIT 2
SELECT id FROM named AS u WHERE named.a = 3 ORDER BY named.id
SELECT named.id, others.id FROM named AS w JOIN others AS t ON others.id = named.id ORDER BY 1 LIMIT 2
SELECT others.b FROM named AS w JOIN others AS v ON others.id = v.id ORDER BY 1 LIMIT 2
SELECT id FROM named AS o WHERE EXISTS (SELECT 1 FROM others WHERE others.id = named.id) ORDER BY id
SELECT id AS x1, a + x1 AS y FROM named AS o WHERE EXISTS (SELECT 1 FROM others WHERE others.b = y) ORDER BY x1
SELECT a AS x1 FROM named AS o WHERE EXISTS (SELECT 1 FROM others WHERE others.b = x1) ORDER BY id
SELECT toUInt32(number) AS id FROM numbers(9) WHERE id IN (SELECT id FROM others) ORDER BY id
SELECT toUInt32(number) AS q FROM numbers(9) WHERE q IN (SELECT id FROM others WHERE id > 4) ORDER BY q
SELECT 5 AS q, (SELECT max(id) FROM others WHERE id < q) AS m FROM numbers(2)
SELECT id, sum(a) OVER (ORDER BY n RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY n RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY n RANGE BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY n RANGE BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY n RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY n RANGE BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY n RANGE BETWEEN CURRENT ROW AND 2 FOLLOWING) FROM named ORDER BY id
SELECT id, sum(a) OVER (ORDER BY n NULLS FIRST RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) FROM named ORDER BY id
SELECT id, sum(a) OVER (PARTITION BY s ORDER BY n RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING), count() OVER (PARTITION BY s ORDER BY n RANGE BETWEEN 1 FOLLOWING AND 3 FOLLOWING) FROM named ORDER BY id
SELECT id, count() OVER (PARTITION BY a ORDER BY n + 1 RANGE BETWEEN 5 PRECEDING AND 2 PRECEDING), min(n) OVER (ORDER BY if(n > 3, NULL, n) RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM named ORDER BY id
SELECT n, count(), sum(count()) OVER (ORDER BY n RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM named GROUP BY n ORDER BY n
