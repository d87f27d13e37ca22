"""The source moves on while a table that rejoins still waits for its copy of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parts.common.errors import UnavailableError
from tests.links.switched_clusters import Clusters, three_with_a_table
from tests.links.test_links_in_one_process import wait


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Clusters]:
    with three_with_a_table(tmp_path) as found:
        yield found


@pytest.mark.parametrize("is_late", [False, True])
def test_it_copies_the_newest_source(three: Clusters, is_late: bool) -> None:
    """``is_late``: it has all parts of the former source, and was about to commit them."""
    links = three.servers["west"][0].links
    copy, copying = links.bootstrap, list[str]()
    assert copy is not None
    is_held = True

    def hold(*given: Any) -> None:
        if is_held and not is_late:
            raise UnavailableError("ABORTED", "the copy waits")
        copying.append("began")
        if is_late and len(copying) == 1:
            three.do("north", "SYSTEM SWITCH REPLICATION LINK t_north")
            three.do("north", "INSERT INTO t VALUES (3, 'n')")
        copy(*given)

    links.bootstrap = hold
    three.do("west", "INSERT INTO t VALUES (2, 'lost')")
    three.do("east", "SYSTEM PROMOTE REPLICATION LINK t_east FORCE")
    wait(lambda: three.sql("north", _peer("t_north")) == [["east"]], "the sibling to follow")
    three.do("west", "SYSTEM REJOIN REPLICATION LINK t_east FROM CLUSTER east DETACH TAIL")
    if not is_late:
        three.do("north", "SYSTEM SWITCH REPLICATION LINK t_north")
        three.do("north", "INSERT INTO t VALUES (3, 'n')")
        is_held = False
    wait(lambda: three.sql("west", _peer("t_east")) == [["north"]], "west to follow the newest source")
    wait(lambda: three.keys("west") == three.keys("east") == [1, 3], f"equal rows {three.explain()}")
    wait(lambda: "west/t_east" in str(three.sql("north", _OUT)), "the link at the newest source")
    assert "west/t_east" not in str(three.sql("east", _OUT)), "nothing is kept for it elsewhere"


def _peer(link: str) -> str:
    return f"SELECT peer FROM system.replication_links WHERE name = '{link}' AND direction = 'in'"


_OUT = "SELECT name FROM system.replication_links WHERE direction = 'out'"
