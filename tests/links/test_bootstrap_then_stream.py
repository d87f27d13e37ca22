"""A table is copied while its source works, and then follows: in the end both show the same rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from coordination.links.batches.batch_plan import BatchLimits
from coordination.links.batches.batch_selection import select_batch
from coordination.links.positions import Position
from coordination.links.stream.change import Block, Change
from engine.tables.capabilities.table_links import ChangesRequest, IncomingBatch, OutgoingLink
from engine.tables.replicated.links.bootstrap import taker as bootstrap_taker
from parts.common.errors import PandoError, UserError
from parts.common.query_status import QueryStatus
from tests.links.bootstrap_tables import CLUSTER, LINK, SOURCE, BootstrapTables, DirectSource, bootstrap_tables
from tests.portions import one_in

TAKER = 2
"""The server whose own work rests while statements of the others run inside its bootstrap."""


class Worker:
    """Random work at the source; no block comes twice."""

    def __init__(self, tables: BootstrapTables, random: Random) -> None:
        self.tables = tables
        self.random = random
        self.next = 0
        self.done: list[str] = []

    def work(self) -> None:
        kind = self.random.choices(
            ["insert", "quorum", "merge", "update", "delete", "drop", "pause"], [8, 1, 2, 2, 1, 1, 2]
        )[0]
        self.done.append(kind)
        server, partition = self.random.randrange(2), self.random.randrange(3)
        if kind in ("insert", "quorum"):
            self.next += 1
            settings = "SETTINGS insert_quorum = 2" if kind == "quorum" else ""
            rows = ", ".join(f"({partition}, {self.next * 10 + i}, 0)" for i in range(self.random.randint(1, 3)))
            self.tables.sql(f"INSERT INTO source {settings} VALUES {rows}", server)
        elif kind == "merge":
            self.tables.sql(f"OPTIMIZE TABLE source PARTITION {partition}", server)
        elif kind == "update":
            self.tables.sql("ALTER TABLE source UPDATE v = v + 1 WHERE k % 2 = 0 SETTINGS mutations_sync = 0", server)
        elif kind == "delete":
            key = self.random.randint(1, 10 * self.next + 1)
            self.tables.sql(f"ALTER TABLE source DELETE WHERE k = {key} SETTINGS mutations_sync = 0", server)
        elif kind == "drop":
            self.tables.sql(f"ALTER TABLE source DROP PARTITION {partition}", server)
        else:
            self.tables.table.servers.now += 0.3
            self.tables.table.servers.step_others()


def register(tables: BootstrapTables) -> None:
    """Registers the link, so that the source keeps its changes."""
    tables.keeper.delete(SOURCE.linked.outgoing_link("east", "l"))
    with tables.servers[0].acting():
        tables.source().links.source.register(OutgoingLink(LINK, tables.link.uuid, CLUSTER, "east"))


def follow(tables: BootstrapTables, taker: int = TAKER) -> None:
    """Brings what comes next until nothing is missing."""
    target = tables.target(taker).links.target

    def fetch(change: Change, block: Block, directory: Path) -> None:
        for number in (0, 1):
            try:
                snapshot, path = tables.source(number).links.source.open_block(change.position, block.part)
            except UserError:
                if number:
                    raise
                continue
            with snapshot:
                shutil.copytree(path, directory, dirs_exist_ok=True)
            return

    while True:
        with tables.servers[taker].acting():
            state = target.read_target()
        with tables.servers[0].acting():
            request = ChangesRequest(LINK, tables.link.uuid, state.vector, 0, 1000, 1 << 30)
            answer = tables.source().links.source.read_changes(request, QueryStatus())
        origin = answer.source.origin
        chosen = select_batch(
            answer.changes, answer.cuts, state.vector, origin, state.own, state.forks, BatchLimits(3, 1 << 30)
        )
        assert chosen.stop is None, str(chosen.stop)
        if chosen.end is None:
            return
        end = Position(origin, chosen.end)
        batch = IncomingBatch(tables.link, state, answer.source, chosen.changes, chosen.vector, end, fetch)
        with tables.servers[taker].acting():
            assert target.apply_batch(batch, QueryStatus()).is_applied


def settle_mutations(tables: BootstrapTables) -> None:
    every = [*map(tables.source, (0, 1, 2)), *map(tables.target, (0, 1, 2))]
    tables.table.work_until(lambda: all(mutation.is_done for table in every for mutation in table.mutations.shown()))


@pytest.mark.parametrize("seed", one_in(18, range(18)))
def test_what_was_copied_and_what_followed_is_the_source(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap_taker, "LITTLE_BYTES", 0)
    random = Random(seed)
    with bootstrap_tables(tmp_path, replicas=3) as tables:
        worker = Worker(tables, random)
        for _ in range(random.randrange(8)):
            worker.work()
        register(tables)
        source = DirectSource(tables, giver=0)
        left = [random.randrange(4, 16)]

        def go_on(_: object) -> None:
            while left[0] and random.random() < 0.7:
                left[0] -= 1
                worker.work()

        source.before_fetch = source.before_hold = go_on
        repeat(tables, lambda: tables.run(source, taker=TAKER, replaces=True))
        for _ in range(random.randrange(8)):
            worker.work()
        tables.settle()
        settle_mutations(tables)
        follow(tables)
        settle_mutations(tables)
        tables.must_be_equal()


def repeat(tables: BootstrapTables, run: Callable[[], object]) -> None:
    """Repeats a bootstrap that finds no place because of work that does not end by itself."""
    for _ in range(5):
        try:
            run()
            return
        except PandoError as error:
            if error.name not in ("TIMEOUT_EXCEEDED", "NO_SUCH_DATA_PART"):
                raise
            tables.table.servers.now += 1
            tables.table.servers.step_others()
    raise AssertionError("it never succeeds")
