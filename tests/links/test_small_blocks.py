"""Small blocks come many at a time: a request for each would cost more than the block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import pytest

from engine.links.exchange import cluster_client
from engine.links.exchange.cluster_client import ClusterClient
from engine.links.exchange.small_blocks import MOST_BLOCKS, answer_blocks, decode_blocks
from parts.common.errors import PandoError, UserError
from parts.common.part_name import PartName
from tests.links.linked_servers import LinkedServer, create_table, linked_servers

FIRST = PartName.parse("all_0_0_0")


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LinkedServer, LinkedServer]]:
    with linked_servers(tmp_path_factory.mktemp("servers"), west=1, east=1) as found:
        yield found["west"][0], found["east"][0]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each request for files was sent."""
    counted: Counter[str] = Counter()
    for name in ("fetch_block", "fetch_small_blocks"):
        method = getattr(ClusterClient, name)

        def count(self: ClusterClient, *given: object, name: str = name, method: object = method, **more: object):  # type: ignore[no-untyped-def]
            counted[name] += 1
            return method(self, *given, **more)  # type: ignore[operator]

        monkeypatch.setattr(ClusterClient, name, count)
    return counted


def bring(west: LinkedServer, east: LinkedServer, name: str, *inserts: str) -> list[list[object]]:
    """Inserts while the link rests, and returns the target's rows after it has gone on."""
    create_table([west, east], name)
    with west.client() as source, east.client() as target:
        target.execute(f"CREATE REPLICATION LINK {name} ON {name} FROM CLUSTER west SETTINGS start_position = 'now'")
        target.execute(f"ALTER REPLICATION LINK {name} DISABLE")
        for rows in inserts:
            source.execute(f"INSERT INTO {name} {rows}")
        target.execute(f"ALTER REPLICATION LINK {name} ENABLE")
        target.execute(f"SYSTEM WAIT REPLICATION LINK {name} TIMEOUT 30")
        found = target.rows(f"SELECT k, v FROM {name} ORDER BY k")
        target.execute(f"DROP REPLICATION LINK {name}")
    return found


@pytest.mark.long
def test_small_blocks_come_together_and_a_large_one_alone(
    pair: tuple[LinkedServer, LinkedServer], requests: Counter[str]
) -> None:
    small = [f"VALUES ({key}, 'a')" for key in range(40)]
    large = "SELECT 100 + number, hex(SHA256(toString(number))) FROM numbers(5000)"
    rows = bring(*pair, "mixed", *small[:20], large, *small[20:])
    assert len(rows) == 5040
    assert [row[1] for row in rows[:40]] == ["a"] * 40
    assert requests["fetch_block"] == 1
    assert requests["fetch_small_blocks"] <= 3


def test_an_older_source_is_asked_for_one_after_the_other(
    pair: tuple[LinkedServer, LinkedServer], requests: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_client, "BLOCKS_VERSION", 9)
    assert len(bring(*pair, "older", *[f"VALUES ({key}, 'a')" for key in range(4)])) == 4
    assert requests["fetch_block"] == 4


@pytest.mark.long
def test_a_broken_block_is_fetched_again(
    pair: tuple[LinkedServer, LinkedServer], requests: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes together is checked like any file: nothing of it is taken."""
    fetch, broken = ClusterClient.fetch_small_blocks, []

    def break_once(self: ClusterClient, *given: object) -> dict[PartName, bytes]:
        found = dict(fetch(self, *given))  # type: ignore[arg-type]
        if not broken:
            broken.extend(found)
            return {part: data[:-1] + bytes([data[-1] ^ 1]) for part, data in found.items()}
        return found

    monkeypatch.setattr(ClusterClient, "fetch_small_blocks", break_once)
    rows = bring(*pair, "broken", *[f"VALUES ({key}, 'a')" for key in range(4)])
    assert rows == [[str(key) if isinstance(rows[0][0], str) else key, "a"] for key in range(4)]
    assert broken


def test_a_source_refuses_too_many_and_wrong_names(pair: tuple[LinkedServer, LinkedServer]) -> None:
    west, _ = pair
    with suppress(PandoError):
        create_table([west], "asked")
    with west.client() as client:
        client.execute("INSERT INTO asked VALUES (1, 'a')")
    table = west.table("asked")
    assert table.links is not None
    found = answer_blocks(table.links.source, {"parts": [str(FIRST), "all_7_7_0"]})
    assert list(decode_blocks(found, [FIRST])) == [FIRST]
    for parts in (["all_0_0_0"] * (MOST_BLOCKS + 1), ["../x"], "all_0_0_0"):
        with pytest.raises(UserError):
            answer_blocks(table.links.source, {"parts": parts})


@pytest.mark.parametrize("blocks", [1, [1], [["all_0_0_0"]], [["all_0_0_0", 1]], [["all_0_0_0", "%"]]])
def test_a_malformed_answer_is_refused(blocks: object) -> None:
    with pytest.raises(UserError):
        decode_blocks({"blocks": blocks}, [FIRST])


def test_a_block_that_was_not_asked_for_is_left_out() -> None:
    assert decode_blocks({"blocks": [["all_7_7_0", "AAAA"]]}, [FIRST]) == {}
