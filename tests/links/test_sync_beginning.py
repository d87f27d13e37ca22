"""When a synchronous link of real engines is enabled: as soon as its target takes INSERTs, and not before."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from engine.links import link_creation, link_runner
from engine.links.bootstrap.link_copy import copy_table
from tests.links.linked_servers import LinkedServer, create_table, linked_servers
from tests.links.sync_links import find_state, make_sync_link, wait


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[LinkedServer]]]:
    with linked_servers(tmp_path_factory.mktemp("sync"), west=1, east=1) as found:
        yield found


def test_an_enabled_link_takes_inserts_though_its_runner_is_still_beginning(
    servers: dict[str, list[LinkedServer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    (west,), (east,) = servers["west"], servers["east"]
    create_table([west, east], "begun")
    is_held, may_go_on = threading.Event(), threading.Event()
    begin_link, begin_at_registration = link_runner.begin_link, link_creation.begin_at_registration

    def hold_runner(*given: Any) -> Any:
        is_held.set()
        assert may_go_on.wait(20.0)
        return begin_link(*given)

    def follow_runner(*given: Any) -> Any:
        assert is_held.wait(20.0)
        return begin_at_registration(*given)

    monkeypatch.setattr(link_runner, "begin_link", hold_runner)
    monkeypatch.setattr(link_creation, "begin_at_registration", follow_runner)
    with west.client() as source, east.client() as target, ThreadPoolExecutor(1) as threads:
        try:
            make_sync_link(target, source, "east", "begun", "begun_l")
            insert = threads.submit(source.execute, "INSERT INTO begun VALUES (1, 'a')")
            wait(lambda: insert.done() or source.value("SELECT count() FROM begun") == 1, "the decision")
        finally:
            may_go_on.set()
        insert.result()
        assert target.value("SELECT count() FROM begun") == 1
        target.execute("DROP REPLICATION LINK begun_l")


def test_a_link_that_copies_its_source_anew_is_enabled_behind_the_copy(
    servers: dict[str, list[LinkedServer]],
) -> None:
    (west,), (east,) = servers["west"], servers["east"]
    create_table([west, east], "anew")
    is_held, may_go_on = threading.Event(), threading.Event()

    def hold(*given: Any) -> None:
        is_held.set()
        assert may_go_on.wait(20.0)
        copy_table(*given)

    with west.client() as source, east.client() as target:
        target.execute("CREATE REPLICATION LINK anew_l ON anew FROM CLUSTER west SETTINGS replication_timeout = 0.2")
        source.execute("INSERT INTO anew VALUES (1, 'a')")
        target.execute("SYSTEM WAIT REPLICATION LINK anew_l")
        east.links.bootstrap = hold
        try:
            target.execute("SYSTEM BOOTSTRAP REPLICATION LINK anew_l")
            assert is_held.wait(20.0)
            target.execute("ALTER REPLICATION LINK anew_l MODE sync")
            end = time.monotonic() + 1.0
            while time.monotonic() < end:
                assert find_state(source, "east/anew_l") == ("sync", "enabling")
                time.sleep(0.05)
        finally:
            east.links.bootstrap = copy_table
            may_go_on.set()
        wait(lambda: find_state(source, "east/anew_l") == ("sync", "enabled"), "the synchronous link")
        source.execute("INSERT INTO anew VALUES (2, 'b')")
        assert target.value("SELECT count() FROM anew") == 2
        target.execute("DROP REPLICATION LINK anew_l")
