"""SYSTEM BOOTSTRAP REPLICATION LINK at any moment is carried out."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from engine.links import link_beginning
from tests.links.linked_servers import create_table, linked_servers
from tests.links.sync_links import wait


@pytest.mark.parametrize("step", ["_join", "_set_begun"])
def test_a_copy_that_is_asked_for_while_the_link_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The server that begins the link does not know of it yet, and does not take the request back."""
    is_held, may_go_on = threading.Event(), threading.Event()
    go_on = getattr(link_beginning, step)

    def hold(*given: Any, **named: Any) -> Any:
        is_held.set()
        assert may_go_on.wait(20.0)
        return go_on(*given, **named)

    with linked_servers(tmp_path, west=1, east=1) as servers:
        (west,), (east,) = servers["west"], servers["east"]
        create_table([west, east])
        with west.client() as source, east.client() as target, east.client() as other:
            source.execute("INSERT INTO t VALUES (1, 'from before')")
            monkeypatch.setattr(link_beginning, step, hold)
            create = "CREATE REPLICATION LINK l ON t FROM CLUSTER west SETTINGS start_position = 'now'"
            statement = threading.Thread(target=target.execute, args=(create,))
            statement.start()
            assert is_held.wait(20.0)
            other.execute("SYSTEM BOOTSTRAP REPLICATION LINK l")
            may_go_on.set()
            statement.join(20.0)
            wait(lambda: other.value("SELECT count() FROM t") == 1, "the copy")
