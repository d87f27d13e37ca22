SELECT toYear(d), toQuarter(d), toMonth(d), toDayOfMonth(d), toDayOfYear(d), toDayOfWeek(d), toYYYYMM(d), toYYYYMMDD(d), toISOWeek(d), toISOYear(d), toWeek(d), toWeek(d, 1) FROM types ORDER BY id
SELECT toYear(dt), toMonth(dt), toHour(dt), toMinute(dt), toSecond(dt), toYYYYMMDDhhmmss(dt), toDayOfWeek(dt), toUnixTimestamp(dt), toUnixTimestamp(d) FROM types ORDER BY id
SELECT dtm, toHour(dtm), toDate(dtm), toStartOfDay(dtm), toStartOfHour(dtm), toYYYYMM(dtm), toString(dtm), toTimeZone(dtm, 'America/New_York'), toUnixTimestamp(dtm) FROM types ORDER BY id
SELECT dt64, toHour(dt64), toDate(dt64), toMillisecond(dt64), toStartOfSecond(dt64), toUnixTimestamp64Milli(dt64), dt64 + 1, toDateTime(dt64) FROM types ORDER BY id
SELECT d32, toYear(d32), toMonth(d32), toDayOfWeek(d32), d32 + 5, toDate32('2020-05-05') FROM types ORDER BY id LIMIT 20
SELECT toStartOfYear(d), toStartOfQuarter(d), toStartOfMonth(d), toMonday(d), toStartOfWeek(d), toStartOfWeek(d, 1), toStartOfDay(d), toLastDayOfMonth(d), toStartOfISOYear(d) FROM types ORDER BY id
SELECT toStartOfYear(dt), toStartOfMonth(dt), toMonday(dt), toStartOfDay(dt), toStartOfHour(dt), toStartOfMinute(dt), toStartOfFiveMinutes(dt), toStartOfTenMinutes(dt), toStartOfFifteenMinutes(dt), timeSlot(dt) FROM types ORDER BY id
SELECT toStartOfInterval(dt, INTERVAL 5 minute), toStartOfInterval(dt, INTERVAL 6 hour), toStartOfInterval(dt, INTERVAL 1 day), toStartOfInterval(dt, INTERVAL 1 week), toStartOfInterval(dt, INTERVAL 1 month), toStartOfInterval(dt, INTERVAL 3 month), toStartOfInterval(d, INTERVAL 1 year), toStartOfInterval(dt, INTERVAL 30 second) FROM types ORDER BY id
SELECT date_trunc('year', dt), date_trunc('month', d), date_trunc('week', d), date_trunc('day', dt), date_trunc('hour', dt), date_trunc('minute', dt), dateTrunc('quarter', dt) FROM types ORDER BY id LIMIT 15
SELECT d + 1, d - 1, dt + 60, dt - 60, d + INTERVAL 1 DAY, d + INTERVAL 1 MONTH, d - INTERVAL 1 YEAR, d + INTERVAL 2 WEEK, dt + INTERVAL 3 HOUR, dt - INTERVAL 1 QUARTER, d + INTERVAL 1 HOUR, dt + INTERVAL 1 MONTH FROM types ORDER BY id
SELECT addDays(d, 3), addMonths(d, 1), addYears(dt, -1), addHours(dt, 5), addMinutes(dt, 7), addSeconds(dt, 9), addWeeks(d, 2), addQuarters(d, 1), subtractDays(d, 3), subtractMonths(dt, 2), subtractHours(dt, 2) FROM types ORDER BY id
SELECT date_add(DAY, 3, d), dateAdd(MONTH, 1, d), date_sub(YEAR, 1, d) FROM types ORDER BY id LIMIT 5
SELECT addMonths(toDate('2020-01-31'), 1), addYears(toDate('2020-02-29'), 1), toDate('2020-03-31') - INTERVAL 1 MONTH, toDate('2020-01-31') + INTERVAL 1 QUARTER
SELECT dateDiff('day', d, dt), dateDiff('month', d, toDate('2021-01-01')), dateDiff('year', d, toDate('2021-01-01')), dateDiff('hour', dt, toDateTime('2021-01-01 00:00:00')), dateDiff('week', d, toDate('2021-01-01')), dateDiff('minute', dt, dtm), dateDiff('quarter', d, toDate('2022-05-05')), dateDiff('second', dt, dtm) FROM types ORDER BY id
SELECT age('year', toDate('2020-05-05'), toDate('2022-05-04')), age('month', toDate('2020-05-05'), toDate('2020-07-04')), age('day', toDateTime('2020-01-01 12:00:00'), toDateTime('2020-01-03 11:00:00'))
SELECT d - toDate('2020-01-01'), dt - toDateTime('2020-01-01 00:00:00'), toDate('2020-01-01') - 5 FROM types ORDER BY id LIMIT 5
SELECT formatDateTime(dt, '%Y-%m-%d %H:%i:%S'), formatDateTime(d, '%d/%m/%y'), formatDateTime(dt, '%F %T'), formatDateTime(dt, '%j %p %I'), formatDateTime(dt, '%M %b %a %W'), formatDateTime(dtm, '%H:%i') FROM types ORDER BY id LIMIT 12
SELECT toDate('2020-02-03'), toDate(18000), toDate(1500000000), toDateTime('2020-01-01 10:00:00'), toDateTime('2020-01-01 10:00:00', 'Europe/Moscow'), toDateTime(1500000000), toDateTime('2020-01-01'), toDateTime64('2020-01-01 10:00:00.123', 3), toDateTime64('2020-01-01 10:00:00.123456', 6, 'Asia/Tokyo')
SELECT parseDateTimeBestEffort('2020-01-01 10:00:00'), parseDateTime('2020-05-06', '%Y-%m-%d'), parseDateTimeBestEffort('2020-01-01T10:00:00Z'), fromUnixTimestamp(1500000000), fromUnixTimestamp64Milli(1500000000123), makeDate(2020, 5, 6), makeDateTime(2020, 5, 6, 7, 8, 9)
SELECT toDateTime('2020-03-29 01:30:00', 'Europe/Berlin') + INTERVAL 1 HOUR, toStartOfDay(toDateTime('2020-06-01 01:00:00', 'Europe/Moscow')), toHour(toDateTime('2020-06-01 01:00:00', 'Europe/Moscow')), toDate(toDateTime('2020-06-01 01:00:00', 'Asia/Tokyo'))
SELECT toRelativeDayNum(d), toRelativeMonthNum(d), toRelativeYearNum(d), toRelativeHourNum(dt), monthName(d), dateName('weekday', d), dateName('month', d), timezoneOf(dtm) FROM types ORDER BY id LIMIT 5
SELECT DATE '2020-01-01', TIMESTAMP '2020-01-01 10:00:00', extract(YEAR FROM d), extract(MONTH FROM dt), extract(DAY FROM d), EXTRACT(HOUR FROM dt), YEAR(d), MONTH(d), DAY(d), QUARTER(d), HOUR(dt) FROM types ORDER BY id LIMIT 5
SELECT toYYYYMM(day) AS month, count(), min(day), max(day), uniq(user) FROM visits GROUP BY month ORDER BY month
SELECT today() - yesterday(), now() >= toDateTime('2020-01-01 00:00:00'), toDate(now()) = today(), now() - now()
SELECT d, dt FROM types WHERE d BETWEEN '2020-01-10' AND '2020-01-20' AND dt > toDateTime('2020-01-02 12:00:00') ORDER BY d
SELECT d FROM types WHERE d IN (toDate('2020-01-01'), '2020-01-02') OR dt = '2020-01-01 02:09:37' ORDER BY d
SELECT toInt32(d), toUInt16(d), toInt64(dt64), CAST(d AS DateTime), CAST(dt AS Date), CAST('2020-01-01' AS Date), CAST(dt AS DateTime('Asia/Tokyo')), toDateTime(d), d::DateTime('Europe/Moscow') FROM types ORDER BY id LIMIT 6
SELECT max(dt), min(d), max(dt64), any(d32), max(dtm), avg(toUnixTimestamp(dt)), min(ip), max(uid), max(e) FROM types
SELECT toTypeName(INTERVAL 1 HOUR) FROM types ORDER BY id LIMIT 2
SELECT toDateTime('1603600000', 'Europe/Berlin'), toDateTime('2020-10-25T03:00:00Z', 'Europe/Berlin'), toDateTime64('1603600000', 3, 'Asia/Tokyo'), toDateTime('2020-10-25 03:00:00', 'Europe/Berlin') = '1603591200', toDateTime('2020-10-26 03:00:00', 'Europe/Berlin'), count() FROM types WHERE dtm > '1003600000'
