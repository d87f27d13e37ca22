-- A number before :: is the text of a conversion
SELECT -1::Int8, -(1::UInt8), 300::UInt8, -128::Int8, 1-1::UInt8, -1::String, 1.50::String, 20200101::Date, 1700000000::DateTime, -1.55::Decimal(9, 1), 1e2::Decimal(9, 1)
SELECT 1e400::Float64, -1e400::Float64, 1e400::Float32, 300::Nullable(UInt8), 18446744073709551616::UInt64, 1::FixedString(3), 5::UInt8::String, CAST(-1 AS UInt8)
-- Texts of integers keep their low bits, OrNull and OrZero do not
SELECT toUInt8('300'), toInt8('200'), toInt8('-129'), toUInt64('18446744073709551616'), toInt64('9223372036854775808'), toUInt32('4294967296'), '300'::Int8, CAST('300' AS UInt8), toInt64('-123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890')
SELECT toUInt8(materialize('300')), toInt16(materialize('-40000')), toUInt64(materialize('99999999999999999999999999999999999999999')), toUInt8OrZero('300'), toUInt8OrNull('300'), toUInt8OrNull('-0'), toInt8OrNull('-0')
SELECT CAST('abc' AS Nullable(UInt8)), CAST('-1' AS Nullable(UInt8)), CAST('1.5' AS Nullable(UInt8)), CAST('abc' AS Nullable(Float64)), CAST('abc' AS Nullable(UUID)), CAST('abc' AS Nullable(Decimal(9, 2))), CAST('x' AS Nullable(Date))
-- Borders of dates
SELECT toDate32('1850-01-01'), toDate32('2350-01-01'), CAST('1850-01-01' AS Date32), toDate32OrZero('1850-01-01'), toDate('1850-01-01'), toDate('2200-01-01'), toUnixTimestamp(toDateTime('1960-01-01 00:00:00')), toDateTime('1960-01-01 00:00:00'), toUnixTimestamp('2200-01-01 00:00:00'), CAST(toDate32('2200-01-01') AS Date)
SELECT number, makeDate(number * 1000 - 2000, 3), toDate32(number * 1000000 - 2000000), toDate32(toInt64(number) * 100000000000 - 200000000000) FROM numbers(8)
