"""A simulated cluster of whole servers: each has an :class:`Engine`, and executes SQL only."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import xxhash

from coordination.keeper.memory_keeper import Fault
from coordination.nodes.replica_activation import ReplicaAddress
from engine.engine import Engine
from engine.environment import ServerEnvironment
from engine.interserver.part_client import check_part_checksums
from engine.interserver.replication import Replication
from engine.interserver.transfer import Transfer
from engine.queries.session import QueryResult, Session
from engine.server.config import Config
from engine.simulator.disk_operations import DiskOperation, disk_operations, hide_operations
from engine.simulator.simulated_cluster import SimulatedCluster
from engine.simulator.simulated_disk import SimulatedDisk, Tree, read_directory, write_directory
from engine.simulator.simulated_node import SimulatedNode
from engine.simulator.simulated_table import TABLE
from engine.simulator.simulated_transfer import as_disk_error
from engine.simulator.step_pool import Crash, StepPool
from engine.simulator.trace import Trace
from engine.tables.replicated.life.shared_definition import parse_altered_columns
from engine.tables.replicated.replicated_table import ReplicatedTable
from engine.tables.services import TableServices
from parts.common.errors import PandoError
from parts.common.part_name import PartName
from parts.format.file_names import DATA_FILE, META_FILE
from parts.format.packed_metadata import unpack_files
from sql.definitions.definition_text import render_column, render_index
from sql.grammar.tokens import quote_string

_COLUMNS = "p UInt8, k UInt64, v String"
_CREATE = f"""
CREATE TABLE t ({{}})
ENGINE = ReplicatedMergeTree('{TABLE.root}', '{{{{replica}}}}') PARTITION BY p ORDER BY k
"""
_SYNC_SECONDS = 5


class SimulatedServer(SimulatedNode):
    """One server of the cluster; its clients use ``default.t``."""

    cluster: SimulatedServers
    found: Tree | None = None
    """The disk's content that the next start finds, while the server is down."""

    def start(self, *, is_new: bool = False, keeper_is_away: bool = False) -> None:
        """Starts the engine on the disk's content; creates the table if it is missing."""
        assert not self.is_up
        self.keeper = self.cluster.ensemble.connect()
        if keeper_is_away:
            self.keeper.disconnect()
        self.pool = StepPool(self.clock.monotonic)
        services = self.cluster.services(self.pool, self.clock)
        world = self.cluster.make_environment(self, services)
        config = Config.model_validate(
            {
                "path": self.path,
                "http_port": None,
                "interserver_http_port": None,
                "macros": {"replica": self.name},
                "background_check_bytes_per_second": 0,
                "merge_tree": self.cluster.table_settings,
                **self.cluster.config_of(self.name),
            }
        )
        self.engine = Engine(config, world)
        self.is_up = True
        write_directory(self.path, self.found or {})
        self.cluster.disks[self.path] = SimulatedDisk(self.path, lambda path: self.cluster.before_sync(self, path))
        self.cluster.trace.add(f"{self.name} starts")
        try:
            with self.acting():
                self.engine.start()
                if not self.has_table:
                    self.create()
        except BaseException:
            if not self.is_up:  # a crashed process does not undo what a failing start undoes
                raise Crash(self.name) from None
            self.crash()
            raise
        for table in self.tables:
            table.merge_steps.is_enabled = self.cluster.selects_merges

    def connect(self, config: Config, path: Path, failpoint: Callable[[str], None]) -> Replication:
        """Returns the server's end of the part exchange, and its session."""
        address = self.cluster.address_of(self)
        self.replication = Replication(self.keeper, self, address, dict(config.macros))
        self.replication.force_restore_all = self.force_restore_all
        return self.replication

    @property
    def has_table(self) -> bool:
        """Tells whether the table exists here."""
        return self.engine.catalog.find("default", "t") is not None

    @property
    def table(self) -> ReplicatedTable:  # type: ignore[override]
        """The table that clients use."""
        table = self.engine.catalog.table("default", "t")
        assert isinstance(table, ReplicatedTable)
        return table

    @property
    def tables(self) -> list[ReplicatedTable]:
        """All replicated tables of the server."""
        return [table for table in self.engine.catalog.tables("default") if isinstance(table, ReplicatedTable)]

    def stop(self) -> None:
        """Stops the engine gracefully."""
        with self.acting():
            self.engine.stop()
        self.crash()

    def crash(self) -> str:
        """Ends the process, perhaps by a power cut. Later disk writes of its unwinding frames are undone."""
        how = super().crash()
        disk = self.cluster.disks.pop(self.path)
        is_cut = self.cluster.random.random() < self.cluster.power_cut_rate
        self.found = disk.get_durable_tree() if is_cut else read_directory(self.path)
        if is_cut:
            self.clock.reboot(self.cluster.random.uniform(0, 100))
        disk.close()
        self.cluster.trace.add(f"{self.name} is gone{', its power too' if is_cut else ''}")
        return "power cut" if is_cut else how

    def wipe(self) -> None:
        """Empties the disk that the next start finds."""
        assert not self.is_up
        self.found = {}

    def rot(self, part: str) -> None:
        """Flips one bit of the part's data."""
        path = self.table.store.path / part / DATA_FILE
        path = path if path.exists() else path.with_name(META_FILE)  # a packed part has no data file
        content = path.read_bytes()
        data = unpack_files(content, part)[DATA_FILE] if path.name == META_FILE else content
        if not data:  # an empty part, which replaces a lost one
            return
        wrong = bytearray(content)
        place = content.rindex(data) + self.cluster.random.randrange(len(data))
        wrong[place] ^= 1 << self.cluster.random.randrange(8)
        path.write_bytes(wrong)
        self.cluster.trace.add(f"{self.name} has a wrong bit in {part}")

    def fetch_part(self, base_url: str, endpoint: str, part: PartName, directory: Path, transfer: Transfer) -> None:
        """Copies a part; checks and fsyncs it as the real exchange does."""
        super().fetch_part(base_url, endpoint, part, directory, transfer)
        received: dict[str, tuple[int, str]] = {}
        with as_disk_error():
            for file in sorted(directory.iterdir()):
                data = file.read_bytes()
                received[file.name] = (len(data), xxhash.xxh3_128_hexdigest(data))
                self.cluster.disks[self.path].sync(file)
            self.cluster.disks[self.path].sync(directory)
        check_part_checksums(directory, part, received)

    # -- a client's requests -------------------------------------------------------------------------------------

    def sql(self, statement: str, **settings: int | float | str) -> tuple[QueryResult, list[tuple[object, ...]]]:
        """Executes one statement and returns its result and rows. The trace gets both, or the error's code."""
        text = " ".join(statement.split())
        try:
            with self.acting():
                result = self.engine.execute(
                    statement, Session(settings={"receive_timeout": _SYNC_SECONDS, **settings})
                )
                rows = [row for batch in result.batches for row in zip(*batch.to_pydict().values(), strict=True)]
                result.on_close()
        except PandoError as error:
            self.cluster.trace.add(f"{self.name} {text} -- error {error.code}")
            raise
        except Crash:
            self.cluster.trace.add(f"{self.name} {text} -- no answer")
            raise
        self.cluster.trace.add(f"{self.name} {text} -- {rows}")
        return result, rows

    def insert(self, partition: int | list[int], keys: list[int], **options: object) -> int:
        """Inserts keys by SQL; returns the rows written."""
        partitions = [partition] * len(keys) if isinstance(partition, int) else partition
        values = ", ".join(f"({p}, {key}, 'value {key}')" for p, key in zip(partitions, keys, strict=True))
        settings = ", ".join(f"{name} = {_setting(value)}" for name, value in _settings(options).items())
        result, _ = self.sql(f"INSERT INTO t (p, k, v) SETTINGS {settings} VALUES {values}")
        return result.statistics.written_rows

    def keys(self, *, sequential: bool = False) -> list[int]:
        """Returns the keys of all rows, sorted."""
        _, rows = self.sql(f"SELECT k FROM t ORDER BY k SETTINGS select_sequential_consistency = {int(sequential)}")
        return [key for (key,) in rows]  # type: ignore[misc]

    def truncate(self) -> None:
        """Truncates the table by SQL."""
        self.sql("TRUNCATE TABLE t")

    def optimize(self) -> None:
        """Runs a random kind of OPTIMIZE."""
        what = self.cluster.random.choice(["FINAL", "PARTITION 1 FINAL", "PARTITION 2", "FINAL DEDUPLICATE"])
        self.sql(f"OPTIMIZE TABLE t {what}")

    def create(self) -> None:
        """Creates the table with its present columns, which are read from ZooKeeper.

        A replica that exists and has lost its disk is attached instead.
        """
        keeper = self.cluster.ensemble.connect()
        found = parse_altered_columns(keeper.get(TABLE.columns)[0].decode()) if keeper.exists(TABLE.columns) else None
        elements = [*map(render_column, found.columns), *map(render_index, found.indexes)] if found else [_COLUMNS]
        ttl = f" TTL {found.ttl}" if found is not None and found.ttl else ""
        statement = _CREATE.format(", ".join(elements)) + ttl
        try:
            self.sql(statement)
        except PandoError as error:
            if error.name == "TABLE_ALREADY_EXISTS":  # a start that crashed left files, which a person moves away
                with hide_operations():
                    shutil.rmtree(next(self.path.glob("**/default/t")))
            elif error.name != "REPLICA_ALREADY_EXISTS":
                raise
            self.sql(statement.replace("CREATE", "ATTACH", 1))

    def drop(self) -> None:
        """Drops the table."""
        self.sql("DROP TABLE t SYNC")

    def reattach(self) -> None:
        """Detaches and attaches the table."""
        self.sql("DETACH TABLE t")
        self.sql("ATTACH TABLE t")

    def begin_anew(self) -> None:
        """Runs SYSTEM RESTART REPLICA."""
        self.sql("SYSTEM RESTART REPLICA t")

    def sync(self) -> None:
        """Runs SYSTEM SYNC REPLICA."""
        self.sql("SYSTEM SYNC REPLICA t")

    def check(self) -> list[tuple[object, ...]]:
        """Runs CHECK TABLE; returns the rows of broken parts."""
        _, rows = self.sql("CHECK TABLE t")
        return [row for row in rows if not row[1]]


def _no_lock(_: Path) -> Callable[[], None]:
    return lambda: None


def _settings(options: dict[str, object]) -> dict[str, object]:
    """Returns the SETTINGS of an INSERT with these :class:`InsertOptions`."""
    given = dict(options)
    seconds = given.pop("quorum_timeout_seconds", 600.0)
    assert isinstance(seconds, float)
    return {
        "insert_quorum": given.pop("quorum", 0),
        "insert_quorum_parallel": int(bool(given.pop("quorum_parallel", True))),
        "insert_quorum_timeout": int(seconds * 1000),
        "insert_deduplication_token": given.pop("deduplication_token", ""),
        **given,
    }


def _setting(value: object) -> str:
    return quote_string(value) if isinstance(value, str) else str(value)


class SimulatedServers(SimulatedCluster):
    """A cluster whose nodes are servers.

    ``trace`` records events. Must be made and used while ``disks`` record.
    """

    def __init__(
        self, root: Path, replicas: int, seed: int, trace: Trace, disks: dict[Path, SimulatedDisk], **settings: object
    ) -> None:
        self.trace = trace
        self.disks = disks
        self.power_cut_rate = 0.5
        """The share of crashes that are power cuts; other crashes keep what the operating system holds."""
        self.on_sync: Callable[[SimulatedServer], None] = lambda server: None
        self.on_disk: Callable[[SimulatedServer, DiskOperation], None] = lambda server, operation: None
        """Called before each file operation of a server that is up, within :meth:`watch_disks`."""
        own = ("selects_merges", "queue_wait_seconds", "has_wrong_clocks", "timeline", "first_session")
        options = {name: settings.pop(name) for name in own if name in settings}
        self.config_of: Callable[[str], dict[str, object]] = settings.pop("config_of", lambda name: {})  # type: ignore[assignment]
        """Returns the configuration of a server beyond that of all."""
        self.table_settings = settings
        super().__init__(root, replicas, seed, **options)  # type: ignore[arg-type]

    def make_node(self, name: str) -> SimulatedNode:
        """Makes a server of this cluster."""
        return SimulatedServer(self, name)

    def make_environment(self, server: SimulatedServer, services: TableServices) -> ServerEnvironment:
        """Returns the world of a server that starts."""
        return ServerEnvironment(lambda config: services, server.connect, _no_lock, has_watchdog=False)

    def address_of(self, server: SimulatedServer) -> ReplicaAddress:
        """Returns the address that other servers reach the server by."""
        return ReplicaAddress("127.0.0.1", int(server.name[1:]))

    @property
    def servers(self) -> list[SimulatedServer]:
        """The servers."""
        return [node for node in self if isinstance(node, SimulatedServer)]

    def before_sync(self, server: SimulatedServer, path: Path) -> None:
        """Calls the hooks before an fsync of the server."""
        self.on_sync(server)
        self.on_disk(server, DiskOperation("sync", path))

    @contextmanager
    def watch_disks(self) -> Iterator[None]:
        """Calls :attr:`on_disk` for all file operations, not for fsyncs alone.

        An operation belongs to the server whose directory it is in.
        """

        def tell(operation: DiskOperation) -> None:
            for server in self.servers:
                if server.is_up and operation.path.is_relative_to(server.path):
                    self.on_disk(server, operation)

        with disk_operations(tell):
            yield

    def calm(self) -> None:
        """Ends all faults, those of disks too."""
        self.on_sync = lambda server: None
        self.on_disk = lambda server, operation: None
        super().calm()

    def _on_request(self, session: int, kind: str, path: str) -> Fault | None:
        fault = super()._on_request(session, kind, path)
        self.trace.add(f"{self.now:.3f} session {session} {kind} {path}{f' -- {fault.name}' if fault else ''}")
        return fault

    def failpoint(self, name: str) -> None:
        """Records the failpoint in the trace, and calls the hook."""
        if self.stack:
            self.trace.add(f"{self.stack[-1].name} passes {name}")
        super().failpoint(name)
