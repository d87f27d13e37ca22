"""``python -m tests.cluster.chaos``: three replicas, killed and paused again and again, while their table changes.

Every partition has one client, which knows what each of its rows must be. It inserts, updates, deletes, drops,
detaches, attaches and moves on whichever replica it meets; another client adds, renames and drops columns. A statement
that was answered must be done, exactly once. One whose answer did not come may be done or not, but nothing between: the
client waits until all replicas have settled, and must find what was before or what is after on all of them alike. A
third kind inserts with a quorum and reads sequentially, which must show all that was acknowledged. At the end every
replica has every row of every client, and the same parts with the same content. The ZooKeeper is killed too.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from engine.cluster.cluster import ZOOKEEPER, Cluster
from engine.http_client.http_client import HttpClient
from parts.common.errors import PandoError
from tests.cluster.chaos_faults import SESSION_SECONDS, Faults
from tests.cluster.chaos_quorum import QuorumClient

Rows = Mapping[int, int]
_TABLE = "chaos"
_REPLICAS = 3
_INSERTED_ROWS = 20
_SETTLE_SECONDS = 120.0
_RETRY_SECONDS = 0.2


@dataclass
class Outcome:
    """What happened, and what should not have."""

    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


class _Stopped(Exception):
    """Another client has found a problem."""


class Chaos:
    def __init__(self, directory: Path, seed: int, workers: int | str, partitions: int = 4) -> None:
        self.cluster = Cluster(directory)
        self.outcome = Outcome()
        self._random = random.Random(seed)
        self._end = threading.Event()
        self._partitions = partitions
        self._lock = threading.Lock()
        overrides = {"zookeeper": {"session_timeout_ms": int(1000 * SESSION_SECONDS)}, "workers": workers}
        started = self.cluster.start(_REPLICAS, overrides=overrides)
        self.clients = [
            HttpClient(port=status.port, timeout_seconds=60) for status in started if status.name != ZOOKEEPER
        ]
        for client in self.clients:
            client.execute(
                f"CREATE TABLE {_TABLE} (p UInt32, k UInt64, v UInt64) "
                "ENGINE = ReplicatedMergeTree('/chaos', '{replica}') PARTITION BY p ORDER BY k"
            )

    def run(self, seconds: float) -> Outcome:
        owners = [PartitionClient(self, p, self._another_random()) for p in range(self._partitions)]
        believer = QuorumClient(self, _TABLE, self._another_random())
        steps = [owner.step for owner in owners] + [ColumnClient(self, self._another_random()).step, believer.step]
        threads = [threading.Thread(target=self._until_the_end, args=(step,)) for step in steps]
        for thread in threads:
            thread.start()
        self._harm_until(time.monotonic() + seconds)
        self._end.set()
        for thread in threads:
            thread.join()
        try:
            for owner in owners:
                owner.check_everywhere()
            believer.check_everywhere()
            self.wait_equal_parts()
        except _Stopped:
            assert self.outcome.problems
        return self.outcome

    def _another_random(self) -> random.Random:
        return random.Random(self._random.getrandbits(32))

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.cluster.stop(grace_seconds=5)

    def any_client(self, rng: random.Random) -> HttpClient:
        return rng.choice(self.clients)

    def count(self, what: str) -> None:
        with self._lock:
            self.outcome.counts[what] += 1

    def problem(self, text: str) -> None:
        """Notes it and ends the run."""
        with self._lock:
            self.outcome.problems.append(text)
        self._end.set()

    def wait(self, condition: Callable[[], bool], what: Callable[[], str]) -> None:
        """While replicas die and come back; what they do not answer is asked again."""
        deadline = time.monotonic() + _SETTLE_SECONDS
        while True:
            try:
                if condition():
                    return
            except PandoError as error:
                last = str(error)
            else:
                last = ""
            if self.outcome.problems:
                raise _Stopped
            if time.monotonic() > deadline:
                self.problem(f"waited in vain for {what()}; {last}")
                raise _Stopped
            time.sleep(_RETRY_SECONDS)

    def wait_equal_parts(self) -> None:
        parts = (
            "SELECT name, hash_of_uncompressed_files FROM system.parts "
            f"WHERE active AND table = '{_TABLE}' ORDER BY name"
        )
        seen: list[list[list[object]]] = []

        def are_equal() -> bool:
            seen[:] = [client.rows(parts) for client in self.clients]
            return all(one == seen[0] for one in seen)

        self.wait(are_equal, lambda: f"equal parts: {seen}")
        self.outcome.counts["parts at the end, alike on all replicas"] = len(seen[0])

    # -- who does what ----------------------------------------------------------------------------------------------

    def _until_the_end(self, step: Callable[[], None]) -> None:
        try:
            while not self._end.is_set():
                step()
        except _Stopped:
            pass
        except BaseException as error:
            self.problem(f"{type(error).__name__}: {error}")
            raise

    def _harm_until(self, deadline: float) -> None:
        faults = Faults(self.cluster, self._another_random(), self._end.wait, self.count)
        faults.kill()  # however short the run is
        while time.monotonic() < deadline and not self._end.is_set():
            faults.next()


class PartitionClient:
    """Owns partition ``p``; ``rows`` is what it must hold, v by k."""

    def __init__(self, chaos: Chaos, p: int, rng: random.Random) -> None:
        self._chaos = chaos
        self._p = p
        self._random = rng
        self._rows: Rows = {}
        self._next = 0
        self._actions: dict[Callable[[], None], int] = {
            self._insert: 8, self._update: 3, self._delete: 2, self._delete_light: 2, self._detach_and_attach: 1,
            self._drop: 1, self._optimize: 2, self._move: 2,
        }  # fmt: skip

    def step(self) -> None:
        self._random.choices(list(self._actions), list(self._actions.values()))[0]()

    def check_everywhere(self) -> None:
        if (found := self._settled()) != self._rows:
            self._wrong("at the end", self._rows, self._rows, found)

    # -- actions ----------------------------------------------------------------------------------------------------

    def _insert(self) -> None:
        """Again and again on any replica, as a client does: a block that is there already is not put in twice. Columns
        come and go meanwhile, so it has a token: without one it is another block then."""
        first, self._next = self._next, self._next + _INSERTED_ROWS
        settings = {"insert_deduplication_token": f"partition {self._p} from {first}"}
        rows = {k: self._random.randrange(1000) for k in range(first, self._next)}
        values = ", ".join(f"({self._p}, {k}, {v})" for k, v in rows.items())

        def is_done() -> bool:
            self._chaos.any_client(self._random).execute(
                f"INSERT INTO {_TABLE} (p, k, v) VALUES {values}", settings=settings
            )
            return True

        self._chaos.wait(is_done, lambda: f"an INSERT into partition {self._p}")
        self._rows = {**self._rows, **rows}
        self._chaos.count("INSERT")

    def _update(self) -> None:
        added, divisor, rest = self._random.randrange(1, 1000), *self._some_keys()
        after = {k: v + added * (k % divisor == rest) for k, v in self._rows.items()}
        self._change("UPDATE", f"UPDATE v = v + {added} IN PARTITION {self._p} WHERE k % {divisor} = {rest}", after)

    def _delete(self) -> None:
        divisor, rest = self._some_keys()
        after = {k: v for k, v in self._rows.items() if k % divisor != rest}
        self._change("DELETE", f"DELETE IN PARTITION {self._p} WHERE k % {divisor} = {rest}", after)

    def _delete_light(self) -> None:
        divisor, rest = self._some_keys()
        after = {k: v for k, v in self._rows.items() if k % divisor != rest}
        sql = f"DELETE FROM {_TABLE} WHERE p = {self._p} AND k % {divisor} = {rest}"
        self._once("lightweight DELETE", sql, after, self._chaos.any_client(self._random))

    def _drop(self) -> None:
        self._change("DROP PARTITION", f"DROP PARTITION {self._p}", {})

    def _detach_and_attach(self) -> None:
        """All on one replica, whose folder of detached parts is emptied first."""
        client, before = self._chaos.any_client(self._random), self._rows

        def is_empty() -> bool:
            client.execute(f"SYSTEM SYNC REPLICA {_TABLE}")
            sql = f"ALTER TABLE {_TABLE} DROP DETACHED PARTITION {self._p}"
            client.execute(sql, settings={"allow_drop_detached": 1})
            return True

        self._chaos.wait(is_empty, lambda: f"no detached parts of {self._p}")
        self._change("DETACH PARTITION", f"DETACH PARTITION {self._p}", {}, client)
        if self._rows == {}:
            self._settled()
            while self._rows != before:
                self._change("ATTACH PARTITION", f"ATTACH PARTITION {self._p}", before, client)

    def _move(self) -> None:
        """To the table itself: all rows leave and come in one step."""
        self._change("MOVE PARTITION", f"MOVE PARTITION {self._p} TO TABLE {_TABLE}", self._rows)

    def _optimize(self) -> None:
        self._change("OPTIMIZE", "", self._rows)

    def _some_keys(self) -> tuple[int, int]:
        divisor = self._random.choice((3, 7, 20))
        return divisor, self._random.randrange(divisor)

    # -- statements whose outcome counts -----------------------------------------------------------------------------

    def _change(self, name: str, command: str, after: Rows, client: HttpClient | None = None) -> None:
        sql = f"ALTER TABLE {_TABLE} {command}" if command else f"OPTIMIZE TABLE {_TABLE} PARTITION {self._p}"
        self._once(name, sql, after, client or self._chaos.any_client(self._random))

    def _once(self, name: str, sql: str, after: Rows, client: HttpClient) -> None:
        """Sends the statement once; without an answer what all replicas settle upon tells whether it was done."""
        before = self._rows
        try:
            client.execute(sql, settings={"mutations_sync": 1})
        except PandoError as error:
            found = self._settled()
            if found != before and found != after:
                self._wrong(f"after {sql}, which ended with {error}", before, after, found)
            self._rows = found
            self._chaos.count(f"{name} without an answer, {'done' if found == after else 'not done'}")
            return
        self._rows = after
        self._chaos.count(name)
        if self._random.random() < 0.2 and (found := self._settled()) != after:
            self._wrong(f"after {sql}, which was answered", before, after, found)

    def _settled(self) -> Rows:
        """What all replicas show once none has anything left to do."""
        seen: list[Rows] = []

        def is_settled() -> bool:
            seen.clear()
            for client in self._chaos.clients:
                client.execute(f"SYSTEM SYNC REPLICA {_TABLE}")
                if client.value(f"SELECT count() FROM system.mutations WHERE table = '{_TABLE}' AND NOT is_done"):
                    return False
                rows = client.rows(f"SELECT k, v FROM {_TABLE} WHERE p = {self._p}")
                if len({row[0] for row in rows}) != len(rows):
                    self._chaos.problem(f"rows of partition {self._p} twice: {sorted(rows)[:50]}")
                    raise _Stopped
                seen.append({int(k): int(v) for k, v in rows})
            return all(one == seen[0] for one in seen)

        self._chaos.wait(is_settled, lambda: f"equal rows in partition {self._p}: {[len(one) for one in seen]}")
        self._chaos.count("looked at on all replicas")
        return seen[0]

    def _wrong(self, when: str, before: Rows, after: Rows, found: Rows) -> None:
        def difference(expected: Rows) -> str:
            keys = [k for k in expected.keys() | found.keys() if expected.get(k) != found.get(k)]
            return ", ".join(f"{k}: {expected.get(k)} -> {found.get(k)}" for k in sorted(keys)[:20]) or "none"

        self._chaos.problem(
            f"partition {self._p} {when}: "
            f"differs from before by {difference(before)}; from after by {difference(after)}"
        )
        raise _Stopped


class ColumnClient:
    """Adds, renames and drops a column, beside all others."""

    def __init__(self, chaos: Chaos, rng: random.Random) -> None:
        self._chaos = chaos
        self._random = rng

    def step(self) -> None:
        command = self._random.choice(
            (
                "ADD COLUMN IF NOT EXISTS extra UInt64 DEFAULT k + 1",
                "RENAME COLUMN IF EXISTS extra TO other",
                "DROP COLUMN IF EXISTS extra",
                "DROP COLUMN IF EXISTS other",
            )
        )
        try:
            self._chaos.any_client(self._random).execute(f"ALTER TABLE {_TABLE} {command}")
            self._chaos.count("ALTER of a column")
        except PandoError as error:
            self._chaos.count(f"ALTER of a column: {error.name}")
        time.sleep(self._random.uniform(0, 1))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--workers", default="auto")
    parser.add_argument("--keep", type=Path, help="a new directory for the servers' files and logs, kept at the end")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with ExitStack() as stack:
        directory = options.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pando-chaos-")))
        workers = int(options.workers) if options.workers.isdigit() else options.workers
        chaos = Chaos(directory, options.seed, workers)
        stack.callback(chaos.close)
        outcome = chaos.run(options.seconds)
    for what, count in sorted(outcome.counts.items()):
        print(f"{count:>7,} {what}")
    for problem in outcome.problems:
        print(f"WRONG: {problem}", file=sys.stderr)
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
