"""The catalog and the parts as a worker sees them, from what the replica process publishes.

A statement reads new changes when it looks for a table and when it takes a snapshot, so it sees what was acknowledged
before. A snapshot notes in the shared page which changes it has; the replica process keeps parts that left later.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from engine.catalog.database_tables import DatabaseTables
from engine.catalog.databases import Databases
from engine.catalog.kept_definitions import KeptDefinitions
from engine.server.config import Config
from engine.tables.capabilities.block_memory import BlockMemory
from engine.tables.insert_delay import delay_insert
from engine.tables.insert_sink import InsertOutcome, InsertSink, PartSink, TemporaryPart, deduplicates_blocks
from engine.tables.services import TableServices
from engine.tables.small.log import require_whole
from engine.tables.small.null import NullInsert
from engine.tables.statement_options import InsertOptions
from engine.tables.table import Table
from engine.tables.table_definition import TableDefinition
from engine.workers.catalog_publication import PublishedChanges, Record
from engine.workers.replica_process_calls import PendingInsert, ReplicaProcessCalls
from engine.workers.shared_page import NO_READER, SharedPage
from parts.common.errors import CorruptionError, UnavailableError, UserError
from parts.common.part_name import PartName
from parts.read.part_reader import Part, open_part
from parts.store.part_states import Snapshot
from parts.store.part_store import PartStore
from parts.table.table_description import TableDescription
from sql.grammar.statements.statement import CreateTable
from sql.relations import PartsSnapshot

_LITTLE_BYTES = 4096  # some dozen changes of parts


class CatalogMirror:
    """One worker's knowledge of the replica process's tables."""

    def __init__(
        self,
        worker: int,
        page: SharedPage,
        published: PublishedChanges,
        apply: Callable[[Sequence[Record]], None],
    ) -> None:
        self.lock = threading.RLock()
        self._worker = worker
        self._page = page
        self._published = published
        self._apply = apply
        self._readers: Counter[int] = Counter()

    def is_current(self) -> bool:
        """Whether everything published is known. Takes in a little at once; never waits."""
        if not self._published.is_behind:
            return True
        if self._published.lag_bytes > _LITTLE_BYTES or not self.lock.acquire(blocking=False):
            return False
        try:
            self.catch_up()
        finally:
            self.lock.release()
        return True

    def catch_up(self) -> None:
        """Afterwards everything that was published before the call is known."""
        if self._published.is_behind:
            with self.lock, self._published.read_changes() as records:
                self._apply(records)

    def begin_reading(self) -> int:
        """Keeps what is active now on disk until :meth:`end_reading` with the returned number.

        The caller holds the lock.
        """
        # Noted before the look at the news: either the replica process sees the note, or this sees its news.
        number = self._published.number
        self._note(number, 1)
        if not self._published.is_behind:
            return number
        self.catch_up()
        self._note(self._published.number, 1)
        self._note(number, -1)
        return self._published.number

    def end_reading(self, number: int) -> None:
        with self.lock:
            self._note(number, -1)

    def _note(self, number: int, count: int) -> None:
        self._readers[number] += count
        if not self._readers[number]:
            del self._readers[number]
        self._page.set_reading(self._worker, min(self._readers, default=NO_READER))


class WorkerTable(Table):
    """A table of the replica process. Its parts are opened when it is first read."""

    def __init__(
        self,
        uid: int,
        definition: TableDefinition,
        services: TableServices,
        mirror: CatalogMirror,
        requests: ReplicaProcessCalls,
    ) -> None:
        super().__init__(definition, services)
        self.uid = uid
        self.store = PartStore(
            definition.data_path,
            definition.description,
            services.clock,
            services.new_uuid,
            monotonic=services.monotonic,
            is_owner=False,
        )
        self.store.owner = services.owner
        self._mirror = mirror
        self._requests = requests
        self._news: dict[str, bool] = {}
        """What came (``True``) and went since the parts were last looked at. Mirror's lock."""
        self._opening = threading.Lock()
        self._is_gone = False
        self._link_group = ""

    @property
    def link_group(self) -> str:
        return self._link_group

    def set_link_group(self, group: str) -> None:
        """Takes note of the group of links that the table is in."""
        self._link_group = group

    def description_of(self, version: int) -> TableDescription:
        self._mirror.catch_up()
        return super().description_of(version)

    def set_definition(self, definition: TableDefinition) -> None:
        super().set_definition(definition)
        self.store.alter(definition.description)

    def mark_removed(self) -> None:
        """Takes note that the table stopped: its files may go."""
        self._is_gone = True

    def is_cancelled(self) -> bool:
        """Tells whether the table stopped."""
        return self._is_gone

    def add_part_changes(self, changes: Sequence[tuple[str, bool]]) -> None:
        """Takes note of parts that became active or inactive."""
        for name, is_active in changes:
            if not is_active and self._news.get(name) and self.store.get(PartName.parse(name)) is None:
                del self._news[name]  # it came and went before anybody looked
            else:
                self._news[name] = is_active

    def snapshot(self, *, sequential_consistency: bool = False) -> PartsSnapshot:
        require_whole(self.definition)
        if sequential_consistency and self.definition.is_replicated:
            return self._pin(None, sequential_consistency=True)
        if self._link_group:  # it is read at its group's cut
            return self._pin(None)
        with self._opening:
            with self._mirror.lock:
                number = self._mirror.begin_reading()
                news, self._news = self._news, {}
            try:
                if self._link_group:
                    name = self.definition.full_name
                    raise UnavailableError(
                        "ABORTED", f"Table {name} has just entered a group of links: repeat the query"
                    )
                if self._is_gone:
                    raise UserError("UNKNOWN_TABLE", f"Table {self.definition.full_name} was dropped or renamed")
                self._take(news)
                held = self.store.snapshot()
            except BaseException:
                with self._mirror.lock:
                    self._news = {**news, **self._news}
                self._mirror.end_reading(number)
                raise

        def release(_: Sequence[Part]) -> None:
            held.release()
            self._mirror.end_reading(number)

        return Snapshot(held.parts, release)

    def pin(self, names: Sequence[PartName]) -> PartsSnapshot:
        return self._pin([str(name) for name in names])

    def _pin(self, wanted: Sequence[str] | None, *, sequential_consistency: bool = False) -> PartsSnapshot:
        """Pins parts in the replica process; they may have left the active parts since."""
        number, names = self._requests.pin(self.uid, wanted, sequential_consistency=sequential_consistency)
        return self.open_pinned(names, lambda: self._requests.unpin(number))

    def open_pinned(self, names: Sequence[str], unpin: Callable[[], None]) -> PartsSnapshot:
        """Opens parts that the replica process holds until ``unpin``."""
        try:
            parts = [self._open(PartName.parse(name)) for name in names]
        except BaseException:
            unpin()
            raise
        return Snapshot(parts, lambda _: unpin())

    def _take(self, news: Mapping[str, bool]) -> None:
        """Opens what came and forgets what went."""
        arrived = [self._open(PartName.parse(name)) for name, is_active in news.items() if is_active]
        self.store.apply_active_changes([PartName.parse(name) for name in news], arrived)

    def _open(self, name: PartName) -> Part:
        """Where small files are broken by now, as the replica process read them: who needs only others goes on."""
        place, schema = self.store.path / str(name), self.description.schema
        try:
            return open_part(place, name=name, table_schema=schema, is_known=True)
        except CorruptionError as error:
            self.report_corruption(error)
            known = self._requests.opened_part(self.uid, str(name))
            if known is None:
                raise
            return known.adapt_to_schema(schema)

    def begin_insert(self, options: InsertOptions) -> InsertSink:
        """Starts an INSERT; most of what forbids it is found here, the rest by the commit."""
        if not self.definition.engine.keeps_rows:
            return NullInsert(self)
        delay_insert(self, options, may_wait=False)
        return _Insert(self, options)

    def commit(self, parts: Sequence[TemporaryPart], options: InsertOptions) -> InsertOutcome:
        return self._requests.insert(self.uid, parts, options)

    def prepare_commit(self, partition_id: str, options: InsertOptions) -> PendingInsert | None:
        return self._requests.begin_insert(self.uid, partition_id, options)

    @property
    def block_memory(self) -> BlockMemory | None:
        return self._requests.block_memory(self.uid) if deduplicates_blocks(self.definition) else None

    def report_corruption(self, error: CorruptionError) -> None:
        self._requests.report_corruption(self.uid, error)


class _Insert(PartSink):
    """Writes temporary parts here and has them committed there."""

    table: WorkerTable

    def __init__(self, table: WorkerTable, options: InsertOptions) -> None:
        super().__init__(table, options)
        self._begun: PendingInsert | None = None

    def before_only_part(self, partition_id: str) -> None:
        """Asks for a block number while the part is written.

        The number blocks merges, so a slow client gets it only at the commit.
        """
        options = self.options
        if self.table.definition.is_replicated and options.is_whole and not options.transaction and not options.quorum:
            self._begun = self.table.prepare_commit(partition_id, options)

    def commit_parts(self, parts: list[TemporaryPart]) -> InsertOutcome:
        begun, self._begun = self._begun, None
        return begun.commit(parts) if begun is not None else self.table.commit(parts, self.options)

    def abort(self) -> None:
        if self._begun is not None:
            self._begun.give_up()
            self._begun = None
        super().abort()


class WorkerCatalog(Databases[WorkerTable]):
    """The tables of the replica process.

    Look-ups are answered here, with the latest news; changes are made there.
    """

    def __init__(
        self,
        config: Config,
        services: TableServices,
        worker: int,
        page: SharedPage,
        published: PublishedChanges,
        requests: ReplicaProcessCalls,
    ) -> None:
        super().__init__(KeptDefinitions.of(config))
        self._services = services
        self._requests = requests
        self._by_uid: dict[int, WorkerTable] = {}
        self.mirror = CatalogMirror(worker, page, published, self._apply)

    def databases(self) -> list[str]:
        self.mirror.catch_up()
        return super().databases()

    def _database(self, name: str) -> DatabaseTables[WorkerTable]:
        self.mirror.catch_up()
        return super()._database(name)

    def create_table(self, database: str, create: CreateTable) -> WorkerTable | None:
        is_new = self._requests.create_table(database, create)
        return self.table(database, create.table.table) if is_new else None

    def create_unnamed_table(self, database: str, create: CreateTable) -> str:
        name: str = self._requests.change_catalog("create_unnamed_table", database, create)
        return name

    def replace_table(self, database: str, temporary_name: str, name: str) -> None:
        self._requests.change_catalog("replace_table", database, temporary_name, name)

    def drop_table(self, database: str, name: str) -> None:
        self._requests.change_catalog("drop_table", database, name)

    def by_uid(self, uid: int) -> WorkerTable | None:
        return self._by_uid.get(uid)

    def _apply(self, records: Sequence[Record]) -> None:
        for record in records:
            match record:
                case ("anew",):
                    self._databases.clear()
                    self._by_uid.clear()
                case ("database", name):
                    self._databases.setdefault(name, DatabaseTables())
                case ("no database", name):
                    self._databases.pop(name, None)
                case ("table", uid, database, name, create):
                    definition = self.define(database, create)
                    table = WorkerTable(uid, definition, self._services, self.mirror, self._requests)
                    self._by_uid[uid] = self._databases[database][name] = table
                case ("group", uid, group):
                    self._by_uid[uid].set_link_group(group)
                case ("altered", uid, create):
                    table = self._by_uid[uid]
                    table.set_definition(self.define(table.definition.database, create))
                case ("renamed", renamed):
                    self._rename(renamed)
                case ("not loaded", name, failed):
                    self._databases[name].not_loaded = dict(failed)
                case ("no table", uid):
                    self._forget(self._by_uid.pop(uid))
                case ("parts", uid, changes):
                    self._by_uid[uid].add_part_changes(changes)

    def _rename(self, renamed: Sequence[Record]) -> None:
        moved = [(self._by_uid[uid], self.define(database, create)) for uid, database, _, create in renamed]
        for table, _ in moved:
            self._remove_name(table)
        for table, definition in moved:
            table.take_name(definition)
            self._databases[definition.database][definition.name] = table

    def _forget(self, table: WorkerTable) -> None:
        table.mark_removed()
        self._remove_name(table)

    def _remove_name(self, table: WorkerTable) -> None:
        tables = self._databases.get(table.definition.database, DatabaseTables())
        if tables.get(table.definition.name) is table:
            del tables[table.definition.name]
