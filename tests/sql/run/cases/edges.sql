-- NULL
SELECT NULL AND 0, NULL OR 1, NULL AND 1, NOT NULL, NULL = NULL, if(NULL, 1, 2), coalesce(NULL, NULL), ifNull(NULL, 1), isNull(NULL), NULL IN (1, 2), 1 IN (NULL, 1), 2 IN (NULL, 1)
SELECT count(), sum(ni), avg(nf), min(ns), max(ni), uniq(ns), any(ns), stddevPop(ni), quantile(0.5)(nf), argMin(ns, ni), argMax(ni, ns) FROM types WHERE id < 30
SELECT sum(ni), avg(ni), min(ns), count(ni), uniq(ni), groupArray(ni), quantile(0.5)(ni) FROM types WHERE ni IS NULL
SELECT lcn, sum(ni), min(nf), count(ns) FROM types GROUP BY lcn ORDER BY lcn NULLS FIRST
SELECT ni % 3 AS k, count() FROM types GROUP BY k ORDER BY k
SELECT ns = 'n1' AS c, count() FROM types GROUP BY c ORDER BY c
SELECT count() FROM types WHERE ni
SELECT count() FROM types WHERE NOT (ni > 5)
SELECT count() FROM types WHERE ni != 5 OR ns IS NULL
SELECT count() FROM types WHERE ni IN (SELECT ni FROM types WHERE id < 10)
SELECT count() FROM types WHERE ni NOT IN (SELECT ni FROM types WHERE id < 10)
SELECT a.id, b.id FROM types a JOIN types b ON a.ns = b.ns AND a.ni = b.ni WHERE a.id < 15 ORDER BY a.id, b.id
SELECT greatest(ni, 3), least(nf, 2), ni BETWEEN -5 AND 5, ni + nf, concat(ns, lcn), length(ns), toString(ni), ni::Nullable(String) FROM types ORDER BY id LIMIT 12
SELECT CASE WHEN ni > 0 THEN ns END, multiIf(ni > 0, 'p', ni < 0, 'n', 'z'), if(isNull(ni), -1, ni) FROM types ORDER BY id LIMIT 12
SELECT [1, NULL, 3], arraySort([3, NULL, 1]), arrayMap(x -> x + 1, [1, NULL]), arrayFilter(x -> isNotNull(x), [1, NULL, 2]), arrayCount(x -> x = 1, [1, NULL]), has([1, NULL], 1), [ni, 1] FROM types ORDER BY id LIMIT 4
SELECT (ni, 1), tuple(ns).1, map('k', ni) FROM types ORDER BY id LIMIT 4
-- Integers at their limits
SELECT toInt8(-128) - 1, toUInt8(255) + 1, toInt16(32767) * 2, toUInt32(4294967295) + 1, toInt32(-2147483648) - 1, abs(toInt8(-128)), -toInt8(-128), negate(toInt64(-9223372036854775808))
SELECT toUInt64(18446744073709551615) * 2, toUInt64(18446744073709551615) * 18446744073709551615, toInt64(9223372036854775807) * 9223372036854775807, toUInt64(5) - toUInt64(7)
SELECT sum(x), max(x) FROM (SELECT arrayJoin([toUInt64(18446744073709551615), toUInt64(1)]) AS x)
SELECT sum(x) FROM (SELECT toInt64(9223372036854775807) AS x UNION ALL SELECT toInt64(1))
SELECT intDiv(toInt64(-9), 2), intDiv(-9, 2), -9 % 2, 9 % -2, intDiv(toUInt64(18446744073709551615), 2), toUInt64(18446744073709551615) % 10
SELECT toUInt8(1.9), toInt8(-1.9), toInt32(1e9), toUInt8('255'), toInt64('-9223372036854775808'), toUInt64('18446744073709551615')
SELECT toInt8(300), toInt16(-40000), toUInt16(-1), toUInt32(4294967297), toInt32(toUInt32(4294967295)), toUInt64(toInt8(-1)), toInt8(toUInt64(200))
SELECT u64 = toUInt64(i64), i64 < u64, toInt64(-1) < toUInt64(1), toInt8(-1) = toUInt8(255), 1 = true FROM types ORDER BY id LIMIT 3
SELECT '\xC3\xA9', '\x41\'\\x41', length('\xe2\x82\xac')
SELECT 0b11, 0b1+1, -0b101, 0b11111111, toTypeName(0b100000000), 0x1F
-- Floats
SELECT toFloat32(0.1), toFloat32(0.1) + 1, toFloat32(1) / 3, 0.1 + 0.2, 1e15, 1e16, 123456789.123, 1e-6, 1e-7, 100000000000000000000., -1e21
SELECT round(0.5), round(1.5), round(-0.5), round(2.675, 2), round(1e10 + 0.5), floor(-0.5), ceil(-0.5), trunc(-0.5), round(12345.678, -2), round(toFloat32(1.25), 1)
SELECT x, x + 1, x * 0, x = x, greatest(x, 1), x > 0, toString(x), if(x > 0, 'p', 'n'), x IN (1.5, 2.5), isNaN(x) ? 0 : x FROM floats ORDER BY id
SELECT sum(x), avg(x), count(x), min(x), max(x) FROM floats
SELECT uniq(x), count() FROM floats WHERE x = x
SELECT sum(f32), avg(f32), max(f32), sum(f64), round(sum(f64) / 7, 3) FROM types
-- Strings and bytes
SELECT 'a\0b', length('a\0b'), 'a' < 'B', 'Ä' > 'Z', concat('é', 'è'), length('日本語'), lengthUTF8('日本語'), upperUTF8('straße'), substringUTF8('日本語', 2, 1), position('日本語', '語'), reverseUTF8('日本語')
SELECT '' = '', empty(''), length(''), substring('', 1), splitByChar(',', ''), splitByChar(',', ','), replaceAll('', 'a', 'b'), trim(''), toString('')
SELECT 'a' LIKE 'A', 'a' ILIKE 'A', 'ab' LIKE '_', 'ab' LIKE '__', '10%' LIKE '10\\%', 'a\nb' LIKE 'a%b', match('a\nb', 'a.b'), match('abc', 'B'), match('abc', '(?i)B'), extract('a=1,b=2', 'b=(\\d)')
SELECT replaceRegexpAll('abc', '', '-'), replaceRegexpOne('aaa', 'a', 'b'), replaceRegexpAll('John Smith', '(\\w+) (\\w+)', '\\2 \\1'), replaceAll('aaa', 'aa', 'b'), countSubstrings('aaa', 'a')
SELECT fs = 'f1', fs LIKE 'f%', lower(fs), substring(fs, 1, 1), fs || 'x', fs IN ('f1', 'f2'), length(concat(fs, '')) FROM types ORDER BY id LIMIT 4
SELECT lc = 'lc1', lc IN ('lc1', 'lc2'), lc < 'lc1', max(lc), min(lcn), uniq(lc), groupUniqArray(lc = 'lc1') FROM types GROUP BY lc ORDER BY lc
SELECT substring(s, 2, 3), left(s, 2), right(s, 2), substring(s, -2), reverseUTF8(s), position(s, 'Ü') FROM types ORDER BY id LIMIT 12
-- Decimals
SELECT toDecimal32(0.1, 2) + toDecimal64(0.2, 3), toDecimal32('1.23', 2) * 3, toDecimal64('10.5', 2) / 4, toDecimal32(-1.25, 2), toDecimal64('0.001', 3) * toDecimal64('0.001', 3), toDecimal32(1, 2) / 3, -toDecimal32('7.77', 2)
SELECT dec = 1.375, dec > 5, dec < dec18, dec = toDecimal64('1.375', 3), dec IN (1.375, 2.75), greatest(dec, toDecimal32(2, 1)), dec BETWEEN 1 AND 5, toString(dec), toFloat64(dec), toInt32(dec) FROM types ORDER BY id LIMIT 6
SELECT sum(dec), avg(dec), min(dec), max(dec18), sum(dec * 2), sum(dec + dec18), median(dec), any(dec) FROM types
SELECT round(toDecimal64('1.245', 3), 2), round(toDecimal64('-1.255', 3), 2), floor(toDecimal64('-1.5', 1)), ceil(toDecimal64('1.2', 1)), trunc(toDecimal64('-1.99', 2), 1), abs(toDecimal64('-1.5', 1)), sign(toDecimal64('-1.5', 1))
-- Dates and zones
SELECT dtm = dt, dtm > '2020-06-01 15:00:00', toDate(dtm) = toDate(dt), dtm - dt, dateDiff('day', dtm, dt), toStartOfMonth(dtm), dtm + INTERVAL 1 DAY, date_trunc('day', dtm), toStartOfInterval(dtm, INTERVAL 1 hour), formatDateTime(dtm, '%Y-%m-%d %H:%i:%S') FROM types ORDER BY id LIMIT 12
SELECT min(dtm), max(dtm), toTypeName(min(dtm)), toTypeName(toStartOfHour(dtm)), toTypeName(toTimeZone(dt, 'Asia/Tokyo')), toTypeName(if(1, dtm, dtm)), toTypeName(dtm + 1) FROM types
SELECT toDateTime('2020-01-01 00:00:00', 'America/New_York') AS ny, toUnixTimestamp(ny), toTimeZone(ny, 'UTC'), toDate(ny), toHour(ny), toYYYYMM(ny), toStartOfDay(ny), ny + INTERVAL 1 MONTH
SELECT toDateTime64('2020-01-01 00:00:00.987', 3) AS t, toDateTime(t), toDate(t), toUnixTimestamp(t), t + 1, addSeconds(t, 2), toStartOfMinute(t), toSecond(t), t > toDateTime('2020-01-01 00:00:00'), toString(t), dateDiff('second', toDateTime('2019-12-31 23:59:59'), t)
SELECT toDate('2149-06-06'), toDate('1970-01-01'), toDateTime('2106-02-07 06:28:15'), toDateTime(0), toDate(0), toDateTime(4294967295), toDate32('1900-01-01'), toDate32('2299-12-31')
SELECT toStartOfWeek(toDate('2020-01-05')), toStartOfWeek(toDate('2020-01-05'), 1), toMonday(toDate('2020-01-05')), toDayOfWeek(toDate('2020-01-05')), toISOWeek(toDate('2020-12-31')), toISOYear(toDate('2021-01-01')), toWeek(toDate('2020-12-31')), toLastDayOfMonth(toDate('2020-02-01')), toDayOfYear(toDate('2020-12-31'))
SELECT d = '2020-01-01', d > toDateTime('2020-01-01 12:00:00'), dt >= toDate('2020-01-02'), d IN ('2020-01-01'), d BETWEEN '2020-01-01' AND toDate('2020-01-05'), dt BETWEEN '2020-01-01 00:00:00' AND '2020-01-02 00:00:00' FROM types ORDER BY id LIMIT 12
SELECT dateDiff('month', toDate('2020-01-31'), toDate('2020-02-29')), dateDiff('year', toDate('2019-12-31'), toDate('2020-01-01')), dateDiff('week', toDate('2020-01-05'), toDate('2020-01-06')), dateDiff('quarter', toDate('2020-03-31'), toDate('2020-04-01')), dateDiff('hour', toDateTime('2020-01-01 10:59:59'), toDateTime('2020-01-01 11:00:00')), dateDiff('day', toDateTime('2020-01-01 23:59:59'), toDateTime('2020-01-02 00:00:00'))
-- Enums, UUID, IP
SELECT e, toString(e), e = 'red', e IN ('red', 'green'), e < 'green', toInt8(e), CAST(e AS String), concat(toString(e), '!'), max(e), count() FROM types GROUP BY e ORDER BY e
SELECT uid, toString(uid), uid = toUUID('61f0c404-5cb3-11e7-907b-a6006ad3d001'), uid IN ('61f0c404-5cb3-11e7-907b-a6006ad3d002') FROM types ORDER BY id LIMIT 4
SELECT ip, toString(ip), ip = '10.0.0.0', ip > toIPv4('10.0.1.0'), IPv4NumToString(toUInt32(ip)), count() FROM types GROUP BY ip ORDER BY ip LIMIT 5
SELECT b, toString(b), b = 1, toInt8(b), if(b, 1, 2), b AND 1, NOT b, sum(b), max(b), countIf(b) FROM types GROUP BY b ORDER BY b
-- Shapes of queries
SELECT x, y FROM (SELECT number AS x, number * number AS y FROM numbers(10)) WHERE x % 2 = 0 AND y > 10 ORDER BY x DESC LIMIT 2
SELECT k, groupArray(v) FROM (SELECT number % 2 AS k, number AS v FROM numbers(6) ORDER BY v) GROUP BY k ORDER BY k
SELECT count() FROM (SELECT 1 WHERE 0)
SELECT sum(c) FROM (SELECT count() AS c FROM types GROUP BY lc HAVING c > 1000)
SELECT * FROM (SELECT 1 AS a, 2 AS b) AS x JOIN (SELECT 1 AS a, 3 AS c) AS y ON x.a = y.a JOIN (SELECT 3 AS c, 4 AS d) AS z ON y.c = z.c
SELECT a.x, b.x, c.x FROM (SELECT 1 AS x) AS a LEFT JOIN (SELECT 2 AS x) AS b ON a.x = b.x LEFT JOIN (SELECT 0 AS x) AS c ON b.x = c.x
SELECT id, count() OVER (), sum(id) OVER (ORDER BY id DESC), max(s) OVER (PARTITION BY b) FROM types WHERE id < 8 ORDER BY id
SELECT lc, sum(u8) AS total, total / sum(total) OVER () AS share FROM types GROUP BY lc ORDER BY lc
SELECT u8 AS k, any(s) FROM types WHERE k IN (SELECT max(u8) FROM types) GROUP BY k
SELECT if(count() = 0, 'none', 'some') FROM types WHERE id > 1000
SELECT max(id) + min(id), count() * 2, sum(u8) > 100, toTypeName(count()), any('const'), 5 FROM types
SELECT 'const' AS c, count() FROM types GROUP BY c
SELECT 1 + 1 AS two, count() FROM types GROUP BY two
SELECT id % 3 AS r, id % 2 AS q, count() FROM types GROUP BY q, r ORDER BY q DESC, r
SELECT toStartOfMonth(day) AS m, region, count() AS c FROM visits WHERE duration >= 0 GROUP BY m, region HAVING c > 5 ORDER BY m, c DESC, region LIMIT 4
SELECT user, sum(revenue) AS r FROM visits GROUP BY user ORDER BY r DESC, user LIMIT 3
SELECT uniq(user), uniqIf(user, region = 'eu'), sumIf(revenue, region = 'us'), avgIf(duration, duration > 0) FROM visits
SELECT number AS n, (SELECT sum(number) FROM numbers(3)) AS s FROM numbers(2)
SELECT arrayJoin(range(3)) AS x, count() FROM types GROUP BY x ORDER BY x
SELECT count() FROM numbers(100) WHERE number NOT IN (SELECT number * 2 FROM numbers(50))
SELECT min(number), max(number) FROM numbers(10) WHERE number > 3 HAVING max(number) > 5
SELECT DISTINCT number % 3 AS x FROM numbers(10) ORDER BY x LIMIT 2
SELECT number FROM numbers(10) ORDER BY number % 2 DESC, number LIMIT 3 OFFSET 1
SELECT sum(number) AS s, s + 1, s * s FROM numbers(4)
SELECT t.1 AS a, t.2 AS b FROM (SELECT (number, toString(number)) AS t FROM numbers(2)) ORDER BY a
SELECT any(x) AS a FROM (SELECT 5 AS x) WHERE x = 5
-- IPv6
SELECT arrayJoin(['::1', '::', '2001:db8::1', '1:2:3:4:5:6:7:8', '1:0:0:2:0:0:0:3', '1:0:0:0:2:0:0:0', 'fe80::a:0:0:b', '::ffff:1.2.3.4', '1.2.3.4', '1::', '0:0:1::', 'ABCD:EF01:2345:6789:abcd:ef01:2345:6789', '1:0:2:0:3:0:4:0']) AS t, toIPv6(t) AS a, toString(a), a = '2001:db8::1', a IN ('::', '1::'), a < '2001:db8::', IPv6NumToString(IPv6StringToNum(t)) ORDER BY t
SELECT toIPv6(toIPv4('10.1.2.3')), CAST('::2' AS IPv6), toIPv6(NULL), max(a), toTypeName(any(a)) FROM (SELECT toIPv6(concat('2001:db8::', toString(u8))) AS a FROM types)

-- Aggregates of nothing, and of NULL
SELECT groupBitAnd(number), groupBitOr(number), avgOrDefault(number), any(NULL), avg(NULL) FROM numbers(0)
SELECT groupBitXor(DISTINCT number % 3), varPop(DISTINCT number % 3), median(DISTINCT number % 3) FROM numbers(10)
SELECT anyLast(if(number > 5, NULL, number)), any(if(number < 5, NULL, number)) FROM numbers(9)
SELECT number, first_value(if(number < 2, NULL, number)) OVER (ORDER BY number), last_value(if(number > 2, NULL, number)) OVER (ORDER BY number) FROM numbers(5) ORDER BY number
SELECT hasAny([1, NULL], [NULL]), hasAll([1.5], [1.5, nan]), hasAny([nan], [nan]), countMatches('a\nb', '.'), countMatches('axxb', 'x*'), JSONExtractBool('{"a":5}', 'a'), bin('ab'), hex(true), arraySum([9223372036854775807, 1])

-- The logarithm of NULL
SELECT log(if(number = 1, NULL, number)), log2(if(number = 1, NULL, number)), log10(if(number = 1, NULL, toInt32(number))) FROM numbers(3)

-- Control characters in what is aggregated
SELECT max('a\x01b\x02c') AS greatest, length(min('a\x01b')) AS bytes, groupArray('\x02') AS all, countIf(s != '\x01') AS others FROM (SELECT '\x01' AS s UNION ALL SELECT 'x')

-- Words of SQL in texts and names of the user's
SELECT CAST((1, 2), 'Tuple(`a\'b` UInt8, c UInt8)') AS t, t IN (SELECT 1, 2) AS found, t IN (SELECT 2, 2) AS lost
SELECT concat('coalesce(', ns, ' CASE ') AS a, length('SELECT error(') + u64 AS b, 'rank() OVER (' AS c, 'pando_room(' AS d, count() AS n FROM types GROUP BY a, b, c ORDER BY b, a LIMIT 5
SELECT NULL::Nullable(Int32) IN (SELECT 1 WHERE 0) AS a, NULL::Nullable(Int32) NOT IN (SELECT 1 WHERE 0) AS b, NULL::Nullable(Int32) IN (SELECT 1) AS c, toNullable(2) IN (SELECT 1) AS d, toNullable(1) IN (SELECT 1) AS e
SELECT id FROM ordered WHERE n NOT IN (SELECT n FROM ordered WHERE id > 99) ORDER BY id
