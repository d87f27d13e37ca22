SELECT (), 1 FROM t
OPTIMIZE TABLE parted PARTITION []
OPTIMIZE TABLE parted PARTITION arrayJoin([1, 2])
OPTIMIZE TABLE parted PARTITION arrayJoin([])
SELECT toLowCardinality((1, 'a')), toLowCardinality([1]) FROM t
SELECT * FROM values((1, 2, 3), (300, 3))
SELECT tuple(toIntervalDay(1), 1), [INTERVAL 1 DAY], map(1, INTERVAL 1 DAY) FROM t
SELECT ((k, v) -> (k, v + 1), 1) FROM t
CREATE TABLE made (a UInt8, g Nothing ALIAS 'UTC') ENGINE = MergeTree ORDER BY a
SELECT arraySort(x -> -x, []), map(1, []), tuple([]) FROM t FORMAT Arrow
SELECT mapFilter(INTERVAL 1 MONTH, m), mapApply(1, m) FROM t
CREATE TABLE made (a UInt8, d FixedString(4) DEFAULT INTERVAL '1 day') ENGINE = MergeTree ORDER BY a
SELECT [d, x], *, aa, ns FROM t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t,t
CREATE TABLE default.made ENGINE = MergeTree ORDER BY tuple() AS SELECT arrayDistinct([]) FROM t FINAL ORDER BY su8 DESC LIMIT 100
CREATE TABLE default.made (a Int64, d Nullable(Nothing) ALIAS '%', g LowCardinality(String), f UUID) ENGINE = MergeTree() PARTITION BY cityHash64(a) ORDER BY (a, b)
SELECT nth_value(SELECT arraySort(groupUniqArray(lc)), 3) OVER (PARTITION BY su8 ORDER BY id) AS r FROM t ORDER BY id
SELECT id, toDecimal32(u8, 50), covarSamp(si32, su8), quantileExactInclusive(1)(sd18), sum(nd18) FROM t GROUP BY id, toDecimal32(u8, 50)
SELECT * REPLACE (toDayOfWeek(sdt, 1, 'Asia/Tokyo') AS su8), u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32,u32, multiIf(nu8 = 1, si32, b, sf64, si8) FROM t FORMAT PrettyCompact
CREATE TABLE made (a UInt8, e Nullable(IPv4), f Bool, h Nullable(Date32) DEFAULT -9223372036854775808, e LowCardinality(Nullable(String)) DEFAULT a + 1) ENGINE = ReplicatedMergeTree PARTITION BY (a, b) ORDER BY (a, b)
SELECT arrayZip(ai, at) AS su8 FROM t PREWHERE sd >= '2001-01-01' FORMAT Parquet
SELECT multiIf(nu8, 1, NULL) AS x FROM numbers(true) ARRAY JOIN aa AS j
SELECT toLowCardinality(id) AS s, s, ip6, id AS x FROM t FORMAT JSONCompactStrings
SELECT now64(-2147483649)
SELECT arrayAll(x -> x)
SELECT JSONLength(s, true) FROM t
