"""Random UPDATE, DELETE and KILL MUTATION, against a model of rows with block numbers.

The model sees what ZooKeeper accepts: each mutation with its number in every partition. ``_block_number`` tells the
block of every row that a replica shows. So the model knows which mutations may have changed the row and, when all are
done, which must have. Each UPDATE appends a mark of its own to ``v``. A mutation that is left out, repeated or in the
wrong order is therefore seen. A DELETE removes some keys of a block that nobody inserts any more. It never removes the
first key, by which the model of INSERTs knows whether the block is there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from coordination.keeper.interface import Create, Op
from coordination.merges_mutations.mutation_nodes import parse_mutation_id
from coordination.merges_mutations.mutation_set import MutationEntry
from engine.simulator.simulated_servers import SimulatedServer, SimulatedServers
from engine.simulator.simulation_model import Block
from engine.simulator.work.random_transactions import TransactionWork

_UPDATE = re.compile(r"v = concat\(v, '( m\d+)'\).* WHERE k % (\d+) = (\d+)$")
_DELETE = re.compile(r"WHERE k IN \(([\d, ]+)\)$")
_MAX_UNDER_WAY = 3


@dataclass(eq=False)
class SeenMutation:
    """A mutation that ZooKeeper has accepted.

    An UPDATE appends ``mark`` where the key divided by ``divisor`` leaves ``rest``.
    """

    id: str
    numbers: dict[str, int]
    mark: str = ""
    divisor: int = 1
    rest: int = 0
    deleted: frozenset[int] = frozenset()
    may_be_killed: bool = False

    def applies_to_key(self, key: int) -> bool:
        """Tells whether the mutation changes or deletes the key."""
        return key in self.deleted or (bool(self.mark) and key % self.divisor == self.rest)

    def is_behind(self, partition: int, number: int) -> bool:
        """Tells whether rows of the block existed when the mutation came."""
        return number < self.numbers.get(str(partition), -1)


class MutationWork(TransactionWork):
    """Random mutations; the nodes are servers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._seen: dict[str, SeenMutation] = {}
        self._next_mark = 0
        self._marked_for_deletion: dict[int, Block] = {}
        """The keys that a DELETE is to remove, with their blocks."""
        ensemble = self.cluster.ensemble
        run = ensemble.run

        def watched(session: int, ops: Sequence[Op]) -> list[Any]:
            results = run(session, ops)
            for op, result in zip(ops, results, strict=True):
                if isinstance(op, Create) and "/mutations/mutation-" in op.path:
                    self._record_mutation(MutationEntry.parse(parse_mutation_id(str(result)), op.data))
            return results

        ensemble.run = watched  # type: ignore[method-assign]

    def _record_mutation(self, entry: MutationEntry) -> None:
        command = entry.text.splitlines()[-1]
        seen = self._seen[entry.mutation_id] = SeenMutation(entry.mutation_id, dict(entry.numbers))
        if found := _UPDATE.search(command):
            seen.mark, seen.divisor, seen.rest = found[1], int(found[2]), int(found[3])
        elif found := _DELETE.search(command):
            seen.deleted = frozenset(map(int, found[1].split(", ")))
        else:
            # MATERIALIZE TTL belongs to the TTL model; an index changes no row.
            assert "MATERIALIZE TTL" in command or " INDEX " in command, command

    # -- clients -------------------------------------------------------------------------------------------------

    def _mutate(self, server: SimulatedServer, what: str, statement: str) -> None:
        known = set(self._seen)
        sync = self.random.choice([0, 1, 1, 2])
        answer = self._guarded(
            server, lambda: server.sql(statement, mutations_sync=sync, lightweight_deletes_sync=sync)
        )
        self.counts[f"{what} {answer}"] += 1
        made = [seen for id_, seen in self._seen.items() if id_ not in known]
        if answer == "ok":
            assert made, f"{server.name} acknowledged {statement}, and ZooKeeper has seen nothing of it"
            if sync and not any(seen.may_be_killed for seen in made) and len(made) == 1:
                self._guarded(server, lambda: self._check_rows(server, [made[0].id]))

    def _do_update(self) -> None:
        if (server := self._idle()) and server.has_table and self._has_room(server):
            self._next_mark += 1
            divisor = self.random.randint(1, 3)
            where = f"WHERE k % {divisor} = {self.random.randrange(divisor)}"
            partition = self.random.choice(["", "", "IN PARTITION 1", "IN PARTITION 2"])
            set_ = f"v = concat(v, ' m{self._next_mark}')"
            if self.random.random() < 0.3 and not partition:
                self._mutate(server, "UPDATE SET", f"UPDATE t SET {set_} {where}")
            else:
                self._mutate(server, "update", f"ALTER TABLE t UPDATE {set_} {partition} {where}")

    def _do_delete(self) -> None:
        server = self._idle()
        if server is None or not server.has_table or not self._has_room(server):
            return
        blocks = [block for block in self.blocks[-12:] if len(block.keys) > 1 and not block.attempts_under_way]
        blocks = [block for block in blocks if not block.is_in_transaction]
        if not blocks:
            return
        block = self.random.choice(blocks)
        block.is_retired = True
        gone = block.keys[1:]
        block.keys = block.keys[:1]
        self._marked_for_deletion.update(dict.fromkeys(gone, block))
        where = f"WHERE k IN ({', '.join(map(str, gone))})"
        if self.random.random() < 0.5:
            self._mutate(server, "lightweight delete", f"DELETE FROM t {where}")
        else:
            self._mutate(server, "delete", f"ALTER TABLE t DELETE {where}")

    def _do_kill_mutation(self) -> None:
        server = self._idle()
        if server is None or not server.has_table:
            return
        ids = [shown.id for shown in server.table.mutations.shown() if not shown.is_done]
        if ids:
            id_ = self.random.choice(ids)
            self._seen[id_].may_be_killed = True
            answer = self._guarded(server, lambda: server.sql(f"KILL MUTATION WHERE mutation_id = '{id_}'"))
            self.counts[f"kill mutation {answer}"] += 1

    @staticmethod
    def _has_room(server: SimulatedServer) -> bool:
        return sum(not shown.is_done for shown in server.table.mutations.shown()) < _MAX_UNDER_WAY

    # -- checks -------------------------------------------------------------------------------------------------

    def _do_look_at_rows(self) -> None:
        if (server := self._idle()) and server.has_table:
            self.counts[f"look at rows {self._guarded(server, lambda: self._check_rows(server, ()))}"] += 1

    def _check_rows(self, server: SimulatedServer, done: Sequence[str]) -> None:
        """Checks each row:

        changed in order by mutations after its block, and by all those ``done`` for certain.
        """
        _, rows = server.sql("SELECT p, k, v, _block_number FROM t")
        attached = self._attached_keys()
        for partition, key, value, number in cast("list[tuple[int, int, str, int]]", rows):
            concerned = [seen for _, seen in sorted(self._seen.items()) if seen.applies_to_key(key)]
            behind = [seen for seen in concerned if seen.is_behind(partition, number)]
            due = [seen for seen in behind if seen.id in done and not seen.may_be_killed]
            marks = re.findall(r" m\d+", value)
            where = f"{server.name} has row ({partition}, {key}, {value!r}) of block {number}"
            assert value == f"value {key}" + "".join(marks), where
            possible = [seen.mark for seen in (concerned if key in attached else behind) if seen.mark]
            assert [mark for mark in possible if mark in marks] == marks, f"{where}, which only {possible} concern"
            for seen in due:
                assert not seen.deleted, f"{where}, which {seen} has deleted"
                assert seen.mark in marks, f"{where}, which {seen} has not changed"

    def _attached_keys(self) -> set[int]:
        """Returns keys of attached blocks.

        They may have been mutated before they were detached and got new block numbers.
        """
        keys = {key for block in self.blocks if block.was_attached for key in block.keys}
        return keys | {key for key, block in self._marked_for_deletion.items() if block.was_attached}

    def _known_keys(self) -> set[int]:
        return super()._known_keys() | set(self._marked_for_deletion)

    def check(self) -> None:
        """Checks that all mutations are done on all replicas."""
        super().check()
        taken = {key for seen in self._seen.values() for key in seen.deleted}
        for server in cast(SimulatedServers, self.cluster).servers:
            open_ = [shown.id for shown in server.table.mutations.shown() if not shown.is_done]
            assert not open_, f"{server.name} is not done with {open_}"
            self._check_rows(server, list(self._seen))
            keys = Counter(server.keys())
            for key, block in self._marked_for_deletion.items():
                assert keys[key] <= 1, f"{server.name} has {key} twice"
                is_gone = bool(keys[block.keys[0]]) and not keys[key]
                assert key in taken or not is_gone, f"{key} is gone, and no DELETE of it was taken"
