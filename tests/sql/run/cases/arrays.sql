SELECT arr, arr[1], arr[-1], arr[10], sarr[1], sarr[3], length(arr), empty(arr), notEmpty(sarr) FROM types ORDER BY id
SELECT has(arr, 2), indexOf(arr, 3), countEqual(arr, 1), has(sarr, 'v1'), hasAll([1, 2, 3], [1, 2]), hasAny([1, 2], [2, 5]), has([1, NULL], NULL), indexOf([1, 2, 1], 1) FROM types ORDER BY id LIMIT 10
SELECT arrayMap(x -> x + 1, arr), arrayMap(x -> x * u8, arr), arrayMap((x, y) -> x + y, [1, 2], [10, 20]), arrayMap(x -> toString(x), arr), arrayMap(x -> (x, x * 2), [1, 2]) FROM types ORDER BY id LIMIT 12
SELECT arrayFilter(x -> x > 1, arr), arrayFilter((x, y) -> y > 1, ['a', 'b'], [1, 2]), arrayExists(x -> x = 2, arr), arrayAll(x -> x < 3, arr), arrayCount(x -> x > 0, arr), arrayCount([1, 0, 2]), arrayFirst(x -> x > 1, arr), arrayLast(x -> x > 1, arr), arrayFirstIndex(x -> x > 1, arr) FROM types ORDER BY id LIMIT 12
SELECT arraySum(arr), arraySum(x -> x * 2, arr), arraySum([1.5, 2.5]), arrayAvg([1, 2, 4]), arrayMin([3, 1, 2]), arrayMax([3, 1, 2]), arrayProduct([2, 3]) FROM types ORDER BY id LIMIT 8
SELECT arraySort([3, 1, 2]), arrayReverseSort([3, 1, 2]), arraySort(x -> -x, [3, 1, 2]), arraySort((x, y) -> y, ['a', 'b', 'c'], [3, 1, 2]), arraySort([NULL, 2, 1]), arraySort(['b', 'a']), arrayReverse([1, 2, 3]), reverse([1, 2])
SELECT arrayConcat([1, 2], [300]), arrayPushBack([1], 2), arrayPushFront([1], 300), arrayPopBack([1, 2]), arrayPopFront([1, 2]), arraySlice([1, 2, 3, 4], 2), arraySlice([1, 2, 3, 4], 2, 2), arraySlice([1, 2, 3, 4], -2), arraySlice([1, 2, 3, 4], -3, 2), arrayResize([1, 2], 4), arrayResize([1, 2, 3], 2)
SELECT arrayDistinct([1, 2, 1, 3, 2]), arrayUniq([1, 2, 1]), arrayCompact([1, 1, 2, 2, 1]), arrayEnumerate(['a', 'b']), range(5), range(2, 5), range(0, 10, 3), arrayZip([1, 2], ['a', 'b']), arrayCumSum([1, 2, 3]), arrayDifference([1, 3, 6]), arrayFlatten([[1], [2, 3]])
SELECT arraySort(arrayIntersect([1, 2, 3], [2, 3, 4])), arrayStringConcat(arrayMap(x -> toString(x), range(4)), ','), array(1, 2), emptyArrayUInt8(), [u8, i32] FROM types ORDER BY id LIMIT 2
SELECT arrayJoin([1, 2, 3]) AS x, x * 2
SELECT id, arrayJoin(arr) AS x FROM types WHERE id < 10 ORDER BY id, x
SELECT arrayJoin(sarr) AS v, count() FROM types GROUP BY v ORDER BY v
SELECT id, x FROM types ARRAY JOIN arr AS x WHERE id < 12 ORDER BY id, x
SELECT id, x, i FROM types ARRAY JOIN arr AS x, arrayEnumerate(arr) AS i WHERE id < 12 ORDER BY id, i
SELECT id, arr FROM types ARRAY JOIN arr WHERE id < 12 ORDER BY id, arr
SELECT id, x FROM types LEFT ARRAY JOIN arr AS x WHERE id < 12 ORDER BY id, x
SELECT sum(x), count() FROM types ARRAY JOIN arr AS x
SELECT m, m['a'], m['k1'], m['zz'], mapKeys(m), mapValues(m), mapContains(m, 'k0'), length(m), map('x', 1, 'y', 2)['y'] FROM types ORDER BY id LIMIT 10
SELECT mapFilter((k, v) -> v > 3, m), mapApply((k, v) -> (k, v + 1), m), mapFromArrays(['a', 'b'], [1, 2]) FROM types ORDER BY id LIMIT 5
SELECT t, t.1, t.2, tupleElement(t, 1), nt.x, nt.y, tupleElement(nt, 'x'), (1, 'a').2, tuple(1, 2).1, (u8, s) FROM types ORDER BY id LIMIT 6
SELECT [(1, 'a'), (2, 'b')].1, [1, 2][1] + 1, [[1, 2], [3]][1][2], arrayMap(x -> x.2, [(1, 'a'), (2, 'b')])
SELECT toTypeName(arr), toTypeName(arr[1]), toTypeName(arrayMap(x -> x / 2, arr)), toTypeName(m['a']), toTypeName(t.2), toTypeName([1, 1000]), toTypeName(arraySum(arr)), toTypeName(range(u8)) FROM types LIMIT 1
SELECT arr FROM types WHERE has(arr, 3) AND length(arr) > 3 ORDER BY id LIMIT 5
SELECT groupArray(id) FROM (SELECT id FROM types WHERE length(arr) = 2 ORDER BY id)
SELECT arr = [0, 1], arr < [1], sarr != ['v0'], arr IN ([0], [0, 1]) FROM types ORDER BY id LIMIT 10
SELECT map('a', 1, 'a', 2), map('a', 1, 'a', 2)['a'], map(toString(id % 2), id, '1', 7) FROM types ORDER BY id LIMIT 10
SELECT id, arrayJoin(m).1 AS part FROM types ORDER BY id, part LIMIT 10
SELECT id, pair.keys, pair.2 FROM types ARRAY JOIN m AS pair ORDER BY id, pair.1 LIMIT 10
SELECT m = map('k1', 1), mapApply((k, v) -> (concat(k, '!'), v * 2), m), m.keys, m.values FROM types ORDER BY id LIMIT 10
SELECT mapFilter((k, v) -> k = 'a' OR v > id, m), mapContains(m, toString(id)), mapFromArrays(mapKeys(m), mapValues(m)) FROM types ORDER BY id LIMIT 20
SELECT m, count() FROM types GROUP BY m ORDER BY toString(m)

-- NULL among needles, as a bound of a slice, and control characters in the text of an array
SELECT hasAll([-1, 1000], [NULL]), hasAny([-1, 1000], [NULL]), hasAll([NULL], [NULL]), hasAny([NULL], [NULL]), hasAll([], [NULL])
SELECT hasAll(materialize([-1, 1000]), [NULL]), hasAll(materialize([-1, 1000]), [NULL, 1000]), hasAll([1, NULL], materialize([NULL])), hasAll(materialize([-1, 1000]), materialize([NULL, 1000]))
SELECT arraySlice([1, 2, 3], NULL, 5), arraySlice([1, 2, 3], 2, NULL), arraySlice([1, 2, 3], NULL, NULL), arraySlice([1, 2, 3], NULL), arraySlice([1, 2, 3], NULL, -1), arraySlice([1, 2, 3], -5, NULL)
SELECT arraySlice([1, 2, 3], if(number = 1, NULL, 2), if(number = 2, NULL, 1)), arraySlice(materialize([1, 2, 3]), -2, NULL), arraySlice(NULL, 1) FROM numbers(3)
SELECT toString(['c\nd']), concat(['c\nd'], 'x'), toString(('a\tb', 1)), toString(map('a\\b', 'c\0')), toString([['\'']])
SELECT toString(['a\bb\fc\r\v\a\e', 'b\'\n\\']), concat('x', ['c\nd\te\\n']), CAST(['a\nb'] AS String), toString(materialize([CAST('a\0' AS Nullable(String)), NULL]))
