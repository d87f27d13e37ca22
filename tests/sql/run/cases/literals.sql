-- Numbers
SELECT 1.00_00_01, 12.3_4, 1_000.5, 1_0e1_0, 1e1_0, 1_0.5_0e-1_0, 0xF_F, 0b1_1
SELECT 0x1.f7ced916872b0p-4, 0x1p3, 0x1.8, 0x1.p1, 0X1.8P+1, -0x1.8p1, 0x1., 0x1e5, 0x1_0.8_0p1_0, 0x1p-5000
SELECT [0x1p3, 1.0_1], (1.0_1, 0x1p1), 1 AS 1_, 2 AS 1__0
-- Strings of bytes
SELECT b'', b'0110', b'0', hex(b'0'), hex(b'1'), hex(b'0101010101'), B'01100001', x'41', X'4142', x'', hex(x'4'), hex(x'412'), x'c3a4'
SELECT x'41' AS y, x'41' || b'01000010', ['a', x'62'], s = x'7374723020c39c626572' FROM types WHERE id < 3 ORDER BY id
-- Words with a dollar, and heredocs
SELECT 1 AS $alias$name$
SELECT 1 AS $a$, 2 AS $alias, 3 AS $1, 4 AS a$b
SELECT $$a$$, $tag$text$tag$, $tag$te$xt$tag$ AS x, $1$c$1$
SELECT $a + 1, `$a` FROM (SELECT 1 AS `$a`)
-- Aliases in special forms
SELECT cast('1234' AS lhs AS UInt32), lhs
SELECT cast('1234' lhs AS UInt32), lhs
SELECT cast('1234' AS lhs, 'UInt32' AS rhs), lhs, rhs
SELECT cast('1234' a, 'UInt32' b), a, b
SELECT cast([1] AS lhs AS Array(UInt16)), cast(1 + 1 AS two AS UInt32), cast('1' AS one AS Nullable(UInt8)), lhs, two, one
SELECT extract(YEAR FROM toDate('2020-01-01') AS a), extract(MONTH FROM toDate('2020-01-01') b), a, b
SELECT substring('abc' AS s FROM 2 AS f FOR 1 AS l), s, f, l
SELECT substring('abc' s FROM 2 f), s, f
SELECT trim(BOTH 'a' AS c FROM 'abca' AS s), trim(LEADING 'a' d FROM 'abca' t), c, s, d, t
SELECT position('b' AS n IN 'abc' AS h), position('c' m IN 'abc' g), n, h, m, g
SELECT toDate('2020-01-01') + INTERVAL 2 AS n DAY, n
SELECT CASE 1 AS a WHEN 1 AS b THEN 2 AS c ELSE 3 AS d END AS e, a, b, c, d, e
SELECT CASE WHEN 1 AS b THEN 2 AS c ELSE 3 AS d END AS e, b, c, d, e
SELECT [1 AS a, 2 AS b][1 AS i], a, b, i
-- Lambdas of several parameters without brackets
SELECT arrayMap(x, y -> x + y, [1, 2], [3, 4]), arrayMap(x, y, z -> x + y + z, [1], [2], [3]), arraySort(x, y -> y, [1, 2], [4, 3])
SELECT arrayMap(x, y -> x + y, l, r) FROM (SELECT [1] AS l, [2] AS r)
SELECT arrayMap(x -> arrayMap(y, z -> x + y + z, [1], [2]), [1, 2]), arrayFilter((x), y -> x > y, [1, 5], [3, 4]), mapApply(k, v -> (k, v + 1), map('a', 1))
-- Data types
SELECT CAST([1] AS Array( /* Hello */ UInt32 /* World */ )) AS a, CAST('1' AS String()) AS b, CAST('1' AS UInt8()) AS c, CAST('1' AS Decimal()) AS d
SELECT toTypeName(CAST('2020-01-01 00:00:00' AS DateTime())) AS a, toTypeName(CAST('2020-01-01 00:00:00' AS DateTime(2))) AS b, toTypeName(CAST('2020-01-01 00:00:00' AS DateTime(0))) AS c
SELECT toTypeName(CAST('2020-01-01 00:00:00' AS DateTime(3, 'Asia/Istanbul'))) AS a, toTypeName(CAST('2020-01-01 00:00:00' AS DateTime(0, 'UTC'))) AS b
SELECT toTypeName(CAST('2020-01-01 00:00:00' AS DateTime32)) AS a, toTypeName(CAST('2020-01-01 00:00:00' AS DateTime32())) AS b, toTypeName(CAST('2020-01-01 00:00:00' AS DateTime32('UTC'))) AS c
SELECT toTypeName(CAST('2020-01-01 00:00:00' AS DateTime64())) AS a, toTypeName(CAST('2020-01-01 00:00:00' AS datetime(2))) AS b, toTypeName(CAST('2020-01-01 00:00:00' AS timestamp(2))) AS c
SELECT toTypeName(CAST('1' AS INT(10) UNSIGNED)) AS a, toTypeName(CAST('1' AS TINYINT UNSIGNED)) AS b, toTypeName(CAST('1' AS INT SIGNED)) AS c, toTypeName(CAST(1 AS DOUBLE PRECISION)) AS d, toTypeName(CAST(1 AS UNSIGNED)) AS e, toTypeName(CAST(1 AS BIGINT(20) UNSIGNED)) AS f
SELECT toTypeName(CAST(1 AS YEAR)) AS a, toTypeName(CAST(1 AS MEDIUMINT UNSIGNED)) AS b, toTypeName(CAST('a' AS LONGTEXT)) AS c, toTypeName(CAST('a' AS binary(3))) AS d, toTypeName(CAST(1 AS BYTE)) AS e
SELECT x, toTypeName(x) FROM values('x UInt8 NOT NULL', 1)
SELECT x, toTypeName(x), y, toTypeName(y) FROM values('x UInt8 NOT NULL, y String NULL /* c */', (1, 'a'), (2, NULL)) ORDER BY x
-- Clauses
SELECT 1 IS TRUE, 2 IS TRUE, 0 IS TRUE, NULL IS TRUE, 1 IS FALSE, 0 IS FALSE, NULL IS FALSE, 1 IS NOT TRUE, NULL IS NOT TRUE, NULL IS NOT FALSE, 1 IS UNKNOWN, NULL IS UNKNOWN, NULL IS NOT UNKNOWN
SELECT id, ni IS NOT FALSE, (ni > 0) IS TRUE, (ni > 0) IS NOT TRUE, (ni > 0) IS UNKNOWN FROM types ORDER BY id LIMIT 30
SELECT TOP 2 WITH TIES intDiv(id, 3) AS a FROM types ORDER BY a
WITH t AS MATERIALIZED (SELECT id AS n FROM types WHERE id < 3) SELECT sum(a.n) AS s FROM t AS a JOIN t AS b USING n
SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t ORDER BY c1
SELECT * FROM (VALUES (1), (2)) ORDER BY c1
SELECT * FROM (VALUES ('x UInt8'), ('y z')) ORDER BY c1
SELECT tuple(1, 2).-1 AS a, (1, 'x').-2 AS b, t.-1 AS c FROM (SELECT (1, 2) AS t)
FROM (SELECT id FROM types WHERE id < 3) ORDER BY id
FROM (SELECT id FROM types) SELECT id WHERE id < 3 ORDER BY id
FROM types SELECT count()
SELECT 'a' LIKE 'a' escape
SELECT * FROM (FROM numbers(2)) ORDER BY number
SELECT 1,
SELECT 1, 2, FROM numbers(1)
SELECT number, from FROM (SELECT 1 AS number, 2 AS from)
SELECT sum(ALL id) AS a, count(ALL 1) AS b FROM types
-- Members of a set that are of another type than the value
SELECT materialize('1') IN (1), materialize('1') IN (2, -1), toNullable('2') IN (2, NULL), toDate32('1970-01-02') IN (1), toDateTime64(1, 3, 'UTC') IN (1, 2)
SELECT materialize(toFloat32(0.1)) IN ('0.1'), materialize(toFloat32(0.1)) IN (0.1), materialize(toFloat64(0.1)) IN ('0.1', '2')
SELECT CAST('a', 'Enum8(\'a\' = 1, \'2\' = 3)') IN ('zz', 'a') AS x, CAST('a', 'Enum8(\'a\' = 1)') IN ('1'), CAST('a', 'Enum8(\'a\' = 1)') NOT IN ('zz', 'b')
