-- Values that scans compute of their columns: plain, Nullable, of dictionaries, in every place where a column may stand
SELECT lower(s), upper(s), lower(ns), upper(lc), lower(lcn), toTypeName(lower(lcn)) FROM types ORDER BY id
SELECT upper(w), lower(upper(w)), positionCaseInsensitive(w, 'L'), positionCaseInsensitive(nk, 'X'), lower(k) = upper(k) FROM words ORDER BY id
SELECT upper(lk) AS u, count(), min(lower(w)), max(n) FROM words GROUP BY u ORDER BY u
SELECT upper(lnk) AS u, uniqExact(upper(w)), uniqExact(w) FROM words GROUP BY lnk, u ORDER BY u
SELECT k, any(upper(k)), count() FROM words GROUP BY k ORDER BY k
SELECT upper(w) FROM words WHERE lower(w) LIKE '%eight%' AND n > 0 ORDER BY id LIMIT 5
SELECT upper(u) FROM (SELECT upper(w) AS u, id FROM words) WHERE lower(u) = 'short' ORDER BY id LIMIT 3
SELECT upper(arr), lower(w) FROM words ARRAY JOIN arr WHERE id < 30 ORDER BY id, arr
SELECT upper(a), upper(w) FROM words ARRAY JOIN arr AS a WHERE id < 30 ORDER BY id, a
SELECT arrayMap(x -> upper(x), arr), arrayMap(x -> concat(x, upper(w)), arr) FROM words ORDER BY id LIMIT 20
SELECT users.user, upper(name), upper(city), upper(region) FROM users LEFT JOIN visits ON users.user = visits.user AND visits.duration < -20 ORDER BY users.user, region, name
SELECT upper(a.region) AS r, count() FROM visits AS a JOIN visits AS b ON upper(a.region) = upper(b.region) AND a.user = b.user WHERE a.day < '2024-01-05' GROUP BY a.region ORDER BY a.region
SELECT upper(a.k) AS x, upper(b.k) AS y FROM words AS a JOIN words AS b USING (id) WHERE id < 12 ORDER BY id
SELECT upper(k) FROM words WHERE id IN (SELECT id FROM words WHERE upper(k) = 'AB') ORDER BY id LIMIT 4
SELECT id, (SELECT max(upper(w)) FROM words) AS m FROM words ORDER BY id LIMIT 2
SELECT * FROM (SELECT upper(k) AS u FROM words WHERE id < 4 UNION ALL SELECT lower(w) FROM words WHERE id < 4) ORDER BY u
SELECT id, upper(k), row_number() OVER (PARTITION BY upper(k) ORDER BY id) AS r FROM words ORDER BY id LIMIT 30
SELECT DISTINCT upper(k), upper(lk) FROM words ORDER BY 1, 2 LIMIT 10
SELECT upper(k) AS u, n FROM words ORDER BY u DESC, id LIMIT 2 BY u
SELECT upper(s), n FROM nothing
SELECT toHour(dt, 'Asia/Tokyo'), toYear(dt, 'America/New_York'), toStartOfDay(dt, 'Europe/Berlin'), toMinute(dt64, 'Asia/Kolkata'), toString(dt, 'Asia/Tokyo'), toDayOfWeek(dtm), toStartOfHour(dtm), toDate(dtm) FROM types ORDER BY id
SELECT toStartOfMonth(dtm) AS month, toHour(dtm) AS hour, count() FROM types GROUP BY month, hour ORDER BY month, hour
-- Dates and times that texts spell: usual and odd ones in one column, of whole columns and in places
SELECT toDateOrNull(w), toDateOrZero(lower(k)), toDateTimeOrNull(nk), toDate32OrNull(lk) FROM words ORDER BY id LIMIT 20
