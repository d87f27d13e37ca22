"""Random work and faults on several linked clusters, and the checks of what links promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

from coordination.links.link_definition import LinkDefinition
from coordination.nodes.gate import Gate
from engine.simulator.links.cluster_work import ClusterWork
from engine.simulator.links.link_model import LinkModel
from engine.simulator.links.link_rules import count_link_rules
from engine.simulator.links.linked_columns import LinkedColumns
from engine.simulator.links.linked_variants import LinkedVariant
from engine.simulator.links.linked_world import LinkedWorld
from engine.simulator.links.topology import Topology
from engine.simulator.simulated_servers import SimulatedServer
from engine.simulator.simulated_table import TABLE
from engine.simulator.simulation_model import Block
from parts.common.errors import PandoError

_NETWORK_SHARE = 0.03
_LINK_SHARE = 0.02
_LOSS_RATES = (0.0, 0.0, 0.02, 0.2)
_TASKS_BESIDE = 3
_BLOCKS_BEFORE_LINKS = 12
_ATTEMPTS = 30
_LOST_TARGET_SHARE = 0.3
_MAX_LINK_NODES = 12
"""What a link may add to the ZooKeeper of either end: its definition, its leader, its state, its registration."""


@dataclass
class LinkedWork:
    """The work on the clusters of one topology, and its model."""

    world: LinkedWorld
    topology: Topology
    variant: LinkedVariant
    link_settings: Mapping[str, object]
    """Settings of all links, beside those of the topology."""
    quorum: tuple[int | str, ...]
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        clusters = self.world.clusters
        self.random = self.world.random
        ensembles = {name: cluster.ensemble for name, cluster in clusters.items()}
        self.model = LinkModel(ensembles, self._count, is_commanded=self.topology.is_commanded)
        self.columns = LinkedColumns(
            self.random, list(clusters), self.topology.commands_from,
            links_carry=bool(self.link_settings.get("replicate_ddl")),
        )  # fmt: skip
        self.work = {
            name: ClusterWork(
                cluster, self.variant.weights, quorum=self.quorum, counts=self.counts, number=number, model=self.model,
                takes_writes=self.topology.takes_writes(name), takes_commands=self.topology.commands_from == name,
                columns=self.columns, elsewhere=self._step_somewhere,
                list_commanded=self._list_blocks if self.topology.is_commanded else None,
            )
            for number, (name, cluster) in enumerate(clusters.items())
        }  # fmt: skip
        for cluster in clusters.values():
            count_link_rules(cluster.ensemble, self._count)
        self._nodes_without_links = {name: self._count_nodes(name) for name in clusters}

    def _count(self, what: str) -> None:
        self.counts[what] += 1

    # -- running -------------------------------------------------------------------------------------------------

    def run(self, rounds: int, steps: int) -> None:
        """Makes the links, then runs rounds of random actions, each followed by healing and checks."""
        self.world.calm()
        if self.variant.begins_with_rows:
            self._link_tables_with_rows()
        else:
            for source, target in self.topology.links:
                self.create_link(source, target, "now")
            self._await_links()
        if self.topology.is_commanded:
            self._choose_commanding_cluster()
        for _ in range(rounds):
            for work in self.work.values():
                work.begin_faults()
            for _ in range(steps):
                self.act()
            self.heal()
            self.check()

    def _list_blocks(self) -> list[Block]:
        return [block for work in self.work.values() for block in work.blocks]

    def _choose_commanding_cluster(self) -> None:
        """Gives the tables their setting, after some rows, and waits until the marks are there."""
        for name, cluster in self.world.clusters.items():
            self.work[name].fill_rows(_BLOCKS_BEFORE_LINKS // len(self.work))
            server = cast(SimulatedServer, next(iter(cluster)))
            statement = f"ALTER TABLE t MODIFY SETTING commands_from = '{self.topology.commands_from}'"
            self._insist(lambda: server.sql(statement))  # noqa: B023
        ensemble = self.world.clusters[self.topology.commands_from].ensemble

        def has_all_marks() -> bool:
            commands = Gate.parse(ensemble.tree[TABLE.gate].data).commands
            return commands is not None and len(commands.began) == len(self.work)

        self.world.settle(has_all_marks, self._explain)

    def _link_tables_with_rows(self) -> None:
        """Fills the first table, and copies it along the links; the last link of a ring finds the rows there."""
        first = next(iter(self.work.values()))
        first.fill(_BLOCKS_BEFORE_LINKS)
        filled = {first.name}
        for source, target in self.topology.links:
            self.create_link(source, target, "now" if target in filled else "")
            filled.add(target)
            self._await_links()

    def _await_links(self) -> None:
        self.world.calm()
        self.world.settle(lambda: not self._not_begun(), lambda: f"links did not begin: {self._explain()}")

    def _not_begun(self) -> list[tuple[str, str]]:
        """Lists the links that have no place in their source's stream yet."""
        return [
            (source, target)
            for source, target in self.topology.links
            if (definition := self._definition(source, target)) is not None and not definition.is_begun
        ]

    def _definition(self, source: str, target: str) -> LinkDefinition | None:
        node = self.world.clusters[target].ensemble.tree.get(TABLE.linked.incoming_link(_link_name(source)))
        return LinkDefinition.parse(node.data) if node is not None else None

    def create_link(self, source: str, target: str, start: str) -> None:
        """Makes the link from one cluster to another, at the target."""
        settings = {
            "start_position": start,
            "replication_timeout": 5,
            "link_batch_delay_ms": 0,
            **self.topology.settings,
            **self.link_settings,
        }
        text = ", ".join(f"{name} = {value!r}" for name, value in settings.items())
        server = cast(SimulatedServer, next(iter(self.world.clusters[target])))
        statement = f"CREATE REPLICATION LINK {_link_name(source)} ON t FROM CLUSTER {source} SETTINGS {text}"
        self._insist(lambda: server.sql(statement))

    def act(self) -> None:
        """Runs one random action: mostly on one cluster, sometimes on the network or on a link."""
        chance = self.random.random()
        if chance < _NETWORK_SHARE:
            self._disturb_network()
        elif chance < _NETWORK_SHARE + _LINK_SHARE:
            self._change_link()
        else:
            self.random.choice(list(self.work.values())).act()

    def _disturb_network(self) -> None:
        network = self.world.network
        one, other = self.random.sample(list(self.world.clusters), 2)
        what = self.random.choice(["cut", "cut one way", "slow", "mend", "mend", "loss"])
        if what == "mend":
            network.mend()
        elif what == "slow":
            network.slow(one, other)
        elif what == "loss":
            network.loss_rate = self.random.choice(_LOSS_RATES)
        else:
            network.cut(one, other, is_one_way=what == "cut one way")

    def _change_link(self) -> None:
        """Disables, enables or copies a link."""
        source, target = self.random.choice(self.topology.links)
        name = _link_name(source)
        servers = [node for node in self.world.clusters[target] if node.is_up and node not in self.world.timeline.stack]
        if not servers:
            return
        server = cast(SimulatedServer, self.random.choice(servers))
        verb = self.random.choice(
            ["ENABLE", "DISABLE", *(["BOOTSTRAP"] if self.variant.copies and self._may_copy() else [])]
        )
        alter, copy = f"ALTER REPLICATION LINK {name} {verb}", f"SYSTEM BOOTSTRAP REPLICATION LINK {name}"
        answer = self.work[target]._guarded(server, lambda: server.sql(copy if verb == "BOOTSTRAP" else alter))
        self._count(f"link {verb} {answer}")

    def _may_copy(self) -> bool:
        """Tells whether a table may be copied now.

        Where several clusters write, each source must get what its target has before it is copied, so one is copied at
        a time.
        """
        return self.variant.may_stop and (bool(self.topology.commands_from) or not self._is_copying())

    def _is_copying(self) -> bool:
        definitions = [self._definition(*link) for link in self.topology.links]
        return any(definition is not None and definition.wants_copy for definition in definitions)

    def _step_somewhere(self) -> None:
        """Runs a few tasks of a node that is in the middle of nothing."""
        free = [node for node in self.world if node.is_up and node not in self.world.timeline.stack]
        if free:
            node = self.random.choice(free)
            for _ in range(_TASKS_BESIDE):
                node.step_random()

    # -- healing and checking ------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Ends all faults, lets every link go on, and waits until every change is everywhere."""
        for work in self.work.values():
            work.allow_great_loss()
        self.world.calm()
        if self.variant.copies and self.random.random() < _LOST_TARGET_SHARE:
            self._lose_target()
        for work in self.work.values():
            while self.columns.pending(work.name) is not None:
                self._insist(work.finish_alter)
        for source, target in self.topology.links:
            server = cast(SimulatedServer, next(iter(self.world.clusters[target])))
            try:
                server.sql(f"ALTER REPLICATION LINK {_link_name(source)} ENABLE")
            except PandoError as error:
                raise AssertionError(f"the link from {source} to {target} cannot go on: {error}") from error
        help_on = self._copy_stopped if self.variant.may_stop else lambda: None
        self.world.settle(self._has_everything, self._explain, help_on=help_on)

    def _lose_target(self) -> None:
        """Drops the table of a target, and makes it and its link anew, as after the loss of a cluster."""
        sources = {source for source, _ in self.topology.links}
        targets = [link for link in self.topology.links if link[1] not in sources]
        if targets:
            source, target = self.random.choice(targets)
            first = cast(SimulatedServer, next(iter(self.world.clusters[source])))
            for server in self.world.clusters[target].servers:
                self._insist(lambda server=server: server.sql("DROP TABLE IF EXISTS t SYNC"))  # type: ignore[misc]
            self._insist(lambda: first.sql(f"DROP REPLICATION LINK IF EXISTS '{target}/{_link_name(source)}'"))
            self.model.forget_table(target)
            for server in self.world.clusters[target].servers:
                server.create()
            self.columns.begin_anew(target)
            self.create_link(source, target, "")
            self._count("a target's table was made anew")

    def _insist(self, action: Callable[[], object]) -> None:
        """Repeats a statement while servers come back."""
        for _ in range(_ATTEMPTS):
            try:
                action()
                return
            except PandoError as error:
                problem = error
            self.world.timeline.now += 1.0
            self.world.step_others()
        raise AssertionError(f"a statement fails again and again: {problem}")

    def _copy_stopped(self) -> None:
        """Copies what links lack that cannot go on otherwise."""
        for source, target in self.topology.links:
            server = cast(SimulatedServer, next(iter(self.world.clusters[target])))
            name = _link_name(source)
            shown = f"SELECT upstream_status FROM system.replication_links WHERE name = '{name}' AND direction = 'in'"
            if server.sql(shown)[1] != [("stopped",)]:
                continue
            if not self._may_copy():
                self._give_up_copies()
            self._insist(lambda: server.sql(f"SYSTEM BOOTSTRAP REPLICATION LINK {name}"))  # noqa: B023
            self._count("a stopped link was copied")

    def _give_up_copies(self) -> None:
        """Takes copies back for which the stopped link would have to bring something first."""
        for source, target in self.topology.links:
            definition = self._definition(source, target)
            if definition is not None and definition.wants_copy:
                server = cast(SimulatedServer, next(iter(self.world.clusters[target])))
                statement = f"DROP REPLICATION LINK IF EXISTS {_link_name(source)}"
                self._insist(lambda: server.sql(statement))  # noqa: B023
                self.create_link(source, target, "vector")
                self._count("a copy was given up")

    def _has_everything(self) -> bool:
        return not (self._is_copying() or self._missing() or self._list_untrimmed())

    def _list_untrimmed(self) -> list[str]:
        """Says which outboxes have more than their newest blocks, although every link has them."""
        return [
            f"{server.name} of {name} keeps {facts.blocks} blocks"
            for name in dict(self.topology.links)
            for server in self.world.clusters[name].servers
            if (facts := server.table.links.blocks.outbox.get_statistics()).blocks
            and server.table.links.blocks.outbox.list_blocks()[0].zxid < facts.last_position
        ]

    def _missing(self) -> list[str]:
        """Says which cluster lacks changes of which origin."""
        return [
            f"{name} has {origin} up to {applied}, not {newest}"
            for name in self.world.clusters
            for origin in self.topology.origins_of(name)
            if origin != name
            for applied, newest in [(self.model.get_applied(name, origin), self.model.histories[origin].newest())]
            if applied < newest
        ]

    def _explain(self) -> str:
        shown = []
        for source, target in self.topology.links:
            server = cast(SimulatedServer, next(iter(self.world.clusters[target])))
            try:
                shown += server.sql("SELECT * FROM system.replication_links")[1]
            except PandoError as error:
                shown.append((source, target, str(error)))
        return f"{self._missing()}, {self._list_untrimmed()}, {shown}"

    def check(self) -> None:
        """Checks everything that holds when all changes are everywhere."""
        for name, work in self.work.items():
            work.check()
            for server in self.world.clusters[name].servers:
                self.model.check_final(f"{name} {server.name}", work.read_all(server), self.topology.origins_of(name))
        self._check_vectors()
        self._check_nodes()
        self._check_gates()
        if not self.variant.settings:
            self._check_outboxes()

    def _check_vectors(self) -> None:
        """Clusters that have the same origins have everything of them."""
        for name in self.world.clusters:
            for origin in self.topology.origins_of(name):
                if origin != name:
                    applied = self.model.get_applied(name, origin)
                    assert applied <= self.world.clusters[origin].ensemble.zxid, f"{name} is ahead of {origin}"

    def _check_nodes(self) -> None:
        """Links add no more to a ZooKeeper than a constant for each of them."""
        for name in self.world.clusters:
            links = sum(name in link for link in self.topology.links)
            more = self._count_nodes(name) - self._nodes_without_links[name]
            assert more <= links * _MAX_LINK_NODES, f"{links} links added {more} nodes to the ZooKeeper of {name}"

    def _check_gates(self) -> None:
        """No table stays closed."""
        for name, cluster in self.world.clusters.items():
            bars = Gate.parse(cluster.ensemble.tree[TABLE.gate].data).bars
            assert not bars, f"the table of {name} is closed: {bars}"

    def _check_outboxes(self) -> None:
        """No outbox has given up what a link needs: a run is shorter than the longest time that blocks are kept."""
        for name in dict(self.topology.links):
            for server in self.world.clusters[name].servers:
                lost = server.table.links.blocks.outbox.get_statistics().lost
                assert lost is None, f"{server.name} of {name} gave up blocks {lost} that a link needed"

    def _count_nodes(self, name: str) -> int:
        tree = self.world.clusters[name].ensemble.tree
        return sum("/links/" in path or path.startswith("/pando/") for path in tree)


def _link_name(source: str) -> str:
    return f"from_{source}"
