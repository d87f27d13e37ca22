"""The book of ``tests.cluster.chaos_links`` on rows whose source moves finds what is lost, doubled and out of order."""

from __future__ import annotations

from tests.cluster.link_history import History, State

TABLES = ("orders", "lines")


def _write(history: History, rows: int) -> None:
    for _ in range(rows):
        reign, _ = history.send()
        history.acknowledge(reign)


def _state(orders: dict[int, int], lines: dict[int, int]) -> State:
    return {"orders": frozenset(orders.items()), "lines": frozenset(lines.items())}


def test_only_prefixes_are_right() -> None:
    history = History(TABLES, "east")
    _write(history, 4)
    assert history.send()[1] == ("orders", 2, 0)
    assert history.send()[1] == ("orders", 2, 0), "the same row until it is acknowledged"
    for orders, lines in (({}, {}), ({0: 0}, {}), ({0: 0}, {0: 0}), ({0: 0, 1: 0, 2: 0}, {0: 0, 1: 0})):
        assert not history.check_prefix(_state(orders, lines))
    for orders, lines in (({}, {0: 0}), ({0: 0, 1: 0}, {}), ({1: 0}, {0: 0}), ({0: 5}, {}), ({0: 0}, {0: 0, 1: 0})):
        assert "no prefix" in history.check_prefix(_state(orders, lines))


def test_what_a_promotion_loses() -> None:
    history = History(TABLES, "east")
    _write(history, 5)
    ended = history.last
    assert not history.begin("west", _state({0: 0, 1: 0}, {0: 0}))
    assert history.list_lost(ended) == {("lines", 1, 0), ("orders", 2, 0)}
    reign, item = history.send()
    assert item == ("lines", 1, 1)
    history.acknowledge(reign)
    assert history.expected() == {("orders", 0, 0), ("lines", 0, 0), ("orders", 1, 0), ("lines", 1, 1)}
    assert not history.check_prefix(_state({0: 0, 1: 0, 2: 0}, {0: 0, 1: 0})), "the former source still shows its rows"
    assert not history.check_prefix(_state({0: 0, 1: 0}, {0: 0, 1: 1}))
    assert "no prefix" in history.check_prefix(_state({0: 0, 1: 0, 2: 0}, {0: 0, 1: 1}))


def test_a_source_that_is_no_prefix_is_found() -> None:
    history = History(TABLES, "east")
    _write(history, 4)
    (wrong,) = history.begin("west", _state({0: 0, 1: 0}, {}))
    assert "missing [('lines', 0, 0)]" in wrong
