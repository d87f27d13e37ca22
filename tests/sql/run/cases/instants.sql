-- DateTime64 before 1970 and far from it, with fractions.
SELECT id, t, u, w, z, b, d FROM instants ORDER BY id
SELECT id, toString(t), toString(u), toString(w), toString(b), toString(u, 'Asia/Tokyo') FROM instants ORDER BY id
SELECT id, toStartOfSecond(t), toStartOfMinute(t), toStartOfHour(t), toStartOfDay(t), toStartOfMonth(t), toStartOfYear(t), toStartOfQuarter(t), toStartOfWeek(t), toMonday(t), toDate(t), toDate32(t), toDateTime(t) FROM instants ORDER BY id
SELECT id, toStartOfInterval(t, INTERVAL 1 SECOND), toStartOfInterval(t, INTERVAL 10 MILLISECOND), toStartOfInterval(t, INTERVAL 7 SECOND), toStartOfInterval(t, INTERVAL 5 MINUTE), toStartOfInterval(t, INTERVAL 1 HOUR), toStartOfInterval(t, INTERVAL 1 DAY) FROM instants ORDER BY id
SELECT id, toStartOfInterval(t, INTERVAL 3 DAY), toStartOfInterval(t, INTERVAL 1 WEEK), toStartOfInterval(t, INTERVAL 5 MONTH), toStartOfInterval(t, INTERVAL 1 YEAR) FROM instants ORDER BY id
SELECT id, toInt64(t), toFloat64(t), toDecimal64(t, 3), toDecimal64(w, 3) FROM instants ORDER BY id
SELECT id, toYear(t), toMonth(t), toDayOfMonth(t), toHour(t), toMinute(t), toSecond(t), toMillisecond(t), toDayOfWeek(t), toDayOfYear(t), toISOWeek(t), toYYYYMM(t), toYYYYMMDD(t), toYYYYMMDDhhmmss(t) FROM instants ORDER BY id
SELECT id, toSecond(b), toMinute(b), toMillisecond(b), toSecond(u), toMillisecond(u), toSecond(w), toMillisecond(w) FROM instants ORDER BY id
SELECT id, formatDateTime(t, '%Y-%m-%d %H:%i:%S.%f'), formatDateTime(u, '%s %f'), formatDateTime(t, '%F %T %j %u %W') FROM instants ORDER BY id
SELECT id, t + INTERVAL 1 SECOND, t - INTERVAL 1 SECOND, t + INTERVAL 1 MILLISECOND, t - INTERVAL 500 MILLISECOND, t + INTERVAL 1 MONTH, t - INTERVAL 1 YEAR, addSeconds(t, -1), addDays(t, 1), subtractHours(t, 1), t + 1, t - 1 FROM instants WHERE id < 5 ORDER BY id
SELECT id, dateDiff('second', t, toDateTime64('1970-01-01 00:00:00', 3, 'UTC')), dateDiff('millisecond', t, toDateTime64('1970-01-01 00:00:00', 3, 'UTC')), dateDiff('minute', t, toDateTime64('1970-01-01 00:00:00', 3, 'UTC')), dateDiff('hour', t, toDateTime64('1970-01-01 00:00:00', 3, 'UTC')), dateDiff('day', t, toDateTime64('1970-01-01 00:00:00', 3, 'UTC')), dateDiff('month', t, toDateTime64('1970-01-01 00:00:00', 3, 'UTC')), age('second', t, toDateTime64('1970-01-01 00:00:00', 3, 'UTC')), age('day', t, toDateTime64('1970-01-01 00:00:00', 3, 'UTC')) FROM instants ORDER BY id
SELECT id, date_trunc('second', t), date_trunc('minute', t), date_trunc('hour', t), date_trunc('day', t), date_trunc('month', t) FROM instants ORDER BY id
SELECT id, CAST(t AS DateTime64(0)), CAST(t AS DateTime64(1)), CAST(u AS DateTime64(3)), CAST(w AS DateTime64(2)), CAST(t AS DateTime64(6)), CAST(t AS DateTime64(9)), toDateTime64(t, 0), toDateTime64(t, 6) FROM instants ORDER BY id
SELECT id, t = u, t < u, t = w, t <= toDateTime64('1970-01-01 00:00:00', 0), t > '1969-12-31 23:59:59', t = '1969-12-31 23:59:59.5', z = t, z < t FROM instants ORDER BY id
SELECT min(t), max(t), avg(toFloat64(t)), quantileExact(t), count(DISTINCT toStartOfSecond(t)) FROM instants
SELECT toStartOfSecond(t) AS s, count() FROM instants GROUP BY s ORDER BY s
SELECT id FROM instants WHERE t < '1970-01-01 00:00:00' ORDER BY t, id
SELECT id FROM instants WHERE toDate(t) = '1970-01-01' ORDER BY id
SELECT id FROM instants WHERE toDateTime(t) = '1970-01-01 00:00:00' ORDER BY id
SELECT id, arrayMap(x -> toStartOfSecond(x), [t]), arrayMap(x -> toString(x), [t, toDateTime64(u, 3)]) FROM instants ORDER BY id
SELECT id, toStartOfInterval(t, INTERVAL 10 MILLISECOND), toStartOfInterval(u, INTERVAL 7 MICROSECOND), toStartOfInterval(t, INTERVAL 1 SECOND), toStartOfInterval(b, INTERVAL 250 MILLISECOND), toDate(t), toDate(u), toDate(w), toDate(z), toDate(b), toDate32(t), toDate32(b), CAST(t AS Date) FROM instants ORDER BY id
SELECT id, dateDiff('hour', t, b), dateDiff('hour', t, toDateTime64('1970-01-01 05:00:00', 3, 'UTC')), dateDiff('hour', toDateTime64('1969-12-31 22:59:59.999', 3, 'UTC'), t), dateDiff('hour', b, toDateTime(0)), dateDiff('hour', d, toDate32('1970-01-02')) FROM instants ORDER BY id
SELECT id, date_trunc('millisecond', t), date_trunc('microsecond', u), date_trunc('second', u), date_trunc('minute', w), date_trunc('hour', b), date_trunc('day', b), date_trunc('week', t), date_trunc('month', t), date_trunc('quarter', t), date_trunc('year', b) FROM instants ORDER BY id
SELECT toDate(t), count() FROM instants GROUP BY 1 ORDER BY 1
SELECT id, toHour(b), toStartOfHour(b), toDayOfWeek(b), formatDateTime(b, '%F %T') FROM instants ORDER BY id
SELECT t, t > 1577836800, t = 1577836800.5, 1577836800.2 < t, t <> toFloat32(1577836800), t >= toDecimal64('1577836800.5', 1), t > -1, t = NULL, t < toNullable(1577836801), t < inf FROM (SELECT arrayJoin([toDateTime64('2020-01-01 00:00:00.5', 3, 'UTC'), toDateTime64('1969-12-31 23:59:59.5', 3, 'UTC')]) AS t) ORDER BY t
SELECT count() FROM numbers(10) WHERE toDateTime64(number, 3, 'UTC') BETWEEN 2 AND 4.5
SELECT materialize(toDateTime64('2020-01-01 00:00:00.5', 3, 'UTC')) = true, toNullable(toDateTime64(7, 9, 'UTC')) = 7
