-- What USING merges, and what it leaves to each table.
SELECT b.* FROM (SELECT number AS k FROM numbers(3)) AS a JOIN (SELECT number*2 AS k, number AS joined FROM numbers(10)) AS b ON a.k = b.k ORDER BY 1
SELECT * FROM (SELECT number AS x, number AS k FROM numbers(2)) AS a FULL JOIN (SELECT number*2 AS k, number AS joined FROM numbers(2)) AS b USING k ORDER BY k
SELECT * FROM (SELECT number AS x, number AS k FROM numbers(2)) AS a RIGHT JOIN (SELECT number*2 AS k, number AS joined FROM numbers(2)) AS b USING k ORDER BY k
SELECT * FROM (SELECT number AS k FROM numbers(3)) AS a FULL JOIN (SELECT number*2 AS k, number AS joined FROM numbers(3)) AS b USING k FULL JOIN (SELECT number + 3 AS k, number + 1 AS l FROM numbers(3)) AS c USING k ORDER BY ALL
SELECT a.*, b.*, c.* FROM (SELECT number AS k FROM numbers(3)) AS a FULL JOIN (SELECT number*2 AS k, number AS joined FROM numbers(3)) AS b USING k FULL JOIN (SELECT number + 3 AS k, number + 1 AS l FROM numbers(3)) AS c USING k ORDER BY ALL
SELECT a.k, b.k, c.k, k FROM (SELECT number AS k FROM numbers(3)) AS a FULL JOIN (SELECT number*2 AS k, number AS joined FROM numbers(3)) AS b USING k FULL JOIN (SELECT number + 3 AS k, number + 1 AS l FROM numbers(3)) AS c USING k ORDER BY ALL
SELECT a.k, k FROM (SELECT number AS k FROM numbers(3)) AS a RIGHT JOIN (SELECT number*2 AS k, number AS joined FROM numbers(3)) AS b USING k RIGHT JOIN (SELECT number + 3 AS k, number + 1 AS l FROM numbers(3)) AS c USING k ORDER BY ALL
SELECT a.k AS x, count() FROM (SELECT number AS k FROM numbers(3)) AS a RIGHT JOIN (SELECT number*2 AS k, number AS joined FROM numbers(3)) AS b USING k GROUP BY x ORDER BY ALL
SELECT * FROM (SELECT 1 AS x, 2 AS y, 3 AS z) AS a JOIN (SELECT 9 AS w, 2 AS y, 3 AS z) AS b USING (z, y)
SELECT b.* FROM (SELECT 1 AS x, 2 AS y, 3 AS z) AS a JOIN (SELECT 9 AS w, 2 AS y, 3 AS z) AS b USING (z, y)
SELECT b.* FROM (SELECT 1 AS id, 2 AS value) a SEMI LEFT JOIN (SELECT 1 AS id, 3 AS values) AS b USING id
SELECT b.* FROM (SELECT 1 AS id, 2 AS value) a ANTI LEFT JOIN (SELECT 2 AS id, 3 AS values) AS b USING id
SELECT a.*, b.*, id FROM (SELECT 1 AS id, 2 AS value) a ANTI RIGHT JOIN (SELECT 2 AS id, 3 AS values) AS b USING id
SELECT a.*, b.*, id FROM (SELECT 1 AS id, 2 AS value) a SEMI RIGHT JOIN (SELECT 1 AS id, 3 AS values) AS b USING id
SELECT a.*, b.* FROM (SELECT 1 AS id, 2 AS t) a ASOF JOIN (SELECT 1 AS id, 1 AS t, 5 AS v) AS b USING (id, t)
SELECT a.*, b.* FROM (SELECT number AS k FROM numbers(3)) AS a ANY LEFT JOIN (SELECT number*2 AS k, number AS joined FROM numbers(10)) AS b USING k ORDER BY k
SELECT *, b.* FROM (SELECT number AS k FROM numbers(3)) AS a ANY LEFT JOIN (SELECT number*2 AS k, number AS joined FROM numbers(10)) AS b USING k ORDER BY k
SELECT b.*, a.* FROM (SELECT number AS k FROM numbers(3)) AS a ANY LEFT JOIN (SELECT number*2 AS k, number AS joined FROM numbers(10)) AS b USING k ORDER BY k
SELECT b.* FROM (SELECT number AS k FROM numbers(3)) AS a LEFT JOIN (SELECT number*2 AS k, number AS joined FROM numbers(10)) AS b USING k ORDER BY k
SELECT * FROM (SELECT number AS k FROM numbers(3)) AS a FULL JOIN (SELECT number*2 AS k, number AS joined FROM numbers(3)) AS b USING k ORDER BY k
SELECT b.*, a.* FROM (SELECT number AS k FROM numbers(3)) AS a FULL JOIN (SELECT number*2 AS k, number AS joined FROM numbers(3)) AS b USING k ORDER BY ALL
SELECT b.*, a.*, k FROM (SELECT number AS k FROM numbers(3)) AS a RIGHT JOIN (SELECT number*2 AS k, number AS joined FROM numbers(3)) AS b USING k ORDER BY ALL
SELECT b.k, a.k, k FROM (SELECT toUInt8(number) AS k FROM numbers(3)) AS a LEFT JOIN (SELECT toInt32(number*2) AS k, number AS joined FROM numbers(3)) AS b USING k ORDER BY ALL
SELECT b.*, a.*, k FROM (SELECT toUInt8(number) AS k FROM numbers(3)) AS a LEFT JOIN (SELECT toInt32(number*2) AS k, number AS joined FROM numbers(3)) AS b USING k ORDER BY ALL
SELECT b.*, * FROM (SELECT toUInt8(number) AS k FROM numbers(3)) AS a LEFT JOIN (SELECT toInt32(number*2) AS k, number AS joined FROM numbers(3)) AS b USING k ORDER BY ALL
SELECT c.*, * FROM (SELECT number AS k FROM numbers(3)) AS a LEFT JOIN (SELECT number*2 AS k, number AS joined FROM numbers(3)) AS b USING k LEFT JOIN (SELECT number AS k, number + 1 AS l FROM numbers(3)) AS c USING k ORDER BY ALL
SELECT b.*, a.*, c.* FROM (SELECT number AS k FROM numbers(3)) AS a LEFT JOIN (SELECT number*2 AS k, number AS joined FROM numbers(3)) AS b USING k LEFT JOIN (SELECT number AS k, number + 1 AS l FROM numbers(3)) AS c USING k ORDER BY ALL
SELECT COLUMNS('k') FROM (SELECT number AS k FROM numbers(3)) AS a LEFT JOIN (SELECT number*2 AS k, number AS joined FROM numbers(10)) AS b USING k ORDER BY k
SELECT b.* EXCEPT k FROM (SELECT number AS k FROM numbers(3)) AS a LEFT JOIN (SELECT number*2 AS k, number AS joined FROM numbers(10)) AS b USING k ORDER BY joined
SELECT k, a.k AS x, b.k AS y FROM (SELECT number AS x, number AS k FROM numbers(2)) AS a RIGHT JOIN (SELECT number*2 AS k, number AS joined FROM numbers(2)) AS b USING k ORDER BY k
SELECT k, a.k, b.k FROM (SELECT number AS x, number AS k FROM numbers(2)) AS a FULL JOIN (SELECT number*2 AS k, number AS joined FROM numbers(2)) AS b USING k ORDER BY k
SELECT sum(a.k) AS x, sum(b.k), sum(k) FROM (SELECT number AS k FROM numbers(3)) AS a FULL JOIN (SELECT number*2 AS k FROM numbers(3)) AS b USING k WHERE a.k = 0
SELECT a.*, b.* EXCEPT (name), b.user + 1 FROM users AS a LEFT JOIN (SELECT user * 2 AS user, name FROM users) AS b USING user ORDER BY ALL LIMIT 5
SELECT * FROM users AS a FULL JOIN (SELECT user * 2 AS user, name FROM users) AS b USING (user, name) ORDER BY ALL LIMIT 50
