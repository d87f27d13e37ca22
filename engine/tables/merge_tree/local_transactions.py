"""Transactions of INSERTs into a table of one server: parts in ``staged/``, decisions in small files.

::

    staged/<transaction>/<attempt>-<insert>/<number>-<partition id>/   a part of one INSERT
    transactions/<transaction>.json                    {"id":…,"state":…,"rows":…,"reason":…,"created":…}
    applications/<application>.json                                    {"committed": n, "rows": …}

The files of decisions are written in the same step as the exchange of parts (``PartStore.exchange``). A start therefore
finds all of a commit or nothing of it.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from coordination.transactions.application_versions import ApplicationVersion
from coordination.transactions.commit_request import (
    CommitOutcome,
    CommitRequest,
    CommitVerdict,
    Overwrite,
    select_staged_parts,
)
from coordination.transactions.read_state import changed_error, find_change
from coordination.transactions.transaction_nodes import (
    DECIDED_TRANSACTION_SECONDS,
    MAX_REMEMBERED_TRANSACTIONS,
    OPEN_TRANSACTION_IDLE_SECONDS,
    StagedRecord,
    Transaction,
    TransactionState,
    already_decided_error,
    staged_key,
    transaction_node_name,
)
from engine.tables.capabilities.block_history import MergeTreeBlockHistory
from engine.tables.capabilities.table_transactions import TransactionSummary
from engine.tables.file_ages import UnchangedFiles
from engine.tables.insert_sink import InsertOutcome, TemporaryPart
from engine.tables.merge_tree.block_numbers import BlockNumbers
from engine.tables.part_log import PartEventType
from engine.tables.statement_options import CommitOptions, InsertOptions
from engine.tables.table_data import TableData
from parts.common.errors import ConflictError
from parts.common.part_name import PartName
from parts.common.query_status import QueryStatus
from parts.format.durable_files import replace_file_durably
from parts.format.hashed_file import sync_directory
from parts.read.part_reader import open_part

_DECISIONS, _APPLICATIONS = "transactions", "applications"
_MAX_APPLICATIONS = 10_000


class MergeTreeTransactions:
    """The transactions of one table.

    Implements ``engine.tables.capabilities.table_transactions.TableTransactions``.
    """

    def __init__(
        self,
        table: TableData,
        numbers: BlockNumbers,
        block_history: MergeTreeBlockHistory,
        forget_blocks: Callable[[], None],
        wake_merges: Callable[[], None],
        find_mutation: Callable[[PartName], str | None],
    ) -> None:
        """``forget_blocks`` is called after an overwrite, so that its dropped rows may be inserted again.

        ``find_mutation`` returns the id of a mutation that a part still needs.
        """
        self._table = table
        self._numbers = numbers
        self._block_history = block_history
        self._wake_merges = wake_merges
        self._find_mutation = find_mutation
        self._store = table.store
        self._forget_blocks = forget_blocks
        self._lock = threading.Lock()
        self._unchanged_staged, self._unchanged_decisions = UnchangedFiles(), UnchangedFiles()

    def stage(self, parts: list[TemporaryPart], options: InsertOptions) -> InsertOutcome:
        """Moves the parts of one INSERT into ``staged/``.

        A repeated INSERT with the same rows changes nothing.
        """
        name, services = transaction_node_name(options.transaction), self._table.services
        insert = options.deduplication_token or services.new_uuid().hex
        group = staged_key(options.transaction_attempt, insert, 0)
        with self._lock:
            decided = self._decision(name)
            if decided is not None:
                raise already_decided_error(decided)
            if not parts:
                return InsertOutcome()
            if group in self._store.staged.list_places(name):
                self._require_same(name, group, parts, options.transaction)
                return InsertOutcome(deduplicated_blocks=len(parts))
            if not (self._path / _decision_file(name)).exists():
                self._write(name, self._text(name, options.transaction, TransactionState.OPEN))
            gathered = self._store.create_temporary("tmp_stage_")
            try:
                for number, part in enumerate(parts):
                    os.rename(part.directory, gathered / f"{number}-{part.partition_id}")
                    self._store.drop_temporary(part.directory)
                sync_directory(gathered)
                services.failpoint("stage.after_move")
                self._store.staged.move_in(name, [(gathered, group)])
            finally:
                self._store.drop_temporary(gathered)
        return InsertOutcome(sum(part.rows for part in parts), sum(part.bytes for part in parts))

    def _require_same(self, name: str, group: str, parts: list[TemporaryPart], transaction_id: str) -> None:
        """Raises 389 (INSERT_WAS_DEDUPLICATED) if the group holds other rows than these parts."""
        there = [(record.partition_id, record.content_hash) for record in self._staged(name, group).values()]
        if sorted(there) != sorted((part.partition_id, part.content_hash) for part in parts):
            raise ConflictError(
                "INSERT_WAS_DEDUPLICATED",
                f"Other rows were inserted into transaction {transaction_id!r} under this insert_deduplication_token "
                "before; nothing of these rows is stored",
            )

    def commit(self, request: CommitRequest, options: CommitOptions) -> CommitOutcome:
        """Commits a transaction, unless it or its application's version was committed before."""
        name = transaction_node_name(request.transaction_id)
        with self._lock:
            decided = self._decision(name)
            if decided is not None and decided.state is TransactionState.COMMITTED:
                return CommitOutcome(CommitVerdict.REPEATED, decided.rows)
            application = self._application(request)
            if not application.accepts(request.version):
                self._abort(
                    name, request.transaction_id, f"its application {request.application!r} had committed this version"
                )
                return CommitOutcome(CommitVerdict.SKIPPED, application.rows_of(request.version))
            if decided is not None:
                raise already_decided_error(decided)
            staged: dict[str, StagedRecord] = {}
            for group in self._store.staged.list_places(name):
                staged |= self._staged(name, group)
            if request.overwrite is not Overwrite.NOTHING:
                self._numbers.wait_for_pending(options.status)
            return self._exchange(name, request, select_staged_parts(request, staged), options.status)

    def _exchange(
        self, name: str, request: CommitRequest, staged: dict[str, StagedRecord], status: QueryStatus
    ) -> CommitOutcome:
        """Replaces parts by the staged ones and writes the decision, in one step."""
        store = self._store
        rows = sum(record.rows for record in staged.values())
        notes = {_decision_file(name): self._text(name, request.transaction_id, TransactionState.COMMITTED, rows=rows)}
        if request.application:
            notes[_application_file(request.application)] = json.dumps({"committed": request.version, "rows": rows})
        partition_ids = {record.partition_id for record in staged.values()}
        with self._numbers.allocate(max(1, len(staged))) as numbers:
            arrivals = {
                PartName(record.partition_id, number, number, 0): store.staged.path(name, record.place)
                for number, record in zip(numbers, staged.values(), strict=False)
            }

            def is_leaving(part: PartName) -> bool:
                return part.max_block < numbers.start and bool(
                    request.select_dropped({part.partition_id}, partition_ids)
                )

            if request.unchanged is not None:  # a mutation of a lower number would not change the parts that come
                self._numbers.wait_for_lower(numbers.start, status)
            self._table.services.failpoint("transaction.before_exchange")
            with store.lock:
                self._require_unchanged(request)
                self._block_history.record_dropped(part.name for part in store.list_active() if is_leaving(part.name))
                store.exchange(arrivals, is_leaving, notes)
        if request.overwrite is not Overwrite.NOTHING:
            self._forget_blocks()
        services = self._table.services
        for part in filter(None, map(store.get_active, arrivals)):
            services.part_log.note(PartEventType.NEW, self._table.definition, part, services.clock())
        store.staged.remove(name)
        self._wake_merges()
        return CommitOutcome(CommitVerdict.COMMITTED, rows, tuple(arrivals))

    def _require_unchanged(self, request: CommitRequest) -> None:
        """Raises 650 (SERIALIZATION_ERROR) if what the client read has changed. Call it in the lock of the store."""
        state = request.unchanged
        if state is None:
            return
        if state.metadata_version != self._table.description.metadata_version:
            raise changed_error("its definition was altered")

        def find_obstacle(part: PartName) -> str | None:
            mutation = self._find_mutation(part)
            return f"mutation {mutation} is to change part {part}" if mutation is not None else None

        current = [part.name for part in self._store.list_active() if state.includes(part.name.partition_id)]
        change = find_change(state, current, find_obstacle)
        if change is not None:
            raise changed_error(change)

    def settle(self, name: str) -> bool | None:
        """Returns whether the transaction was committed; aborts it if it is open."""
        with self._lock:
            decided = self._decision(name)
            if decided is None:
                self._abort(name, "", "it was not finished")
            return decided is not None and decided.state is TransactionState.COMMITTED

    def rollback(self, transaction_id: str) -> None:
        """Aborts a transaction. Raises 649 for a committed one."""
        name = transaction_node_name(transaction_id)
        with self._lock:
            decided = self._decision(name)
            if decided is not None and decided.state is TransactionState.COMMITTED:
                raise already_decided_error(decided)
            if decided is None:
                self._abort(name, transaction_id, "it was rolled back")

    def known(self) -> list[TransactionSummary]:
        """Returns the open and the remembered transactions."""
        with self._lock:
            self._store.settle()
            names = sorted(file.stem for file in (self._path / _DECISIONS).glob("*.json"))
            return [self._describe(found) for found in map(self._read, names) if found is not None]

    def _describe(self, found: Transaction) -> TransactionSummary:
        staged: list[StagedRecord] = []
        if found.state is TransactionState.OPEN:
            for group in self._store.staged.list_places(found.name):
                staged += self._staged(found.name, group).values()
        return TransactionSummary.of(found, staged)

    def clean_up(self, now: float) -> None:
        """Aborts idle transactions and removes old decisions and staged parts. ``now``: monotonic seconds."""
        with self._lock:
            homes = [self._path / "staged" / name for name in self._store.staged.list_transactions()]
            for home, age in self._unchanged_staged.ages(homes, now).items():
                if self._decision(home.name) is not None:
                    self._store.staged.remove(home.name)
                elif age > OPEN_TRANSACTION_IDLE_SECONDS:
                    self._abort(home.name, "", f"nothing was inserted for {OPEN_TRANSACTION_IDLE_SECONDS:.0f} s")
        staged = set(self._store.staged.list_transactions())
        decided = [file for file in (self._path / _DECISIONS).glob("*.json") if file.stem not in staged]
        ages = self._unchanged_decisions.ages(decided, now)
        newest_first = sorted(ages, key=lambda file: file.stat().st_mtime_ns, reverse=True)
        for rank, file in enumerate(newest_first):
            if rank >= MAX_REMEMBERED_TRANSACTIONS or ages[file] > DECIDED_TRANSACTION_SECONDS:
                file.unlink(missing_ok=True)
        applications = [*(self._path / _APPLICATIONS).glob("*.json")]
        if len(applications) > _MAX_APPLICATIONS:
            with self._lock:
                applications.sort(key=lambda file: file.stat().st_mtime, reverse=True)
                for file in applications[_MAX_APPLICATIONS:]:
                    file.unlink(missing_ok=True)

    # -- files ------------------------------------------------------------------------------------------------------

    @property
    def _path(self) -> Path:
        return self._store.path

    def _abort(self, name: str, transaction_id: str, reason: str) -> None:
        self._write(name, self._text(name, transaction_id, TransactionState.ABORTED, reason=reason))
        self._store.staged.remove(name)

    def _write(self, name: str, text: str) -> None:
        file = self._path / _decision_file(name)
        file.parent.mkdir(exist_ok=True)
        replace_file_durably(file, text.encode())

    def _text(self, name: str, transaction_id: str, state: TransactionState, *, rows: int = 0, reason: str = "") -> str:
        """Returns the text of the decision file, with the id and creation time of the former file."""
        former = self._read(name)
        created = former.created_ms / 1000 if former is not None else self._table.services.clock()
        known_id = former.id if former is not None else transaction_id
        return _text_of(known_id, state, rows, reason, created)

    def _decision(self, name: str) -> Transaction | None:
        """Returns the decided transaction, or ``None`` while it is open."""
        self._store.settle()  # finish an exchange first: it may remove the file
        found = self._read(name)
        return found if found is not None and found.state is not TransactionState.OPEN else None

    def _read(self, name: str) -> Transaction | None:
        return _read(self._path / _decision_file(name))

    def _application(self, request: CommitRequest) -> ApplicationVersion:
        file = self._path / _application_file(request.application)
        if not request.application or not file.exists():
            return ApplicationVersion("", request.application)
        document = json.loads(file.read_bytes())
        return ApplicationVersion("", request.application, document["committed"], document["rows"])

    def _staged(self, name: str, group: str) -> dict[str, StagedRecord]:
        """Returns the parts of one INSERT by key; their places are ``<group>/<directory>``."""
        found = {}
        home = self._store.staged.path(name, group)
        for directory in sorted(home.iterdir(), key=lambda path: int(path.name.partition("-")[0])):
            number, _, partition_id = directory.name.partition("-")
            part = open_part(
                directory, name=PartName(partition_id, 0, 0, 0), table_schema=self._store.description.schema
            )
            place = f"{group}/{directory.name}"
            found[f"{group}-{number}"] = StagedRecord(
                "", place, partition_id, part.content_hash, part.rows, part.bytes_on_disk
            )
        return found


def _read(file: Path) -> Transaction | None:
    if not file.exists():
        return None
    document = json.loads(file.read_bytes())
    return Transaction(
        file.stem,
        document["id"],
        TransactionState(document["state"]),
        0,
        document["reason"],
        document["rows"],
        created_ms=int(document["created"] * 1000),
        changed_ms=int(file.stat().st_mtime * 1000),
    )


def read_decision_files(directory: Path) -> list[Transaction]:
    """Returns the decided transactions of the table in ``directory``, which must not be open."""
    found = map(_read, sorted((directory / _DECISIONS).glob("*.json")))
    return [each for each in found if each is not None and each.state is not TransactionState.OPEN]


def read_application_files(directory: Path) -> dict[str, tuple[int, int]]:
    """Returns the last committed version and its rows by ``transaction_node_name(application)``."""
    found = {}
    for file in sorted((directory / _APPLICATIONS).glob("*.json")):
        document = json.loads(file.read_bytes())
        found[file.stem] = (document["committed"], document["rows"])
    return found


def write_decisions(
    directory: Path, decided: Iterable[Transaction], applications: Mapping[str, tuple[int, int]]
) -> None:
    """Writes durably what :func:`read_decision_files` and :func:`read_application_files` read."""
    texts = {
        _decision_file(each.name): _text_of(each.id, each.state, each.rows, each.reason, each.created_ms / 1000)
        for each in decided
    }
    for name, (version, rows) in applications.items():
        texts[f"{_APPLICATIONS}/{name}.json"] = json.dumps({"committed": version, "rows": rows})
    for place, text in texts.items():
        file = directory / place
        file.parent.mkdir(exist_ok=True)
        replace_file_durably(file, text.encode())


def _text_of(id: str, state: TransactionState, rows: int, reason: str, created: float) -> str:
    return json.dumps({"id": id, "state": state.value, "rows": rows, "reason": reason, "created": created})


def _decision_file(name: str) -> str:
    return f"{_DECISIONS}/{name}.json"


def _application_file(application: str) -> str:
    return f"{_APPLICATIONS}/{transaction_node_name(application)}.json"
