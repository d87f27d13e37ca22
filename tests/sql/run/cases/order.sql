-- NULL and NaN within arrays and tuples, and UUIDs, which are compared by their second half first.
SELECT max(a), min(a) FROM ordered
SELECT max(f), min(f) FROM ordered
SELECT max(nf), min(nf) FROM ordered
SELECT max(s), min(s) FROM ordered
SELECT argMax(id, a), argMin(id, a) FROM ordered
SELECT argMax(id, f), argMin(id, f) FROM ordered
SELECT argMax(id, nf), argMin(id, nf) FROM ordered
SELECT argMax(id, t), argMin(id, t) FROM ordered
SELECT argMax(id, s), argMin(id, s) FROM ordered
SELECT argMax(id, x), argMin(id, x) FROM ordered
SELECT argMax(id, n), argMin(id, n) FROM ordered
SELECT argMax(x, id), argMin(n, id), argMax(n, id) FROM ordered
SELECT argMax(a, id), argMin(t, id) FROM ordered
SELECT id FROM ordered ORDER BY a, id
SELECT id FROM ordered ORDER BY a DESC, id
SELECT id FROM ordered ORDER BY f, id
SELECT id FROM ordered ORDER BY f DESC, id
SELECT id FROM ordered ORDER BY nf, id
SELECT id FROM ordered ORDER BY nf DESC, id
SELECT id FROM ordered ORDER BY t, id
SELECT id FROM ordered ORDER BY t DESC, id
SELECT id FROM ordered ORDER BY s, id
SELECT id FROM ordered ORDER BY s DESC, id
SELECT id FROM ordered ORDER BY a NULLS FIRST, id
SELECT id FROM ordered ORDER BY a DESC NULLS FIRST, id
SELECT id FROM ordered ORDER BY t NULLS FIRST, id
SELECT id FROM ordered ORDER BY t DESC NULLS FIRST, id
SELECT id FROM ordered ORDER BY m, id
SELECT id FROM ordered ORDER BY x, id
SELECT id FROM ordered ORDER BY x DESC, id
SELECT id FROM ordered ORDER BY n DESC, id
SELECT id FROM ordered ORDER BY n NULLS FIRST, id
SELECT id FROM ordered ORDER BY n DESC NULLS FIRST, id
SELECT id, rank() OVER (ORDER BY a), rank() OVER (ORDER BY f), rank() OVER (ORDER BY nf), rank() OVER (ORDER BY t), rank() OVER (ORDER BY s), rank() OVER (ORDER BY x) FROM ordered ORDER BY id
SELECT l.id, o.id, l.a < o.a AS c0, l.a = o.a AS c1 FROM ordered AS l CROSS JOIN ordered AS o ORDER BY l.id, o.id
SELECT l.id, o.id, l.f < o.f AS c0, l.f = o.f AS c1, l.f >= o.f AS c2 FROM ordered AS l CROSS JOIN ordered AS o ORDER BY l.id, o.id
SELECT l.id, o.id, l.nf < o.nf AS c0, l.nf = o.nf AS c1 FROM ordered AS l CROSS JOIN ordered AS o ORDER BY l.id, o.id
SELECT l.id, o.id, l.t < o.t AS c0, l.t = o.t AS c1, l.t >= o.t AS c2 FROM ordered AS l CROSS JOIN ordered AS o ORDER BY l.id, o.id
SELECT l.id, o.id, l.s < o.s AS c0, l.s = o.s AS c1 FROM ordered AS l CROSS JOIN ordered AS o ORDER BY l.id, o.id
SELECT arrayMax(f), arrayMin(f) FROM ordered ORDER BY id
SELECT arrayMax(nf), arrayMin(nf) FROM ordered ORDER BY id
SELECT arrayMax(a), arrayMin(a) FROM ordered ORDER BY id
SELECT arrayMax(x -> x * 2, f), arrayMin(x -> -x, f) FROM ordered ORDER BY id
SELECT arraySort(f), arrayReverseSort(f), arraySort(nf), arrayReverseSort(nf), arraySort(a), arrayReverseSort(a) FROM ordered ORDER BY id
SELECT arraySort([a, [1,3]]), arrayReverseSort([a, [1,3], [NULL]]) FROM ordered ORDER BY id
SELECT arraySort([t, (1,1)]), arrayReverseSort([t, (NULL,3)]) FROM ordered ORDER BY id
SELECT arraySort(x -> -x, f), arraySort(x -> (x,1), f) FROM ordered ORDER BY id
SELECT maxIf(a, id > 2), minIf(a, id > 2), maxIf(x, id > 9), maxOrNull(x), minOrDefault(x) FROM ordered
SELECT maxArray(f), minArray(f) FROM ordered
SELECT anyLast(a), any(a), max(n), min(n), max(x), min(x) FROM ordered
SELECT max(x), min(x), max(n), min(n) FROM ordered WHERE id = 1
SELECT groupArray(a) FROM (SELECT a FROM ordered ORDER BY id)
SELECT quantileExact(0.5)(x), median(x), quantile(n) FROM ordered
SELECT id FROM ordered ORDER BY a LIMIT 3
SELECT id FROM ordered ORDER BY f DESC LIMIT 3
SELECT id FROM ordered ORDER BY x DESC LIMIT 3
SELECT a, count() FROM (SELECT a FROM ordered UNION ALL SELECT a FROM ordered) GROUP BY a ORDER BY a
SELECT arraySort(groupUniqArray(a)) FROM ordered
SELECT id FROM ordered WHERE a > [1] ORDER BY id
SELECT id FROM ordered WHERE f > [1.] ORDER BY id
SELECT id FROM ordered WHERE t > (1, 0.) ORDER BY id
SELECT id FROM ordered WHERE a = [1, NULL] ORDER BY id
SELECT id FROM ordered WHERE a IN ([1, NULL], [NULL]) ORDER BY id
SELECT arrayMax([NULL, 1, 2]), arrayMin([NULL, 1, 2]), arrayMax([NULL]), arrayMin([nan, 1.]), arrayMax([nan, 1.]), arrayMax([1., nan]), arrayMin([1., nan])
SELECT max(p), min(p) FROM (SELECT (a, id) AS p FROM ordered)
SELECT l.id, o.id, l.u < o.u AS c0, l.u >= o.u AS c1, (l.u, 1) < (o.u, 1) AS c2, [l.u] < [o.u] AS c3, greatest(l.u, o.u) AS c4, least(l.u, o.u) AS c5 FROM ordered AS l CROSS JOIN ordered AS o ORDER BY 1, 2
SELECT id FROM ordered WHERE u > '2fdc5a2a-9a9a-4f9f-9a9a-000000000001' ORDER BY id
SELECT id FROM ordered WHERE u BETWEEN '00000000-0000-0001-8a9a-000000000002' AND '2fdc5a2a-9a9a-4f9f-9a9a-000000000001' ORDER BY id
SELECT max(u), min(u), argMax(id, u), argMin(id, u), arraySort(groupArray(u)), arrayReverseSort(groupArray(u)), arrayMax(x -> 1, groupArray(u)) FROM ordered
SELECT id, max(u) OVER (ORDER BY id), rank() OVER (ORDER BY u) FROM ordered ORDER BY id
SELECT max(toNullable(u)), min(toNullable(u)), maxIf(u, id > 5), maxOrNull(u) FROM ordered
SELECT groupArraySorted(2)(u), arraySort(x -> x, groupArray(u)) FROM ordered
SELECT id FROM ordered ORDER BY (u, id)
SELECT id FROM ordered ORDER BY [u] DESC
SELECT id FROM ordered ORDER BY u DESC
SELECT groupArraySorted(3)(u), groupArraySorted(9)(nu) FROM ordered
SELECT max(t).1, min(t) FROM ordered
SELECT id FROM ordered ORDER BY nu DESC, id
SELECT arrayReverseSort(groupArray(nu)), arraySort(groupArray(nu)) FROM ordered
SELECT arrayReverseSort(v -> v, nf), arraySort(v -> v, nf), arrayReverseSort(v -> v, a) FROM ordered ORDER BY id
