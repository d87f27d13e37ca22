"""The bounded cache that everything else keeps values in."""

from __future__ import annotations

import threading

import pytest

from parts.common.lru_cache import LruCache


def test_the_least_recently_used_value_is_dropped() -> None:
    cache: LruCache[str, int] = LruCache(2)
    cache.keep("a", 1)
    cache.keep("b", 2)
    assert cache.find("a") == 1
    cache.keep("c", 3)
    assert ("a" in cache, "b" in cache, "c" in cache, len(cache)) == (True, False, True, 2)


def test_sizes_are_bounded_together_and_one_by_one() -> None:
    cache: LruCache[int, bytes] = LruCache(most_size=10, size_of=lambda key, value: len(value), most_size_of_one=6)
    for key in range(3):
        cache.keep(key, b"1234")
    assert (cache.held_size, 0 in cache, 2 in cache) == (8, False, True)
    cache.keep(3, b"1234567")
    assert (cache.held_size, 3 in cache) == (8, False)


def test_a_value_larger_than_all_may_be_drops_no_other() -> None:
    cache: LruCache[int, bytes] = LruCache(most_size=10, size_of=lambda key, value: len(value))
    cache.keep(1, b"1")
    cache.keep(2, bytes(11))
    assert (1 in cache, 2 in cache) == (True, False)


def test_a_new_value_replaces_the_old_one_and_its_size() -> None:
    cache: LruCache[int, bytes] = LruCache(most_size=10, size_of=lambda key, value: len(value))
    cache.keep(1, b"123456")
    cache.keep(1, b"12345678")
    assert (cache.find(1), cache.held_size) == (b"12345678", 8)
    cache.keep(1, bytes(11))
    assert (cache.find(1), cache.held_size) == (None, 0)


def test_hits_and_misses_are_counted() -> None:
    cache: LruCache[str, int] = LruCache(2)
    assert [cache.get(key, lambda: 1) for key in "aab"] == [1, 1, 1]
    assert (cache.find("c"), cache.hits, cache.misses) == (None, 1, 3)


def test_none_is_a_value() -> None:
    cache: LruCache[str, None] = LruCache(2)
    made: list[int] = []
    for _ in range(2):
        assert cache.get("a", lambda: made.append(1)) is None
    assert made == [1]


def test_an_error_keeps_nothing() -> None:
    cache: LruCache[str, float] = LruCache(2)
    with pytest.raises(ZeroDivisionError):
        cache.get("a", lambda: 1 / 0)
    assert cache.get("a", lambda: 2.0) == 2.0


def test_values_are_dropped_by_key() -> None:
    cache: LruCache[int, bytes] = LruCache(most_size=10, size_of=lambda key, value: len(value))
    for key in range(4):
        cache.keep(key, b"12")
    cache.drop(0)
    cache.drop(0)
    cache.drop_all(lambda key: key > 1)
    assert (len(cache), cache.held_size, 1 in cache) == (1, 2, True)


def test_a_dropped_value_may_use_the_cache() -> None:
    """Its end runs without the lock: otherwise this test hangs."""

    class Value:
        def __del__(self) -> None:
            cache.drop(7)

    cache: LruCache[int, Value] = LruCache(1)
    for key in range(3):
        cache.keep(key, Value())
    cache.keep(2, Value())
    cache.drop_all(lambda key: True)
    assert len(cache) == 0


def test_many_threads_keep_the_bounds() -> None:
    cache: LruCache[int, bytes] = LruCache(8, 64, lambda key, value: len(value))

    def use(seed: int) -> None:
        for step in range(2000):
            key = (step * seed) % 23
            assert cache.get(key, lambda key=key: bytes(key)) == bytes(key)  # type: ignore[misc]
            if step % 7 == 0:
                cache.drop(key)

    threads = [threading.Thread(target=use, args=(seed,)) for seed in (3, 5, 7, 11)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(cache) <= 8
    assert cache.held_size <= 64
    cache.drop_all(lambda key: True)
    assert (len(cache), cache.held_size) == (0, 0)
