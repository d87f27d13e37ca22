"""ALTER of a link's mode and pause, at both ends, reaches the other end whatever it believed before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from coordination.links.link_nodes import StoredLink, change_link, find_link
from coordination.nodes.gate_link import LinkMode, SyncState
from engine.http_client.http_client import HttpClient
from engine.links.sync.target_mode import TargetMode
from engine.server.background_pool import BackgroundTask
from engine.tables.capabilities.sync_answer import SyncAnswer
from tests.links.linked_servers import LinkedServer, create_table, linked_servers
from tests.links.sync_links import find_state, wait


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LinkedServer, LinkedServer]]:
    with linked_servers(tmp_path_factory.mktemp("modes"), west=1, east=1) as found:
        yield found["west"][0], found["east"][0]


@contextmanager
def linked(pair: tuple[LinkedServer, LinkedServer], name: str) -> Iterator[tuple[HttpClient, HttpClient]]:
    """Links a table of this name, and gives clients of its source and its target."""
    create_table(pair, name)
    with pair[0].client() as source, pair[1].client() as target:
        target.execute(
            f"CREATE REPLICATION LINK {name} ON {name} FROM CLUSTER west "
            "SETTINGS start_position = 'now', replication_timeout = 0.2"
        )
        yield source, target
        target.execute(f"DROP REPLICATION LINK {name}")


@contextmanager
def held(server: LinkedServer, name: str) -> Iterator[None]:
    """Lets a link's runner take no step: what the source does meanwhile, the target does not hear."""

    def find_tasks() -> list[BackgroundTask]:
        return [task for (_, link), (_, task) in list(server.links._runners.items()) if link == name]

    wait(find_tasks, f"link {name} to be run")
    (task,) = find_tasks()
    assert server.links._pool is not None
    server.links._pool.remove(task)
    try:
        yield
    finally:
        server.links._pool.add(task)


def become(client: HttpClient, name: str, *state: str) -> None:
    """Waits until an end of the link shows a mode and a state."""
    wait(lambda: find_state(client, name) == state, f"link {name} to be {state}")


def test_a_mode_that_the_target_has_not_heard_of_is_changed(pair: tuple[LinkedServer, LinkedServer]) -> None:
    with linked(pair, "unheard") as (source, target):
        for heard, wanted in (("async", "sync"), ("sync", "async")):
            become(target, "unheard", heard, "enabled")
            with held(pair[1], "unheard"):
                source.execute(f"ALTER REPLICATION LINK 'east/unheard' MODE {wanted}")
                target.execute(f"ALTER REPLICATION LINK unheard MODE {heard}")  # as its definition has it still
            become(source, "east/unheard", heard, "enabled")
            target.execute(f"ALTER REPLICATION LINK unheard MODE {wanted}")
            become(source, "east/unheard", wanted, "enabled")


def test_a_pause_leaves_the_mode_as_the_source_has_it(pair: tuple[LinkedServer, LinkedServer]) -> None:
    with linked(pair, "paused") as (source, target):
        target.execute("ALTER REPLICATION LINK paused MODE sync")
        become(target, "paused", "sync", "enabled")
        with held(pair[1], "paused"):
            source.execute("ALTER REPLICATION LINK 'east/paused' MODE async")
            target.execute("ALTER REPLICATION LINK paused DISABLE")
        become(source, "east/paused", "async", "enabled")


def test_the_source_hears_that_an_asynchronous_link_is_disabled(pair: tuple[LinkedServer, LinkedServer]) -> None:
    with linked(pair, "resting") as (source, target):
        target.execute("ALTER REPLICATION LINK resting DISABLE")
        source.execute("ALTER REPLICATION LINK 'east/resting' MODE sync")
        become(source, "east/resting", "sync", "disabled")
        target.execute("ALTER REPLICATION LINK resting ENABLE")
        become(source, "east/resting", "sync", "enabled")
        with held(pair[1], "resting"):
            source.execute("ALTER REPLICATION LINK 'east/resting' MODE async")
            source.execute("ALTER REPLICATION LINK 'east/resting' MODE sync")
            target.execute("ALTER REPLICATION LINK resting DISABLE")
        become(source, "east/resting", "sync", "disabled")


def test_an_answer_that_is_older_than_a_change_counts_for_nothing(pair: tuple[LinkedServer, LinkedServer]) -> None:
    with linked(pair, "late"), held(pair[1], "late"):
        keeper = pair[1].engine.replication.require_keeper()
        asked = find_link(keeper, "late")
        assert isinstance(asked, StoredLink)
        mode = TargetMode(pair[1].links.connect("west"), ("east", "an unknown UUID"))
        answer = SyncAnswer(LinkMode.SYNC, SyncState.ENABLING, 7)
        _, changed = change_link(keeper, "late", lambda link: link.with_settings({"link_quorum": 1}))
        mode.take_answer(keeper, asked.definition, answer)
        assert _read(pair[1]) == changed
        mode.take_answer(keeper, changed, answer)
        assert _read(pair[1]) == changed.with_settings({"mode": "sync"})


def test_a_link_that_the_source_believes_disabled_is_resumed(pair: tuple[LinkedServer, LinkedServer]) -> None:
    """A server died after it had told the source, and before the definition said so."""
    with linked(pair, "believed") as (source, target):
        target.execute("ALTER REPLICATION LINK believed MODE sync")
        become(source, "east/believed", "sync", "enabled")
        table = pair[0].table("believed")
        assert table.links is not None
        (outgoing,) = table.links.source.list_outgoing()
        pair[1].links.connect("west").set_mode("default", "believed", replace(outgoing, is_paused=True), None)
        become(source, "east/believed", "sync", "enabled")
        source.execute("INSERT INTO believed VALUES (1, 'a')")
        assert target.value("SELECT count() FROM believed") == 1


def _read(server: LinkedServer) -> object:
    found = find_link(server.engine.replication.require_keeper(), "late")
    assert isinstance(found, StoredLink)
    return found.definition
