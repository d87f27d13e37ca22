-- Length and case
SELECT length(s), lengthUTF8(s), char_length(s), lower(s), upper(s), lowerUTF8(s), upperUTF8(s), empty(s), notEmpty(s) FROM types ORDER BY id
SELECT length('Über'), lengthUTF8('Über'), lower('ÜBER Abc'), upper('über abc'), lowerUTF8('ÜBER'), upperUTF8('über'), reverse('abc'), reverseUTF8('Über'), length(''), empty('')
SELECT length(fs), fs, toString(fs), fs = 'f1', concat(fs, '!'), empty(fs) FROM types ORDER BY id LIMIT 5
-- Parts
SELECT substring('abcdef', 2), substring('abcdef', 2, 3), substring('abcdef', -3), substring('abcdef', -3, 2), substring('abcdef', 0), substring('abcdef', 10), substring('abc', 1, 0), substring('abcdef', 2, -1), substr('abc', 2), mid('abc', 2, 1)
SELECT substringUTF8('Überfall', 1, 2), substringUTF8('Überfall', -4), left('abcdef', 2), right('abcdef', 2), left('abc', -1), right('abc', -1), leftUTF8('Über', 1), rightUTF8('Über', 2)
SELECT substring(s, 4), substring(s, 1, 3), left(s, 3), right(s, 2), substring(s, u8 % 6 + 1, 2) FROM types WHERE s NOT LIKE '%Ü%' ORDER BY id
SELECT trim('  a b '), trimLeft('  a'), trimRight('a  '), trim(BOTH 'x' FROM 'xxaxx'), trim(LEADING 'x' FROM 'xxa'), trim(TRAILING 'x' FROM 'axx'), ltrim('  a'), rtrim('a ')
SELECT leftPad('7', 3, '0'), rightPad('7', 3, '*'), leftPad('abc', 2), lpad('a', 3), rpad('a', 4, 'xy'), repeat('ab', 3), repeat('a', 0), space(3)
SELECT concat('a', 'b', 'c'), concat('a', 1, 1.5), 'a' || 'b' || 'c', concatWithSeparator('-', 'a', 'b', 'c'), format('{} and {}', 'a', 'b'), format('{1}{0}', 'a', 'b'), concat(s, '-', toString(u8)) FROM types ORDER BY id LIMIT 3
SELECT replaceAll('aXbX', 'X', 'yy'), replaceOne('aXbX', 'X', 'y'), replace('abc', 'b', ''), replaceRegexpAll('a1b22', '[0-9]+', '#'), replaceRegexpOne('a1b22', '[0-9]+', '#'), replaceRegexpAll('hello', '(l+)', '<\\1>')
-- Search
SELECT position('hello', 'l'), position('hello', 'z'), position('hello', ''), position('Überfall', 'f'), positionUTF8('Überfall', 'f'), positionCaseInsensitive('HeLLo', 'll'), position('l' IN 'hello'), position('hello', 'l', 4), locate('l', 'hello')
SELECT s LIKE 'str1%', s LIKE '%Über', s LIKE 'str_', s NOT LIKE '%1%', s ILIKE 'STR1%', like(s, '%2%'), s LIKE '%r1_ %' FROM types ORDER BY id
SELECT 'a%b' LIKE 'a\\%b', 'axb' LIKE 'a\\%b', 'a_b' LIKE 'a\\_b', 'abc' LIKE 'a%', 'abc' LIKE '%c', 'abc' LIKE 'b', '' LIKE '', '' LIKE '%'
SELECT match(s, '^str1'), match(s, 'r[0-3]$'), s REGEXP '1', extract(s, '[0-9]+'), extract(s, 'str([0-9])'), extractAll(s, '[a-z0-9]') FROM types ORDER BY id
SELECT startsWith(s, 'str1'), endsWith(s, 'r'), startsWith(s, ''), countSubstrings('aaabaa', 'aa'), countSubstrings(s, 's'), multiSearchAny(s, ['str1', 'x']) FROM types ORDER BY id
SELECT splitByChar(',', 'a,b,,c'), splitByString('ab', '1ab2ab3'), splitByChar(' ', ''), arrayStringConcat(splitByChar(',', 'a,b'), '-'), splitByWhitespace(' a  b '), alphaTokens('a1b2c'), splitByRegexp('[0-9]', 'a1b2c')
SELECT arrayStringConcat(['a', 'b']), arrayStringConcat(sarr, ','), arrayStringConcat([1, 2], '+') FROM types ORDER BY id LIMIT 4
SELECT hex('abc'), unhex('616263'), hex(255), hex(1), hex(65536), base64Encode('hello'), base64Decode('aGVsbG8='), char(65, 66), ascii('A'), bin(toUInt8(5))
SELECT domain('https://www.example.com:80/p?q=1#f'), domainWithoutWWW('https://www.example.com/p'), protocol('https://a.b/'), path('https://a.b/c/d?e=f'), queryString('https://a.b/c?d=e&f=g'), fragment('https://a.b/c#xyz'), cutQueryString('https://a.b/c?d')
SELECT domain(url) AS dom, count() AS c FROM visits GROUP BY dom ORDER BY dom
SELECT JSONExtractString('{"a": "x", "b": {"c": 5}}', 'a'), JSONExtractInt('{"a": "x", "b": {"c": 5}}', 'b', 'c'), JSONExtractFloat('{"a": 1.5}', 'a'), JSONHas('{"a": 1}', 'a'), JSONHas('{"a": 1}', 'b'), JSONLength('[1, 2, 3]'), JSONExtractRaw('{"a": [1,2]}', 'a'), JSONExtractBool('{"a": true}', 'a'), isValidJSON('{"a": 1}'), isValidJSON('{a')
SELECT lower(lc), upper(lcn), length(lc), concat(lc, '!'), lc LIKE '%1', substring(lc, 3), lc || lcn FROM types ORDER BY id LIMIT 10
SELECT lower(ns), length(ns), concat(ns, 'x'), ns LIKE 'n%', coalesce(ns, 'none'), upper(ifNull(ns, '?')) FROM types ORDER BY id
-- Conversions
SELECT toString(1.0), toString(0.1), toString(1e21), toString(1e20), toString(123456789012345680000.), toString(1.5e-5), toString(1.5e-7), toString(1/3), toString(-0.0), toString(nan), toString(inf), toString(1e300)
SELECT toString(f64), toString(f32), toString(dec), toString(dec18), toString(d), toString(dt), toString(dtm), toString(dt64), toString(uid), toString(e), toString(ip), toString(b), toString(i64) FROM types ORDER BY id
SELECT toString(arr), toString(sarr), toString(t), toString(m), toString(ni), toString(lc), toString(nf) FROM types ORDER BY id LIMIT 20
SELECT toUInt8(300), toInt8(200), toUInt8(-1), toInt16(70000), toUInt32(-1), toUInt64(-1), toInt64(18446744073709551615), toInt32(3.99), toInt32(-3.99), toUInt8('12'), toInt64('-5'), toFloat64('1.5e3'), toFloat32('0.1')
SELECT toInt32OrZero('x'), toInt32OrNull('x'), toInt32OrZero('12'), toInt32OrNull('12'), toFloat64OrNull('1.5'), toFloat64OrZero('abc'), toInt8OrNull('1.5'), toDateOrNull('2020-01-01'), toDateOrZero('xx'), toDateTimeOrNull('bad')
SELECT CAST(u8 AS String), CAST(i32 AS Int8), CAST('12' AS UInt8), CAST(f64 AS Int32), u16::UInt8, i8::UInt16, CAST(u8 AS Nullable(Int16)), CAST(ni AS Nullable(String)), s::LowCardinality(String) FROM types ORDER BY id
SELECT toDecimal32(1.25, 1), toDecimal64('3.14159', 3), toDecimal32(7, 2), CAST(1.005 AS Decimal(10, 2)), CAST('1.005' AS Decimal(10, 3)), toDecimal64(f64, 2), dec::Float64, dec::Int32, CAST(dec AS Decimal(18, 1)) FROM types ORDER BY id LIMIT 10
SELECT toFixedString('ab', 4), CAST('abc' AS FixedString(3)), toUUID('61f0c404-5cb3-11e7-907b-a6006ad3dba0'), toIPv4('1.2.3.4'), toBool(1), toBool('true'), CAST('red' AS Enum8('red' = 1, 'blue' = 2)), CAST(2 AS Enum8('red' = 1, 'blue' = 2))
SELECT toTypeName(toDecimal32(1, 2)), toTypeName([1, NULL]), toTypeName((1, 'a')), toTypeName(map('a', 1)), toTypeName(if(1, 1, -1)), toTypeName(1 = 1), toTypeName(now()), toTypeName(today()), toTypeName(NULL), toTypeName([])
SELECT CAST([1, 2] AS Array(String)), CAST((1, 'a') AS Tuple(UInt16, String)), CAST(['1', '2'] AS Array(UInt8))
SELECT toUInt8(e), toInt8(e), toInt16(b), toUInt32(d), toUInt16(d), toInt32(dt), toFloat64(dt), toUInt32(ip) FROM types ORDER BY id LIMIT 8
SELECT intHash32(u64), intHash64(u64), intHash32(i64), intHash32(u8), intHash32(d), intHash64(i8), hex(MD5('abc')), hex(SHA1('abc')), hex(SHA256('abc')) FROM types ORDER BY id LIMIT 20
SELECT version() != '', currentDatabase(), length(toString(generateUUIDv4())), rand() >= 0
SELECT s, s ILIKE '%V1%', s ILIKE 'v_', NOT s ILIKE '%1', s ILIKE '%', s NOT ILIKE '%\\%%' FROM types ORDER BY id LIMIT 20
SELECT s, match(s, 'v1'), match(s, 'v1.?$'), match(s, ''), extract(s, 'v(1)'), extractAll(s, 'v1'), countMatches(s, '1'), regexpExtract(s, '(v)(1)', 2), multiMatchAny(s, ['v1$', '2']) FROM types ORDER BY id LIMIT 20
SELECT replaceRegexpAll(s, 'v', '<\\0\\\\>'), replaceRegexpOne(s, 'v', '\\0\\0'), replaceRegexpAll(s, '^', '>'), replaceRegexpAll(s, '$', '<'), replaceRegexpAll(s, 'v1', ''), replaceRegexpAll(s, '(v)', '\\1\\1'), replaceRegexpOne(s, '1$', 'x') FROM types ORDER BY id LIMIT 20
SELECT hasToken(concat(s, ' x1 ', s), 'x1'), hasToken(concat('x1', s), 'x1'), hasToken(concat(s, '-x1'), 'x1'), hasToken(concat('x1', s, 'x1'), 'x1'), splitByRegexp('v', s), splitByRegexp('[v1]', s), splitByRegexp('v', concat(s, s), 1) FROM types ORDER BY id LIMIT 20

-- What is JSON
SELECT isValidJSON('nan'), isValidJSON('-Infinity'), isValidJSON('{"a":NaN}'), isValidJSON('[1,2,]'), isValidJSON('[1] // x'), isValidJSON('{"a":1 , }'), isValidJSON('[1\n,\n]')
SELECT isValidJSON('{"nan":"inf, ]"}'), isValidJSON('{"a\\"nan":[null,1e5,"//"]}'), isValidJSON(' 1 '), isValidJSON('NULL'), isValidJSON('True')
SELECT leftPad('ü', 5, '*'), rightPad('ü', 5, '*'), leftPadUTF8('ü', 5, '*'), rightPadUTF8('ü', 5, '*'), lpad('ü', 5, '*'), rpad('ü', 5, '*')
SELECT leftPad('a', 5, 'ü'), rightPad('a', 5, 'ü'), leftPad('a', 4, 'xü'), rightPad('üü', 2), leftPad('日本', 3), leftPadUTF8('a', 4, 'ü'), rightPadUTF8('日本', 1)
SELECT leftPad(k, 9, '-'), rightPad(w, 40, '-+'), leftPad(nk, 8, '*'), rightPad(lnk, 3), leftPadUTF8(k, 9, 'ü'), rightPadUTF8(w, 4) FROM words ORDER BY id
SELECT leftPad(k, toUInt8(id % 4) + 10, '-'), rightPad(nk, id % 5 + 9, 'xy') FROM words ORDER BY id
SELECT leftPad(k, 2) FROM words WHERE k NOT IN ('ünï', '日本', '日本x') ORDER BY id
SELECT leftPad(toFixedString('ü', 3), 6, '*'), leftPad(CAST('ü' AS LowCardinality(String)), 4, '-'), leftPad(NULL, 4, '-')
