-- Hours between dates, and hours of a day, in zones.
SELECT dateDiff('hour', toDate('2014-10-26'), toDate('2014-10-27'), 'Asia/Istanbul') AS a, dateDiff('minute', toDate('2014-10-26'), toDate('2014-10-27'), 'Asia/Istanbul') AS b, dateDiff('second', toDate('2014-10-26'), toDate('2014-10-27'), 'Asia/Istanbul') AS c, dateDiff('day', toDate('2014-10-26'), toDate('2014-10-27'), 'Asia/Istanbul') AS d, dateDiff('millisecond', toDate('2014-10-26'), toDate('2014-10-27'), 'Asia/Istanbul') AS e
SELECT age('hour', toDate('2014-10-26'), toDate('2014-10-27'), 'Asia/Istanbul') AS a, age('minute', toDate('2014-10-26'), toDate('2014-10-27'), 'Asia/Istanbul') AS b, age('second', toDate('2014-10-26'), toDate('2014-10-27'), 'Asia/Istanbul') AS c, age('millisecond', toDate('2014-10-26'), toDate('2014-10-27'), 'Asia/Istanbul') AS d, age('day', toDate('2014-10-26'), toDate('2014-10-27'), 'Asia/Istanbul') AS e
SELECT dateDiff('hour', materialize(toDate32('2014-10-26')), toDateTime('2014-10-27 00:00:00', 'UTC'), 'Asia/Istanbul') AS a, dateDiff('hour', materialize(toDate('2014-10-26')), toDateTime('2014-10-27 00:00:00', 'America/New_York'), 'Asia/Istanbul') AS b, dateDiff('second', materialize(toDate('2014-10-26')), toDateTime('2014-10-27 00:00:00', 'America/New_York')) AS c, age('hour', materialize(toDate('2014-10-26')), toDateTime('2014-10-27 00:00:00', 'America/New_York')) AS d
SELECT dateDiff('hour', d, toDateTime('2020-03-29 12:00:00', 'UTC'), 'Europe/Berlin') AS a, dateDiff('hour', d, d + 95, 'Europe/Berlin') AS b, age('hour', d, d + 95, 'Europe/Berlin') AS c, age('minute', d32, d, 'Europe/Berlin') AS e FROM types ORDER BY id
SELECT dateDiff('hour', toDate('2014-10-26'), toDate('2014-10-27')), toStartOfInterval(toDateTime('2021-03-23 03:58:00'), INTERVAL 11 HOUR), toStartOfInterval(toDateTime('2021-03-23 13:58:00'), INTERVAL 11 HOUR), toStartOfInterval(toDateTime('2021-03-23 23:58:00'), INTERVAL 11 HOUR), toStartOfInterval(toDateTime('2021-03-23 23:58:00'), INTERVAL 25 HOUR), toStartOfInterval(toDateTime('2021-03-23 23:58:00'), INTERVAL 48 HOUR), toStartOfInterval(toDateTime('2021-03-23 23:58:00'), INTERVAL 24 HOUR)
SELECT toStartOfInterval(toDateTime('2021-03-23 03:58:00'), INTERVAL 11 MINUTE) AS a, toStartOfInterval(toDateTime('2021-03-23 03:58:11'), INTERVAL 11 SECOND) AS b, toStartOfInterval(toDateTime('2021-03-23 03:58:00'), INTERVAL 2000 MINUTE) AS c, toStartOfInterval(toDateTime('2021-03-23 03:58:00'), INTERVAL 7 MINUTE) AS d, toStartOfInterval(toDateTime('2021-03-23 03:58:03'), INTERVAL 100 SECOND) AS e, toStartOfInterval(toDateTime('2021-03-23 03:58:03'), INTERVAL 100000 SECOND) AS f
SELECT toStartOfInterval(toDateTime('2021-03-23 03:58:00', 'Asia/Kolkata'), INTERVAL 11 HOUR) AS a, toStartOfInterval(toDateTime('2021-03-23 15:58:00', 'Asia/Kolkata'), INTERVAL 11 HOUR) AS b, toStartOfInterval(toDateTime('2021-03-23 03:58:00', 'Asia/Kolkata'), INTERVAL 1 HOUR) AS c, toStartOfInterval(toDateTime('2021-03-23 03:58:00', 'Asia/Kolkata'), INTERVAL 25 MINUTE) AS d, toStartOfInterval(toDateTime('2021-03-23 03:58:00', 'Asia/Kolkata'), INTERVAL 60 MINUTE) AS e, toStartOfInterval(toDateTime('2021-03-23 03:58:00', 'Asia/Kolkata'), INTERVAL 45 MINUTE) AS f, toStartOfInterval(toDateTime('2021-03-23 03:58:07', 'Asia/Kolkata'), INTERVAL 100 SECOND) AS g
SELECT toStartOfInterval(toDateTime('2021-03-23 03:58:00'), INTERVAL 5 DAY) AS a, toStartOfInterval(toDateTime('2021-03-23 03:58:00'), INTERVAL 3 WEEK) AS b, toStartOfInterval(toDateTime('2021-03-28 12:58:00', 'Europe/Berlin'), INTERVAL 5 HOUR) AS c, toStartOfInterval(toDateTime('2021-10-31 12:58:00', 'Europe/Berlin'), INTERVAL 5 HOUR) AS d, toStartOfInterval(toDateTime64('2021-03-23 13:58:00.123', 3), INTERVAL 11 HOUR) AS e, toStartOfInterval(toDateTime64('1960-03-23 13:58:00.123', 3), INTERVAL 11 HOUR) AS f, toStartOfInterval(toDateTime64('1960-03-23 13:58:00.123', 3), INTERVAL 11 MINUTE) AS g
SELECT toDateTime('2021-03-28 00:00:00', 'UTC') + INTERVAL number * 37 MINUTE AS t, toTimeZone(t, 'Europe/Berlin') AS b, toStartOfInterval(b, INTERVAL 2 HOUR) AS x, toStartOfInterval(b, INTERVAL 7 HOUR) AS y, toStartOfInterval(b, INTERVAL 1 HOUR) AS z, toStartOfInterval(b, INTERVAL 90 MINUTE) AS u FROM numbers(12)
SELECT toDateTime('2021-10-31 00:00:00', 'UTC') + INTERVAL number * 37 MINUTE AS t, toTimeZone(t, 'Europe/Berlin') AS b, toStartOfInterval(b, INTERVAL 2 HOUR) AS x, toStartOfInterval(b, INTERVAL 7 HOUR) AS y, toStartOfInterval(b, INTERVAL 1 HOUR) AS z, toStartOfInterval(b, INTERVAL 90 MINUTE) AS u FROM numbers(12)
SELECT toStartOfInterval(toDateTime('2021-03-23 03:58:00', 'UTC'), INTERVAL 11 HOUR, 'Asia/Kolkata') AS a, date_trunc('hour', toDateTime('2021-03-23 03:58:00', 'Asia/Kolkata')) AS c, date_trunc('minute', toDateTime64('1950-03-23 03:58:31', 3, 'Asia/Kolkata')) AS d, date_trunc('hour', toDateTime64('1950-03-23 03:58:31', 3)) AS e
SELECT toStartOfInterval(dt, INTERVAL 7 HOUR), toStartOfInterval(dtm, INTERVAL 5 HOUR), toStartOfInterval(dt64, INTERVAL 30 HOUR), toStartOfInterval(dtm, INTERVAL 100 MINUTE) FROM types ORDER BY id
-- FixedString beside String.
SELECT hex(if(number = 1, toFixedString('1', 2), '2')) AS x, hex(multiIf(number = 0, toFixedString('1', 2), 'z')) AS y FROM numbers(2)
SELECT hex(multiIf(number = 0, toFixedString('1', 2), 'z')) AS y, hex(multiIf(number = 0, toFixedString('1', 2), number = 1, 'z', 'q')) AS z FROM numbers(2)
SELECT hex(if(number = 1, toFixedString('1', 2), toString(number))) AS x FROM numbers(2)
SELECT hex(if(number = 1, materialize(toFixedString('1', 2)), toString(number))) AS x, hex(if(number = 1, materialize(toFixedString('1', 2)), materialize('q'))) AS z, hex(if(number = 1, toFixedString('1', 2), 'q')) AS w FROM numbers(2)
SELECT hex(if(number = 1, materialize(toFixedString('1', 2)), toNullable(toString(number)))) AS x FROM numbers(2)
SELECT hex(if(number = 1, toFixedString(toString(number), 2), toFixedString(toString(number), 3))) AS x FROM numbers(2)
SELECT hex(multiIf(number = 1, toFixedString(toString(number), 2), toString(number))) AS x FROM numbers(2)
SELECT hex(multiIf(number = 1, materialize(toFixedString('1', 2)), number = 0, 'a', toString(number))) AS x FROM numbers(2)
SELECT hex(coalesce(toNullable(toFixedString('1', 2)), 'x')) AS x
SELECT hex([toFixedString('1', 2), 'abc'][1]) AS x, hex(CAST(toFixedString('1', 2) AS String)) AS y, hex(toString(toFixedString('1', 2))) AS z
SELECT hex(ifNull(toNullable(toFixedString('1', 2)), 'x')) AS x
SELECT hex(ifNull(materialize(toNullable(toFixedString('1', 2))), 'x')) AS x, hex(coalesce(materialize(toNullable(toFixedString('1', 2))), 'x')) AS y
SELECT hex(CASE WHEN number = 1 THEN toFixedString('1', 2) ELSE 'x' END) AS x, hex(CASE number WHEN 1 THEN toFixedString('1', 2) ELSE 'x' END) AS y FROM numbers(2)
SELECT hex(nullIf(toFixedString('1', 2), 'x')) AS x, hex(greatest(toFixedString('1', 2), '0')) AS y
SELECT hex(if(id % 2 = 1, fs, s)) AS x, length(if(id % 2 = 1, fs, s)) AS y, if(id % 2 = 1, fs, 'q') = fs AS z, length(if(id % 2 = 1, toFixedString(s, 40), s)) AS w FROM types ORDER BY id LIMIT 4
SELECT hex(coalesce(toNullable(toFixedString('1', 2)), toNullable('y'), 'x')) AS x
SELECT toFixedString('', 5) = '\0\0\0\0\0', toFixedString('', 5) != '\0\0\0\0\0', toFixedString('', 5) = '', toFixedString('ab', 5) = 'ab\0', toFixedString('ab', 3) = 'ab\0\0\0\0', toFixedString('ab', 3) < 'ab\0', toFixedString('ab', 3) <= 'ab', toFixedString('ab', 3) = toFixedString('ab', 5), 'ab' = 'ab\0'
SELECT fs = concat(fs, ''), fs = toString(fs), concat(fs, '') = toString(fs), fs > s, fs != concat(toString(fs), '\0\0\0\0'), fs < 'f2\0' FROM types ORDER BY id
SELECT id FROM types WHERE fs = 'f3\0\0\0\0' ORDER BY id
-- Bytes, words, powers.
SELECT splitByString('', ''), splitByString('', 'ab'), splitByString('', materialize('')), splitByString('a', ''), splitByChar('a', ''), splitByString('', w) FROM words WHERE id IN (0, 1, 4) ORDER BY id
SELECT groupArray(toString(exp10(number - 500))) FROM numbers(1000)
SELECT char(65, 66.1, 98.5), char(65 + 256), hex(char(-190.5)), hex(char(nan)), hex(char(1e30)), hex(char(4294967361.)), hex(char(65.9, 321.7, 256)), hex(char(208, 191)), hex(char(0, 65, 127)), hex(char(true)), hex(char(-inf))
SELECT char(toInt64(65) - 256 * number), char(65 + number), char(toFloat32(66.9)), char(toNullable(66)), char(toUInt64(18446744073709551361)) FROM numbers(3) ORDER BY ALL LIMIT 5
SELECT splitByString('', 'abcd', 2), splitByString('', '', 2)
SELECT exp10(f64 / 10), exp10(id - 50), exp10(ni) FROM types ORDER BY id
-- values: a tuple is a row, an array a value.
SELECT * FROM values([1, 2.2])
SELECT * FROM values([[1,2,3],[1.1,2.2,3.3]])
SELECT * FROM values([1, 2], [3, 4])
SELECT * FROM values(([1, 2], 'a'), ([3], 'b'))
SELECT * FROM values('a Array(UInt8)', [1, 2], [3])
SELECT * FROM values('a Tuple(UInt8, UInt8)', (1, 2), (3, 4))
SELECT * FROM values((1, 2))
-- Keys of maps.
SELECT map(d32, 1)[d32], map(d32, 1)[d], map(d, 5)[d32], map(d, 5)[toUInt32(d)], map(b, 1)[b], map(u8, 1)[b], map(b, 1)[5], map(e, 1)['red'], map(e, 1)[1] FROM types ORDER BY id
SELECT map(u8, 1)[i8], map(i8, 7)[u8], map(u64, 7)[i64], map(i64, 7)[u64], map(u16, 5)[id] FROM types ORDER BY id
SELECT map('a', 1)[lc], map(lc, 1)[s], map(lc, 5)[lc], map('n1', 1)[ns], map(1, 1)[ni] FROM types ORDER BY id
SELECT map(toDateTime('2020-01-01 00:00:00'), 2)[toDate('2020-01-01')], map(1, 2)[-1], map(1, 2)[materialize(toInt64(300))], map(1, 2)[true], map(toUUID('61f0c404-5cb3-11e7-907b-a6006ad3dba0'), 1)[toUUID('61f0c404-5cb3-11e7-907b-a6006ad3dba0')]
SELECT mapContains(map(1, 1), 300), mapContains(map(1, 1), -1), mapContains(map('a', 1), toFixedString('a', 1)), mapContains(map(1, 1), 1.0), mapContains(map(true, 1), 1), mapContains(m, 'k1') FROM types ORDER BY id LIMIT 3
-- Decimals beside whole numbers.
SELECT toTypeName([toDecimal32(1, 0), toInt64(5)]), toTypeName([toDecimal32(1, 0), toUInt64(5)]), toTypeName([toDecimal32(1, 2), toInt8(5)]), toTypeName([toDecimal32(1, 8), toInt8(5)]), toTypeName([toDecimal64(1, 8), toInt64(5)]), toTypeName([toDecimal32(1, 8), toDecimal64(1, 2)]), toTypeName([toDecimal32(1, 8), toDecimal32(1, 2)])
SELECT toTypeName([toDecimal32(1, 2), toUInt32(5)])
SELECT toTypeName([toDecimal32(1, 2), toInt32(5)])
SELECT toTypeName([toDecimal32(1, 2), toInt64(5)])
SELECT toTypeName([toDecimal32(1, 2), toUInt64(5)])
SELECT toTypeName([toDecimal32(1, 0), toUInt32(5)])
SELECT toTypeName([toDecimal64(1, 0), toUInt64(5)])
SELECT toTypeName([toDecimal64(1, 10), toUInt64(5)])
SELECT toTypeName([toDecimal64(1, 10), toInt64(5)])
SELECT toTypeName([toDecimal64(1, 10), toInt32(5)])
SELECT toTypeName([toDecimal32(1, 8), toInt16(5)])
SELECT toTypeName([toDecimal32(1, 6), toInt16(5)])
SELECT toTypeName([toDecimal32(1, 4), toInt16(5)])
SELECT toTypeName([toDecimal32(1, 2), toInt32(5), toDecimal64(1, 2)])
SELECT toTypeName([toDecimal32(1, 5), toDecimal64(1, 2)])
SELECT toTypeName(if(1, toDecimal32(1, 2), toInt32(5)))
SELECT toTypeName(if(materialize(1), toDecimal32(1, 2), toInt32(5)))
SELECT arrayDifference([toDecimal64(100, 0), -2147483647]), arrayDifference([toDecimal32(100, 2), 3]), arrayDifference([toDecimal64('1234567890123456.78', 2), 3])
-- Equal random calls are one value in a row.
SELECT generateUUIDv4(1) = generateUUIDv4(1), generateUUIDv4() = generateUUIDv4(), generateUUIDv4(1) = generateUUIDv4(2), rand(1) = rand(1), rand() = rand(), rand(1) = rand(2), rand64(1) = rand64(1), generateUUIDv4(number) = generateUUIDv4(number) FROM numbers(2)
SELECT number AS n, (rand() AS r) = r AS a FROM numbers(3)
SELECT rand() = rand() AS a, rand(1) = rand(2) AS b
SELECT count(), max(c) < 40 AS small FROM (SELECT rand() % 30 AS k, count() AS c FROM numbers(300) GROUP BY k)
SELECT countIf(r > 2147483648) > 30 AS a, countIf(r > 2147483648) < 170 AS b, uniqExact(r) > 190 AS c, sum(r = s) AS d FROM (SELECT rand() AS r, r AS s FROM numbers(200))
SELECT sum(r < 3000000000) = count() AS a FROM (SELECT rand() AS r FROM numbers(200) WHERE r < 3000000000)
SELECT if(number = 1, rand(7), rand(7)) = rand(7) AS a FROM numbers(3)
SELECT toTypeName(rand()), toTypeName(generateUUIDv4(1)), toTypeName(rand64(toNullable(1))), toTypeName(randCanonical())
SELECT sum(rand() >= 0), count() FROM numbers(10) GROUP BY number % 2 ORDER BY 1
SELECT number % 2 AS k, rand() >= 0 AS x, count() FROM numbers(10) GROUP BY k ORDER BY k
SELECT number FROM numbers(5) ORDER BY rand() * 0, number LIMIT 2
SELECT uniqExact(u) FROM (SELECT generateUUIDv4() AS u FROM numbers(100))
SELECT count() FROM (SELECT number FROM numbers(100) WHERE rand() = rand())
SELECT DISTINCT rand() >= 0 FROM numbers(5)
SELECT row_number() OVER (ORDER BY rand()) > 0 AS x FROM numbers(3)
SELECT a.number FROM numbers(3) AS a JOIN numbers(3) AS b ON a.number = b.number WHERE rand() = rand() ORDER BY 1
SELECT number, (SELECT rand() = rand()) AS x FROM numbers(2)
SELECT count() FROM types WHERE id IN (SELECT id FROM types WHERE rand() = rand())
SELECT max(rand() = rand()), any(rand(1) = rand(2)) FROM numbers(3)
SELECT number FROM numbers(3) GROUP BY number HAVING rand() = rand() ORDER BY number

-- Enums, instants and addresses beside numbers
SELECT e > 0, e = 2, 1 = e, e < -2.5, e IN (1, -3), e != toInt64(-3), toTypeName(e = 1) FROM types ORDER BY id LIMIT 9
SELECT dt > 1577836800, dt = 1577844577, 1577844577 <= dt, dt < 1577850000.5, dt IN (1577844577), dt BETWEEN 1577836801 AND 1577860000, dt != -1 FROM types ORDER BY id LIMIT 9
SELECT d IN (18255, 18256), ip = 167772161, ip > 0, toNullable(dt) > 1577836800, toTypeName(toNullable(dt) > 1) FROM types ORDER BY id LIMIT 5
SELECT count() FROM types WHERE e > 0 AND dt > 1577900000 AND ip < 167837952

-- Branches that are never taken, and asterisks
SELECT if(toUInt8(0), nowhere, u8) AS a, if(toUInt8(toUInt8(1)), u8, nowhere) AS b, if(CAST(CAST(0, 'UInt8'), 'UInt8'), nowhere, 42) AS c FROM types ORDER BY id LIMIT 3
SELECT * APPLY(toString) EXCEPT(number) APPLY(length) FROM numbers(12) // the column has another name by then
SELECT * APPLY(toString) REPLACE('x' AS number) FROM numbers(3)

-- Random rows: what is the same whatever the values are
SELECT toTypeName(a), toTypeName(b), toTypeName(c), toTypeName(d) FROM generateRandom('a UInt8, b String, c Array(Int8), d Nullable(Date)', 1, 10, 2) LIMIT 1
SELECT min(length(x)), max(length(x)), min(length(y)), max(length(y)), uniqExact(z) > 2900 FROM (SELECT x, y, z FROM generateRandom('x String, y Array(UInt8), z UUID', 3, 4, 6) LIMIT 3000)
SELECT min(a) < -9000000, max(a) > 9000000, min(b) < '1985-01-01', max(b) > '2090-01-01', countIf(c IS NULL) BETWEEN 200 AND 500, uniqExact(d), max(e) FROM (SELECT * FROM generateRandom('a Decimal(9, 2), b DateTime64(3), c Nullable(UInt8), d Bool, e UInt8', 7) LIMIT 5000)
