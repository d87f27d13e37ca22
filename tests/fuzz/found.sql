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
