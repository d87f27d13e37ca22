"""ALTER on replicas: writes the definition to ZooKeeper; every replica then adopts it.

ALTER writes the new columns into the table's ``columns``. If another replica has changed them since they were read, the
commands are applied to those. Every replica watches the node, adopts the definition, and records its version in its
``metadata_version``. The order of the log does not matter here: a part knows the version it was written under. Each
replica can read all older versions, and accepts no newer part (342) until it has the definition. Rows inserted on a
replica that does not know an ALTER yet are written under the former definition.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from coordination.keeper.interface import (
    BadVersion,
    Check,
    Create,
    Keeper,
    KeeperConnectionLoss,
    KeeperError,
    MultiFailed,
    Op,
    SetData,
    Watch,
)
from coordination.links.stream.change import Definition
from coordination.links.stream.definition_nodes import definition_ops
from coordination.merges_mutations.mutation_nodes import read_mutation_pointer
from coordination.nodes.gate import CommitKind
from coordination.nodes.replica_activation import (
    FEATURE_CHANGED_KEYS,
    FEATURE_COLUMN_HISTORY,
    FEATURE_CONSTRAINTS,
    FEATURE_SKIP_INDEXES,
    FEATURE_TEXT_INDEXES,
    FEATURE_TTL,
    require_feature,
)
from engine.tables.replicated.life.shared_definition import make_shared_definition, parse_altered_columns
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.replicated.watched_step import WatchedStep
from engine.tables.statement_options import AlterOptions, SyncMode
from engine.tables.table_definition import TableDefinition
from engine.tables.unfinished_errors import report_as_unfinished
from parts.common.errors import ConflictError, PandoError, UnavailableError, UnknownOutcomeError
from parts.common.query_status import QueryStatus
from sql.definitions.alter.column_changes import (
    find_changed_columns,
    find_retyped_columns,
    refuse_conflicting_mutations,
)
from sql.definitions.row_places import require_row_places
from sql.grammar.statements.statement import CreateTable
from sql.mutations.mutation import Mutation

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.02
_ATTEMPTS = 20
_RESOLVE_SECONDS = 10.0
_RESOLVE_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class _Prepared:
    """A change to write: ``columns`` replaces the node's ``version``."""

    new: TableDefinition
    columns: bytes
    version: int
    is_retyped: bool
    """Whether rows have to be converted."""
    conditions: tuple[Op, ...]
    definition: Definition
    """The same, for the links of the table."""


class DefinitionChanges:
    """The definition of one replica, as it follows the table's."""

    def __init__(
        self,
        state: ReplicaState,
        define: Callable[[CreateTable], TableDefinition],
        change_definition: Callable[[Callable[[TableDefinition], CreateTable | None]], bool],
        on_change: Callable[[], None],
        sync: Callable[[float, QueryStatus, SyncMode], None],
    ) -> None:
        """``change_definition``: see :meth:`engine.tables.owned_table.TableCatalog.change_definition`.

        ``on_change`` is called after it. ``sync`` waits until
        the queue has executed what is in the log.
        """
        self._state = state
        self._define = define
        self._change_definition = change_definition
        self._on_change = on_change
        self._sync = sync
        self._following = WatchedStep(state, "take over the definition", "changed columns", self.adopt_and_report)
        self.task = self._following.task
        self._writing = threading.Lock()
        self.keep_for_links: Callable[[Keeper], None] = lambda keeper: None
        """Writes definitions into the journal of links."""

    # -- following ----------------------------------------------------------------------------------------------

    def adopt_and_report(self, keeper: Keeper, watch: Watch | None = None) -> None:
        """Adopts ZooKeeper's definition and records its version there.

        The replica must be active. ``watch`` is called at the next change.
        """
        self._adopt(keeper.get(self._state.paths.columns, watch)[0])
        self.keep_for_links(keeper)
        state, version = self._state, str(self._version).encode()
        if keeper.get(state.replica.metadata_version)[0] != version:
            keeper.set(state.replica.metadata_version, version)

    def adopt(self, keeper: Keeper, *, is_new: bool = False) -> None:
        """Adopts ZooKeeper's definition if it is newer.

        ``is_new``: the table is being created here; its definition is adopted only if its columns are equal.
        """
        (answer,) = keeper.get_many([self._state.paths.columns])
        if answer is not None:
            self._adopt(answer[0], is_new=is_new)

    def _adopt(self, columns: bytes, *, is_new: bool = False) -> None:
        state, found = self._state, parse_altered_columns(columns.decode())
        if found is None:
            return
        version = found.history.version
        if version <= self._version or (is_new and not found.equals(state.description)):
            return

        def change(now: TableDefinition) -> CreateTable | None:
            if version <= now.description.metadata_version:
                return None  # another thread has adopted this version, or a later one
            return found.over(now.create)

        if not self._change_definition(change):
            raise UnavailableError("TIMEOUT_EXCEEDED", "Another statement changes the tables of this server; later")
        logger.info("table %s has version %s of its definition", state.definition.full_name, version)
        self._on_change()

    def publish_if_newer(self, keeper: Keeper) -> None:
        """Writes this replica's newer definition to a restored table.

        The replica that was restored first may have missed an ALTER that this one has adopted. Raises 999 if others
        write the definition at the same time.
        """
        paths, shared = self._state.paths, make_shared_definition(self._state.description)
        (answer,) = keeper.get_many([paths.columns])
        if answer is None:
            return
        found = parse_altered_columns(answer[0].decode())
        if self._version > (found.history.version if found is not None else 0):
            keeper.multi(
                [
                    SetData(paths.columns, shared.columns.encode(), answer[1].version),
                    SetData(paths.metadata, shared.metadata.encode()),
                ]
            )

    @property
    def _version(self) -> int:
        return self._state.description.metadata_version

    def columns_version(self, keeper: Keeper) -> int | None:
        """Returns the version of the node of columns, or ``None`` if this replica has other columns."""
        text, stat = keeper.get(self._state.paths.columns)
        self._adopt(text)
        return stat.version if text.decode() == make_shared_definition(self._state.description).columns else None

    # -- ALTER --------------------------------------------------------------------------------------------------

    def alter(self, change: Callable[[TableDefinition], CreateTable], options: AlterOptions) -> None:
        """Changes the definition on all replicas.

        Raises the errors of ``change`` and of the new definition, and 48 for changes that not all replicas understand.
        Raises 517 if others keep altering the table, 242 and 999. Raises 341 (UNFINISHED) if the change is made but
        other replicas do not follow in time.
        """
        checked = b""
        for _ in range(_ATTEMPTS):
            options.status.check()
            prepared, is_written = self._state.pass_gate(
                CommitKind.DEFINITION, partial(self._try_alter, change, checked), options.status
            )
            if is_written:
                break
            if prepared is not None and prepared.is_retyped and prepared.columns != checked:
                self._check_rows(prepared.new, options)
                checked = prepared.columns
        else:
            raise ConflictError("CANNOT_ASSIGN_ALTER", "Other replicas keep altering the table; repeat the ALTER")
        self._follow_own(options)
        if options.waits_for_all_replicas:
            with report_as_unfinished("The table is altered"):
                self._wait_for_others(options)

    def _try_alter(
        self, change: Callable[[TableDefinition], CreateTable], checked: bytes
    ) -> tuple[_Prepared | None, bool]:
        """Prepares the change, and writes it unless rows must be checked before; tells whether it is written."""
        with self._state.hold_write_access() as (keeper, _):
            prepared = self._prepare(keeper, change)
            if prepared is None or (prepared.is_retyped and prepared.columns != checked):
                return prepared, False
            return prepared, self._write(keeper, prepared)

    def _prepare(self, keeper: Keeper, change: Callable[[TableDefinition], CreateTable]) -> _Prepared | None:
        """Prepares the change; returns ``None`` if another change was made at the same time."""
        state = self._state
        keeper.sync(state.paths.columns)
        version = self.columns_version(keeper)
        require_feature(keeper, state.paths, FEATURE_COLUMN_HISTORY, "ALTER of columns")
        if version is None:
            return None
        old = state.definition
        new = self._define(change(old))
        if new.description.ttl != old.description.ttl:
            require_feature(keeper, state.paths, FEATURE_TTL, "ALTER of TTL")
        if old.description.indexes or new.description.indexes:
            require_feature(keeper, state.paths, FEATURE_SKIP_INDEXES, "ALTER of a table with skip indexes")
        if any(index.kind == "text" for index in new.description.indexes):
            require_feature(keeper, state.paths, FEATURE_TEXT_INDEXES, "ALTER of a table with text indexes")
        if old.description.constraints or new.description.constraints:
            require_feature(keeper, state.paths, FEATURE_CONSTRAINTS, "ALTER of a table with constraints")
        conditions: list[Op] = []
        shared, former = make_shared_definition(new.description), make_shared_definition(old.description)
        if shared.metadata != former.metadata:
            require_feature(keeper, state.paths, FEATURE_CHANGED_KEYS, "ALTER of keys")
            conditions.append(SetData(state.paths.metadata, shared.metadata.encode()))
        if touched := find_changed_columns(old.description.schema, new.description.schema):
            conditions.append(self._refuse_conflicting_mutations(keeper, touched))
        return _Prepared(
            new,
            shared.columns.encode(),
            version,
            bool(find_retyped_columns(old.description.schema, new.description.schema)),
            tuple(conditions),
            Definition(new.description.metadata_version, shared.metadata, shared.columns),
        )

    def _refuse_conflicting_mutations(self, keeper: Keeper, touched: frozenset[str]) -> Op:
        """Refuses the change if a mutation uses the columns; returns the check that none has come since."""
        state = self._state
        version = keeper.get(state.paths.mutations)[1].version
        unfinished = state.mutations.load(keeper).unfinished(read_mutation_pointer(keeper, state.replica))
        refuse_conflicting_mutations(
            ((entry.mutation_id, Mutation.decode(entry.text)) for entry in unfinished), touched
        )
        return Check(state.paths.mutations, version)

    def _check_rows(self, new: TableDefinition, options: AlterOptions) -> None:
        """Raises an error if a row cannot be converted.

        Rows that others insert before they know the change are not checked; reading them will raise it.
        """
        self._sync(options.timeout_seconds, options.status, SyncMode.LIGHTWEIGHT)
        with self._state.store.snapshot() as snapshot:
            for part in snapshot.parts:
                options.status.check()
                part.adapt_to_schema(new.description.schema).check_conversions()

    def _write(self, keeper: Keeper, prepared: _Prepared) -> bool:
        """Writes the change; tells whether it is made.

        After a lost response, the id that the change leaves in this replica's nodes tells. The columns may have been
        changed again since, by another replica.
        """
        columns, last, gate = self._state.paths.columns, self._state.replica.last_alter, self._state.gate
        with self._writing:  # the id must stay until the outcome is known
            alter_id = self._state.services.new_uuid().hex.encode()
            is_there = keeper.exists(last) is not None
            mark = SetData(last, alter_id) if is_there else Create(last, alter_id)
            try:
                checks = gate.checks(keeper, CommitKind.DEFINITION)
                if gate.own_origin:
                    require_row_places(prepared.new.description, prepared.new.full_name)
                noted = definition_ops(keeper, self._state.paths, gate.gate, prepared.definition)
                change = SetData(columns, prepared.columns, prepared.version)
                keeper.multi([change, *prepared.conditions, *checks, mark, *noted])
            except MultiFailed as error:
                if gate.has_moved(keeper, error) or isinstance(error.cause, BadVersion):
                    return False
                raise error.cause from error
            except KeeperConnectionLoss as lost:
                return self._was_written(keeper, alter_id, lost)
        return True

    def _was_written(self, keeper: Keeper, alter_id: bytes, lost: KeeperConnectionLoss) -> bool:
        """Tells whether the change with this id is made.

        Raises ``lost`` if ZooKeeper stays away: the outcome is unknown.
        """
        state = self._state
        deadline = state.services.monotonic() + _RESOLVE_SECONDS
        while True:
            try:
                keeper.sync(state.paths.columns)
                (answer,) = keeper.get_many([state.replica.last_alter])
                return answer is not None and answer[0] == alter_id
            except KeeperError:
                if state.services.monotonic() >= deadline or state.is_cancelled():
                    raise lost from None
            state.sleep(_RESOLVE_POLL_SECONDS)

    def _follow_own(self, options: AlterOptions) -> None:
        """Adopts the change here; waits while other statements change this server's tables."""
        state = self._state
        deadline = state.services.monotonic() + options.timeout_seconds
        while True:
            try:
                with state.hold_write_access() as (keeper, _):
                    return self.adopt_and_report(keeper)
            except (PandoError, OSError) as error:
                is_busy = isinstance(error, PandoError) and error.name == "TIMEOUT_EXCEEDED"
                if not is_busy or state.services.monotonic() >= deadline or state.is_stopping.is_set():
                    self._following.look_again()
                    raise UnknownOutcomeError(
                        "UNFINISHED", f"The table is altered, and this replica has not followed yet; it will ({error})"
                    ) from error
            options.status.check()
            state.sleep(_POLL_SECONDS)

    def _wait_for_others(self, options: AlterOptions) -> None:
        state = self._state
        deadline = state.services.monotonic() + options.timeout_seconds
        while behind := self._list_outdated_replicas():
            options.status.check()
            if state.services.monotonic() >= deadline or state.is_stopping.is_set():
                raise UnknownOutcomeError(
                    "UNFINISHED",
                    f"The table is altered, but replicas {', '.join(behind)} have not followed yet; they will",
                )
            state.sleep(_POLL_SECONDS)

    def _list_outdated_replicas(self) -> list[str]:
        """Returns the active replicas with an older definition."""
        state = self._state
        with state.hold_write_access() as (keeper, _):
            names = keeper.children(state.paths.replicas)
            replicas = [state.paths.replica(name) for name in names]
            answers = keeper.get_many([replica.metadata_version for replica in replicas])
            active = keeper.exists_many([replica.is_active for replica in replicas])
        known = zip(names, answers, active, strict=True)
        return [
            name
            for name, answer, stat in known
            if stat is not None and answer is not None and int(answer[0] or 0) < self._version
        ]
