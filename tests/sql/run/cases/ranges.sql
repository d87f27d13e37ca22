-- Values at and behind the borders of Date and DateTime
SELECT toDateTime(toDate('2149-06-05')), toDateTime(toDate('2106-02-07')), toDateTime(toDate('2106-02-08')), toDateTime(toDate32('2200-01-01')), toDateTime(toDate32('1950-01-01'))
SELECT toDateTime(toDateTime64('2200-01-01 00:00:00', 3)), toDateTime(-1), toDateTime(4294967296), toDateTime(1e20), toDateTime(-1e20), toDateTime(1.99)
SELECT toDate(-1), toDate(65535), toDate(65536), toDate(4294967296), toDate(-1.5), toDate(1e20), toDate(65535.9), toDate32(-1), toDate32(4294967296), toDate32(1.9)
SELECT toDate('1960-01-01'), toDate('2300-01-01'), toDateTime('2200-01-01 00:00:00'), toDateTime('1960-01-01 00:00:00'), toUnixTimestamp(toDateTime('1960-01-01 00:00:00'))
SELECT toDate('2149-06-06') + 10, toDate('1970-01-01') - 10, toDateTime(4294967295) + 10, toDateTime(0) - 10, toDate(toDate32('2200-01-01'))
SELECT addMonths(toDate('2149-06-06'), 3), subtractMonths(toDate('1970-01-05'), 3), addYears(toDate('1970-01-01'), -5), subtractYears(toDateTime(0), 1), addYears(toDateTime(0), 137)
SELECT toMonday(toDate32('2200-01-01')), toMonday(toDate('1970-01-01')), toStartOfMonth(toDate32('1950-01-15')), toStartOfWeek(toDate('1970-01-01')), toLastDayOfMonth(toDate32('2200-01-15'))
SELECT toStartOfDay(toDate32('2200-01-01')), toStartOfDay(toDateTime64('1950-01-01 12:00:00', 3)), toStartOfHour(toDateTime64('2200-01-01 12:30:00', 3)), toStartOfMinute(toDateTime64('1950-01-01 12:30:30', 3))
SELECT makeDate(2200, 1, 1), makeDate(1950, 1, 1), makeDate(2020, 13, 1), makeDate(2020, 2, 30), makeDate(2020, 400), makeDate(2020, 0), makeDate(99999, 3), makeDate(2149, 6, 6)
SELECT makeDateTime(2200, 1, 1, 0, 0, 0), makeDateTime(1950, 1, 1, 0, 0, 0), makeDateTime(2020, 1, 1, 25, 0, 0), makeDateTime(2020, 1, 32, 0, 0, 0), makeDateTime(2020, 1, 1, 0, 0, 59.9)
SELECT toRelativeDayNum(toDate32('1950-01-01')), toRelativeSecondNum(toDate32('2200-01-01')), toUInt16(toDate32('2200-01-01')), toInt64(toDateTime64('1950-01-01 00:00:00.5', 3))
SELECT date_trunc('week', toDateTime64('2020-01-02 00:00:00', 3)), date_trunc('day', toDate('2020-01-02')), date_trunc('day', toDate32('2020-01-02')), toStartOfInterval(toDate('2020-01-02'), INTERVAL 5 DAY)
-- Numbers that do not fit
SELECT toUInt8(-1.5), toUInt8(300.7), toInt8(200.0), toUInt64(-1.5), toUInt64(1e20), toInt64(1e19), toInt32(3e9), toUInt32(5e9), toUInt32(-5.0), toFloat32(1e300)
SELECT intDiv(toUInt8(200), toInt16(-7)), intDiv(toUInt16(32770), -3), intDiv(toInt8(-7), toUInt64(18446744073709551615)), 1e30 % 7, -5.5 % 2, 7 / toDecimal64(2, 4)
SELECT accurateCastOrNull(1.5, 'UInt8'), accurateCastOrNull(-1, 'UInt8'), accurateCastOrNull(16777217, 'Float32'), accurateCastOrNull('300', 'UInt8'), accurateCastOrNull(nan, 'UInt8')
SELECT round(toUInt8(255), -1), round(true), log1p(1e-10), hypot(1e200, 1e200), lgamma(-3), toString(toFloat32(1e18)), toString(toFloat32(0.00001)), toDecimal32(toFloat32(9.098), 3)
-- Texts
SELECT toDateOrNull('20200105'), toDateOrNull('2020-1-5'), toDateOrNull('2020-01-05x'), toDateOrZero('2149-06-07'), toDate32OrZero('x'), toDateTimeOrNull('1577836800'), toDateTimeOrZero('1960-01-01 00:00:00'), toDateTimeOrNull('2020-06-01T12:34:56Z')
SELECT toFloat64OrNull(' 1'), toFloat64OrNull('1_000'), toDecimal32OrNull('1.239', 2), toDecimal32OrNull(' 1', 2), toUInt8OrNull('-1'), toInt32OrDefault('x', toInt32(7)), toInt32OrDefault(1.5)
SELECT JSONExtractString('{"a":5}', 'a'), JSONExtractString('{"a":[1, {"b" : 2}]}', 'a'), JSONExtractString('{"a":null}', 'a'), JSONExtractString('{"x":1,"y":"z"}', -1), JSONExtractUInt('{"a":1.9}', 'a'), JSONExtractInt('{"a":9007199254740993}', 'a')
SELECT regexpExtract('a1', '1'), regexpExtract('ba', '[a-c]+'), regexpExtract('ab', '(a)(b)', 2), extractAll('abcxx', 'x*'), splitByRegexp(',', 'a,b,c', 2), alphaTokens('abc1de2fg', 2)
SELECT domain('example.com/path'), domain('http://[::1]/x'), domain('svn+ssh://h/p'), path('a/b?c'), path('/just/path?q=1'), cutQueryString('http://a.b/c?d#e'), initcap('hello-world 1abc'), ascii('é')
SELECT leftPad('abc', 7, ''), position('ünï', 'ï', 3), locate('a', 'banana', 3), base64Encode(toFixedString('ab', 4)), startsWith(toFixedString('ab', 4), 'a'), substring('abc', -2)
-- NULL stays NULL in functions that answer a default
SELECT position(ns, 'n'), intDivOrZero(ni, 0), toInt32OrZero(ns), extract(ns, '[0-9]'), domain(ns), splitByChar('n', ns) FROM types ORDER BY id
-- Arrays
SELECT arraySlice([1, 2, 3], 0), arraySlice([1], -3, 2), has([nan], nan), indexOf([1, NULL], NULL), arrayProduct([3000000000, 5000000000, 7]), arrayAvg(emptyArrayUInt8()), arrayPushBack([1], NULL)
SELECT arrayDistinct([1, NULL, 1]), arrayUniq([1, NULL]), arrayMin([1, NULL]), arrayReverseSort([1.5, nan, 2.5]), greatest(dtm, dt64), CAST(dtm AS DateTime) FROM types ORDER BY id LIMIT 3
-- Zones have their summers also after 2037
SELECT toDateTime('2060-07-01 12:00:00', 'UTC')::DateTime('Europe/Berlin'), toDateTime64('2190-07-01 12:00:00', 3, 'America/New_York'), toDateTime('2085-01-01 00:00:00', 'Europe/Berlin')
SELECT age('second', toDate('2020-01-01'), toDateTime('2020-01-02 00:00:00', 'Asia/Tokyo')), dateDiff('hour', toDate('2020-01-01'), toDateTime('2020-01-02 00:00:00', 'Asia/Tokyo')), isDistinctFrom(nan, nan)
