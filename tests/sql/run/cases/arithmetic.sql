-- Literals and the types of arithmetic
SELECT 1, -1, 255, 256, 65535, 65536, 4294967296, -128, -129, 18446744073709551615, -9223372036854775808, 0x1F
SELECT 1.5, 1e10, 1e-7, 1.0, -0.5, 1e100, inf, -inf, nan, 0.1 + 0.2
SELECT 'text', 'it\'s', 'tab\there', '', NULL, true, false, [1, 2, 300], [], ['a'], (1, 'a'), [[1], [2, 3]]
SELECT 1 + 1, 255 + 1, 1 - 2, 3 * 4, 7 / 2, 7 % 3, -7 % 3, 7 DIV 2, 7 MOD 2, -(5), - -5
SELECT u8 + 1, u8 - 1, u8 * u8, u8 + i8, u16 + i32, i32 * 2, u8 + f32, f32 * f32, i64 + 1, u64 + 1, u64 - 1, u64 * 3 FROM types ORDER BY id
SELECT u64 + u64, i64 - u64, i64 * i64, u64 * i64, u64 * u64, -u64, -i64 FROM types ORDER BY id
SELECT toUInt64(18446744073709551615) + 1, toInt64(9223372036854775807) + 1, toInt64(-9223372036854775808) - 1
SELECT intDiv(i32, 7), intDiv(u8, 3), intDiv(i8, u8 + 1), i32 % 7, u8 % 5, i8 % 3, intDivOrZero(u8, 0), moduloOrZero(u8, 0) FROM types ORDER BY id
SELECT toTypeName(intDiv(i32, u8)), toTypeName(u8 % i64), toTypeName(i16 % u32), toTypeName(u64 / 2) FROM (SELECT i32, u8, i64, i16, toUInt32(1) AS u32, u64 FROM types LIMIT 1)
SELECT f64 / 3, f64 % 3, f64 * f32, f64 - 1, -f64, abs(f64), sign(f64) FROM types ORDER BY id
SELECT dec + dec, dec - 1, dec * 2, dec * dec, dec + dec18, dec18 * dec, -dec, abs(dec - 50) FROM types ORDER BY id
SELECT dec / 2, dec18 / 3, dec / 7, toTypeName(dec / 7), dec + 1.5, dec * f64 FROM types ORDER BY id
SELECT abs(i8), abs(i64), abs(-5), sign(i32), negate(u8), -i8, positiveModulo(i32, 7) FROM types ORDER BY id
SELECT gcd(12, 18), lcm(4, 6), greatest(1, 2), least(1, -2), greatest(1.5, 2), greatest('a', 'b'), least(NULL, 2), greatest(u8, 10) FROM types ORDER BY id LIMIT 3
SELECT ni + 1, ni * 2.5, nf / 2, ni + NULL, NULL + 1, ni % 5 FROM types ORDER BY id
SELECT b + 1, b + b, b * 2, b = true, NOT b FROM types ORDER BY id LIMIT 4
SELECT bitAnd(u8, 15), bitOr(u16, 1), bitXor(i8, 3), bitNot(u8), bitNot(i16), bitShiftLeft(u8, 2), bitShiftRight(u16, 3), bitCount(u16), bitTest(u8, 2) FROM types ORDER BY id
SELECT plus(1, 2), minus(1, 2), multiply(2, 3), divide(1, 4), modulo(5, 3), negate(3)
-- Comparison and logic
SELECT 1 = 1, 1 != 2, 1 < 2, 2 <= 2, 3 > 4, 'a' < 'b', 1 = 1.0, NULL = 1, 1 IS NULL, NULL IS NULL, NULL IS NOT NULL
SELECT u8 = i8, u64 > i64, f64 >= 10, s = 'str1', s < 'str2', d = '2020-01-01', d > '2020-02-01', dt >= '2020-01-02 00:00:00' FROM types ORDER BY id
SELECT e = 'red', e != 'blue', uid = '61f0c404-5cb3-11e7-907b-a6006ad3d003', fs = 'f1', lc = 'lc1', lcn = 'lcn1', ns = 'n1' FROM types ORDER BY id
SELECT u8 > 10 AND i8 < 0, u8 OR i8, NOT u8, ni > 0 AND u8 > 3, ni > 0 OR u8 > 3, xor(u8 > 5, i8 > 5), u8 AND 1 FROM types ORDER BY id
SELECT x = x, x < 1, x > 1, x <= 1.5, x >= 1.5, x != x, isNaN(x), isFinite(x), isInfinite(x), ifNotFinite(x, 42) FROM floats ORDER BY id
SELECT u8 BETWEEN 3 AND 9, i32 NOT BETWEEN -10 AND 10000, s BETWEEN 'str1' AND 'str3' FROM types ORDER BY id
SELECT u8 IN (1, 2, 300), i32 NOT IN (5, -50000), s IN ('str1', 'str2'), d IN ('2020-01-01', '2019-12-25'), ni IN (1, 2, NULL), ni NOT IN (1, 2) FROM types ORDER BY id
SELECT (u8, s) IN ((1, 'str1'), (2, 'str2')), u8 IN (SELECT toUInt8(number) FROM numbers(5)), e IN ('red', 'blue'), lc IN ('lc1') FROM types ORDER BY id
SELECT (u8, s) IN ((-1, 'str1'), (2, 'str2')), (u8, 1) IN ((300, 1)), (u8, 1) NOT IN ((-1, 1), (3, 1)) FROM types ORDER BY id
SELECT count() FROM types WHERE (u8, i32) IN (SELECT u8, i32 FROM types WHERE id < 7)
SELECT (1, 2) = (1, 2), (1, 'a') < (1, 'b'), [1, 2] = [1, 2], [1] < [2], tuple(1) = tuple(2), 1 <=> NULL, NULL <=> NULL
SELECT ni IS DISTINCT FROM 5, ni IS NOT DISTINCT FROM NULL FROM types ORDER BY id LIMIT 5
-- Conditions
SELECT if(u8 > 50, 'big', 'small'), if(ni > 0, 1, -1), u8 > 50 ? 1 : 300, if(u8 = 1, NULL, 5), if(NULL, 1, 2), multiIf(u8 < 10, 'a', u8 < 20, 'b', 'c') FROM types ORDER BY id
SELECT CASE WHEN u8 < 10 THEN 1 WHEN u8 < 20 THEN 2 END, CASE u8 WHEN 1 THEN 'one' WHEN 2 THEN 'two' ELSE 'many' END, CASE WHEN u8 = 0 THEN 1.5 ELSE 2 END FROM types ORDER BY id
SELECT ifNull(ni, 0), ifNull(ns, 'none'), coalesce(ni, 7), coalesce(NULL, ni, u8), nullIf(u8, 3), toNullable(u8), isNull(ni), isNotNull(ns) FROM types ORDER BY id
SELECT transform(u8 % 4, [0, 1], ['zero', 'one'], 'other'), transform(u8, [1, 2], [10, 20], 0) FROM types ORDER BY id
-- Rounding and mathematics
SELECT round(2.5), round(3.5), round(-2.5), round(1.255, 2), round(25, -1), round(35, -1), round(-25, -1), round(1234.567, -2), roundBankers(2.5), roundBankers(15, -1)
SELECT floor(1.7), floor(-1.7), floor(15, -1), floor(-15, -1), ceil(1.2), ceil(-1.2), ceil(11, -1), trunc(-1.7), trunc(1.999, 2), floor(5), ceiling(2.01)
SELECT round(f64 / 3, 2), round(dec / 7, 2), floor(dec, 1), ceil(dec18), trunc(dec, 2), round(f32, 1), round(i32, -2), floor(i32, -3) FROM types ORDER BY id
SELECT sqrt(16), pow(2, 10), exp(1), ln(10), log(2), log2(8), log10(1000), cbrt(27), pi(), e(), sin(1), cos(1), tan(1), asin(0.5), acos(0.5), atan(1), atan2(1, 2), hypot(3, 4), degrees(pi()), radians(180)
SELECT sqrt(-1), log(0), log(-1), exp(1000), pow(0, 0), 1 / 0, -1 / 0, 0 / 0

-- Sums and products that pass 64 bits wrap around, and quickly
SELECT materialize(9223372036854775807) + number, materialize(toUInt64(18446744073709551615)) + number, toInt64(-9223372036854775807) - number * 2 FROM numbers(4)
SELECT materialize(toUInt64(18446744073709551557)) * (18446744073709551533 - number), materialize(toUInt64(9223372036854775808)) * 31, toInt64(4611686018427387904) * (number - 2) FROM numbers(5)
SELECT sum(intHash64(number) * 31 + number), sum(toInt64(number) * -9223372036854775807) FROM numbers(100000)
-- Quotients and remainders of floats and Decimals
SELECT intDiv(toInt32(-7), 2.2), intDiv(toDecimal32(-7.5, 2), toDecimal32(3, 1)), intDivOrZero(toDecimal64(9, 4), 0), positiveModulo(-5.5, 3), positiveModulo(5.5, -3.0), intDivOrZero(materialize(toInt8(-128)), materialize(toInt8(-1)))
-- Rounding integers at the limits of their types
SELECT round(toInt8(arrayJoin([127, -128, 5, -5, 15])), -1), roundBankers(toUInt8(255), -1), ceil(toUInt8(251), -1), floor(toInt16(-32768), -1), trunc(toUInt64(18446744073709551615), -19), round(toInt32(5), -40)
SELECT round(toDecimal64(materialize(9999999999999.5), 4), 1), least(toDecimal32(1.25, 2), 1.2), greatest(toDecimal32(1.25, 2), toInt32(7)), least(true, false)
-- Remainders of dates and times.
SELECT toDateTime('2020-01-01') % 7, toDate('2020-01-01') % 7
