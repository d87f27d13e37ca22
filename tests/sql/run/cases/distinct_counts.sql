-- Keys that are strings beside a distinct count of one argument: in two steps (sql/compile/two_steps.py)
SELECT s, lc, count(), uniqExact(u8), sum(dec) FROM types GROUP BY s, lc ORDER BY s, lc
SELECT s, lc, count(DISTINCT u16), sum(u8), sum(i64), sum(u64), min(d), max(dt) FROM types GROUP BY s, lc ORDER BY s, lc
SELECT s, lc, uniqExact(u8), avg(i16), count() FROM types GROUP BY s, lc ORDER BY s, lc
SELECT url, region, uniq(user) AS people, count() AS visits, sum(revenue) AS total, max(day) FROM visits GROUP BY url, region HAVING people > 2 ORDER BY visits DESC, total, url, region LIMIT 20
SELECT region, substring(url, 1, 18) AS site, countDistinct(user), avg(duration), min(duration), max(duration), count(duration) FROM visits GROUP BY region, site ORDER BY region, site
SELECT lc, e, fs, uniqExact(i8 % 7 + 0), sum(i8) FROM types GROUP BY lc, e, fs ORDER BY lc, e, fs
-- NULL: as a key, as the counted value, in the other aggregates
SELECT lcn, lc, uniqExact(ns), count(), count(ns), sum(ni), min(ni), max(nf), avg(ni) FROM types GROUP BY lcn, lc ORDER BY lcn, lc
SELECT ns, lcn, uniqExact(ni), count(), sum(ni), avg(ni) FROM types GROUP BY ns, lcn ORDER BY ns, lcn
SELECT ns, lc, uniqExact(if(id > 60, ni, NULL)), count(if(id > 60, ni, NULL)), sum(if(id > 60, ni, NULL)), avg(if(id > 60, ni, NULL)) FROM types GROUP BY ns, lc ORDER BY ns, lc
-- NaN, floats, and integers that wrap
SELECT toString(id % 2) AS a, toString(id % 3) AS b, uniqExact(id), min(x), max(x), count(x) FROM floats GROUP BY a, b ORDER BY a, b
SELECT lc, lcn, uniqExact(u8), sum(f32) > 0, sum(f64) < 0, min(f32), max(f64) FROM types GROUP BY lc, lcn ORDER BY lc, lcn
SELECT s, lc, uniqExact(b), sum(u64 * 18446744073709), sum(i64 * 9223372036854), avg(u64) FROM types GROUP BY s, lc ORDER BY s, lc
-- Several arguments: a NULL among them is not counted
SELECT count(DISTINCT ni, ns), uniqExact(ns, lc), uniq(lcn, u8, ni), uniqExactIf(ns, ni, id > 30), uniqExact((ns, ni)) FROM types
SELECT lc, count(DISTINCT ni, ns), uniqExact(lcn, b) FILTER (WHERE id > 50) AS few, count() FROM types GROUP BY lc ORDER BY lc
SELECT uniqExact(ns, ni) OVER (PARTITION BY lc) AS n, id FROM types ORDER BY id LIMIT 5
-- Nothing to group
SELECT s, toString(a) AS t, uniqExact(a), count(), sum(n), avg(n) FROM nothing GROUP BY s, t ORDER BY s
SELECT s, lc, uniqExact(u8), count() FROM types WHERE id > 1000 GROUP BY s, lc
-- What one step does: two arguments, conditions, several counted values, many others, the counted value a key, roll-ups
SELECT s, lc, uniqExact(u8, id), count() FROM types GROUP BY s, lc ORDER BY s, lc
SELECT s, lc, uniqExactIf(u8, id > 50), count() FROM types GROUP BY s, lc ORDER BY s, lc
SELECT s, lc, uniqExact(u8), countIf(id > 50), sum(u8) FILTER (WHERE id < 50) AS low FROM types GROUP BY s, lc ORDER BY s, lc
SELECT s, lc, uniqExact(u8), uniqExact(e), count() FROM types GROUP BY s, lc ORDER BY s, lc
SELECT s, lc, uniqExact(lc), count() FROM types GROUP BY s, lc ORDER BY s, lc
SELECT s, lc, uniqExact(u8), sum(DISTINCT u8), sumOrNull(i8) FROM types GROUP BY s, lc ORDER BY s, lc
SELECT s, lc, uniqExact(u8), count(), sum(i8), sum(i16), min(i8), max(i8) FROM types GROUP BY s, lc ORDER BY s, lc
SELECT s, lc, uniqExact(u8), count(), quantileExact(i8), groupBitXor(u8) FROM types GROUP BY s, lc ORDER BY s, lc
SELECT s, lc, uniqExact(u8), uniqExact(NULL), uniqExact(1), count() FROM types GROUP BY s, lc ORDER BY s, lc
SELECT region, substring(url, 13, 5) AS site, uniqExact(user), count() FROM visits GROUP BY ROLLUP(region, site) ORDER BY region, site
-- Inside other queries
SELECT region, sum(people), max(n) FROM (SELECT region, url, uniqExact(user) AS people, count() AS n FROM visits GROUP BY region, url) GROUP BY region ORDER BY region
SELECT region, url, count() AS n, uniqExact(user), rank() OVER (ORDER BY count() DESC, region, url) AS place FROM visits GROUP BY region, url ORDER BY place LIMIT 7
SELECT v.region, u.name, uniqExact(v.url) AS urls, count(), sum(v.revenue) AS total FROM visits AS v INNER JOIN users AS u USING (user) GROUP BY v.region, u.name ORDER BY v.region, u.name
SELECT arrayJoin(sarr) AS x, lc, uniqExact(u8), count() FROM types GROUP BY x, lc ORDER BY x, lc
