-- Keys of at most 7 bytes: empty, with zero bytes, not ASCII (sql/compile/short_strings.py)
SELECT k, count(), sum(n) FROM words GROUP BY k ORDER BY k
SELECT k, length(k), hex(k), count() FROM words GROUP BY k ORDER BY k DESC
SELECT k, lk, count(), min(n), max(n) FROM words GROUP BY k, lk ORDER BY k, lk
SELECT uniqExact(k), uniq(lk), count(DISTINCT nk), uniqExact(lnk), count() FROM words
SELECT uniqExact(k, lk), uniqExact(nk, lnk), uniqExact(k, n), uniqExactIf(k, n > 0), countDistinctIf(nk, n < 0) FROM words
SELECT k, uniqExact(lk), uniqExact(nk), uniqExact(k) FROM words GROUP BY k ORDER BY k
-- NULL
SELECT nk, count(), count(nk), uniqExact(nk) FROM words GROUP BY nk ORDER BY nk
SELECT nk, lnk, count(), sum(n) FROM words GROUP BY nk, lnk ORDER BY nk NULLS FIRST, lnk DESC
SELECT lnk, count() FROM words GROUP BY lnk ORDER BY lnk
SELECT lnk, k, uniqExact(nk), count(), sum(n), avg(n) FROM words GROUP BY lnk, k ORDER BY lnk, k
SELECT nk, toTypeName(nk), isNull(nk), coalesce(nk, 'none') FROM words GROUP BY nk ORDER BY nk
SELECT lk, toTypeName(lk), upper(lk), lnk, toTypeName(lnk) FROM words GROUP BY lk, lnk ORDER BY lk, lnk
-- Longer strings, from the first rows or later, not ASCII around 7 bytes
SELECT w, count(), uniqExact(k) FROM words GROUP BY w ORDER BY w
SELECT k, w, count() FROM words GROUP BY k, w ORDER BY k, w
SELECT k, uniqExact(w) FROM words GROUP BY k ORDER BY k
SELECT w, count() FROM words WHERE length(w) < 8 GROUP BY w ORDER BY w
SELECT uniqExact(w), uniqExact(k, w) FROM words WHERE id < 1
-- Conditions, order and limits on a key
SELECT k, count() AS c FROM words GROUP BY k HAVING k > 'a' AND c > 10 ORDER BY length(k), k
SELECT k, count() FROM words GROUP BY k HAVING k IN ('', 'ab', 'a\0') ORDER BY k
SELECT k, lk, count() AS c FROM words GROUP BY k, lk ORDER BY k, c DESC, lk LIMIT 2 BY k LIMIT 9
SELECT nk, k FROM words GROUP BY nk, k ORDER BY nk, k LIMIT 1 BY nk
SELECT count() FROM words GROUP BY k ORDER BY k LIMIT 4 OFFSET 2
SELECT k, count() FROM words GROUP BY ALL ORDER BY ALL
SELECT k AS name, count() FROM words GROUP BY 1 ORDER BY 1
SELECT k, count() FROM words WHERE k != 'a' AND k LIKE '%a%' GROUP BY k ORDER BY k
SELECT k, count() FROM words WHERE k = 'a' OR n > 3 GROUP BY k ORDER BY k LIMIT 3 WITH TIES
SELECT DISTINCT length(k) FROM words GROUP BY k ORDER BY length(k)
SELECT DISTINCT k FROM words ORDER BY k
SELECT k, count(), row_number() OVER (ORDER BY k) AS nth, first_value(k) OVER (ORDER BY k DESC) FROM words GROUP BY k ORDER BY nth
-- Expressions over a key and of it
SELECT concat(k, '!', lk) AS both, upper(k), k = 'a', k || toString(count()) FROM words GROUP BY k, lk ORDER BY both, k
SELECT upper(k) AS u, count() FROM words GROUP BY u ORDER BY u
SELECT upper(k) AS u, k, count() FROM words GROUP BY u, k ORDER BY u, k
SELECT k, min(k), max(k), any(k), argMax(k, (n, id)), groupUniqArray(k), count(k) FROM words GROUP BY k ORDER BY k
SELECT lk, min(k), max(w), uniqExact(k), uniqExact(concat(k, lk)), anyIf(k, 0) FROM words GROUP BY lk ORDER BY lk
SELECT k, sumIf(n, k = 'a'), countIf(lk = 'p'), uniqExact(if(lk = 'p', k, '')) FROM words GROUP BY k ORDER BY k
SELECT k, count() FILTER (WHERE lk = 'p') AS p, uniqExact(lk) FILTER (WHERE n > 0) AS q FROM words GROUP BY k ORDER BY k
WITH k AS name SELECT name, count() FROM words GROUP BY name ORDER BY name
WITH 'a' AS k2 SELECT k = k2 AS same, k, count() FROM words GROUP BY k ORDER BY k
SELECT if(k = '', 'empty', k) AS shown, lk FROM words GROUP BY k, lk ORDER BY shown, lk LIMIT 12
SELECT k FROM words GROUP BY k HAVING count() > (SELECT avg(c) FROM (SELECT count() AS c FROM words GROUP BY k)) ORDER BY k
SELECT k, (SELECT max(k) FROM words), count() FROM words GROUP BY k ORDER BY k
SELECT k, count() FROM words WHERE k IN (SELECT lk FROM words) GROUP BY k ORDER BY k
-- Where codes are not used: inner queries, joins, unions, roll-ups, array joins
SELECT max(c), sum(length(k)) FROM (SELECT k, count() AS c FROM words GROUP BY k)
WITH t AS (SELECT k, lk FROM words) SELECT k, uniqExact(lk) FROM t GROUP BY k ORDER BY k
SELECT a.k, count() FROM words AS a JOIN words AS b ON a.id = b.id GROUP BY a.k ORDER BY a.k
SELECT * FROM (SELECT k, count() AS c FROM words GROUP BY k UNION ALL SELECT lk, count() FROM words GROUP BY lk) ORDER BY k, c
SELECT k, lk, count() FROM words GROUP BY ROLLUP(k, lk) ORDER BY k, lk, count()
SELECT item, k, count() FROM words ARRAY JOIN arr AS item GROUP BY item, k ORDER BY item, k
SELECT k, arrayJoin(arr) AS item, count() FROM words GROUP BY k, item ORDER BY k, item
SELECT k, count(arrayJoin(arr)), uniqExact(lk) FROM words GROUP BY k ORDER BY k
-- No rows
SELECT s, count(), uniqExact(s) FROM nothing GROUP BY s ORDER BY s
SELECT uniqExact(s), count(), max(s) FROM nothing
SELECT k, lk, uniqExact(nk), count() FROM words WHERE id > 10000 GROUP BY k, lk
SELECT uniqExact(k) FROM words LIMIT 0
