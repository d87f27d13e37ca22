"""The definition that all replicas share: changed in ZooKeeper first, then by each replica for itself.

ALTER writes the new columns into the table's ``columns``, unless another replica has done so since they were read: then
its commands are applied to those. Every replica watches the node, makes its own definition of it, and notes in its
``metadata_version`` how far it is. Nothing has to be carried out in the order of the log: a part knows the version it
was written under, each replica can read all older ones, and takes in no newer one (342) until it has the definition.

Rows that a replica takes before it has heard of an ALTER are of before.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from coordination.keeper import BadVersion, Keeper, KeeperConnectionLoss, KeeperError
from coordination.replica_activity import ALTER, INDEXES, TTL, require_feature
from engine.tables.definition import TableDefinition
from engine.tables.options import AlterOptions
from engine.tables.replicated.shared_definition import parse_columns, shared_definition
from engine.tables.replicated.state import ReplicaState
from parts.errors import ConflictError, PandoError, UnavailableError, UnknownOutcomeError
from sql.grammar.statements import CreateTable
from sql.grammar.tokens import not_implemented

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 60.0
"""A watch wakes the step."""
_RETRY_SECONDS = 1.0
_POLL_SECONDS = 0.02
_ATTEMPTS = 20


class Definitions:
    def __init__(
        self,
        state: ReplicaState,
        define: Callable[[CreateTable], TableDefinition],
        redefine: Callable[[Callable[[TableDefinition], CreateTable | None]], bool],
        on_change: Callable[[], None],
    ) -> None:
        """``redefine``: see :meth:`engine.tables.table.TableHome.redefine`. ``on_change`` is called after it."""
        self._state = state
        self._define = define
        self._redefine = redefine
        self._on_change = on_change
        self.task = state.make_task("take over the definition", self.step)
        self._may_have_changed = threading.Event()
        self._may_have_changed.set()

    # -- following ----------------------------------------------------------------------------------------------

    def step(self) -> float:
        state = self._state
        if state.activation is None or not self._may_have_changed.is_set():
            return _IDLE_SECONDS
        try:
            with state.working() as (keeper, _):
                self._may_have_changed.clear()
                keeper.exists(state.paths.columns, self._on_news)
                self.follow(keeper)
        except (PandoError, OSError) as error:
            logger.info("the definition of %s is looked at later: %s", state.definition.full_name, error)
            self._may_have_changed.set()
            return _RETRY_SECONDS
        return _IDLE_SECONDS

    def _on_news(self, _: str) -> None:
        self._may_have_changed.set()
        self.task.wake()

    def follow(self, keeper: Keeper) -> None:
        """Takes over what is in ZooKeeper, and says so there. The replica is active."""
        self.take_over(keeper)
        state, version = self._state, str(self._version).encode()
        if keeper.get(state.replica.metadata_version)[0] != version:
            keeper.set(state.replica.metadata_version, version)

    def take_over(self, keeper: Keeper, *, is_new: bool = False) -> None:
        """``is_new``: the table is being created here, and has to have been written with the columns of now."""
        state = self._state
        (answer,) = keeper.get_many([state.paths.columns])
        found = parse_columns(answer[0].decode()) if answer is not None else None
        if found is None:
            return
        version = found.history.version
        if version <= self._version or (is_new and not found.equals(state.description)):
            return

        def change(now: TableDefinition) -> CreateTable | None:
            if version <= now.description.metadata_version:
                return None  # another thread has taken this over, or a later one
            return found.over(now.create)

        if not self._redefine(change):
            raise UnavailableError("TIMEOUT_EXCEEDED", "Another statement changes the tables of this server; later")
        logger.info("table %s has version %s of its definition", state.definition.full_name, version)
        self._on_change()

    @property
    def _version(self) -> int:
        return self._state.description.metadata_version

    def columns_version(self, keeper: Keeper) -> int | None:
        """Of the node that has the columns, when they are those that this replica works with; else ``None``."""
        self.take_over(keeper)
        text, stat = keeper.get(self._state.paths.columns)
        return stat.version if text.decode() == shared_definition(self._state.description).columns else None

    # -- ALTER --------------------------------------------------------------------------------------------------

    def alter(self, change: Callable[[TableDefinition], CreateTable], options: AlterOptions) -> None:
        """Raises what ``change`` and the new definition raise, 48 for what not all replicas understand, 517 when others
        keep altering the table, 242 and 999; 341 (UNFINISHED) when it is made and other replicas do not follow in
        time."""
        for _ in range(_ATTEMPTS):
            options.status.check()
            with self._state.working() as (keeper, _):
                if self._try(keeper, change):
                    self._follow_own(keeper)
                    break
        else:
            raise ConflictError("CANNOT_ASSIGN_ALTER", "Other replicas keep altering the table; repeat the ALTER")
        if options.waits_for_all:
            self._wait_for_others(options)

    def _try(self, keeper: Keeper, change: Callable[[TableDefinition], CreateTable]) -> bool:
        """Whether the change is made."""
        state = self._state
        keeper.sync(state.paths.columns)
        version = self.columns_version(keeper)
        require_feature(keeper, state.paths, ALTER, "ALTER of columns")
        if version is None:
            return False  # another was made in between
        old = state.definition
        new = self._define(change(old))
        if new.description.ttl != old.description.ttl:
            require_feature(keeper, state.paths, TTL, "ALTER of TTL")
        _refuse_other_types(old, new)
        if old.description.indexes or new.description.indexes:
            require_feature(keeper, state.paths, INDEXES, "ALTER of a table with skip indexes")
        wanted = shared_definition(new.description).columns.encode()
        try:
            keeper.set(state.paths.columns, wanted, version)
        except BadVersion:
            return False
        except KeeperConnectionLoss as lost:
            try:
                keeper.sync(state.paths.columns)
                return keeper.get(state.paths.columns)[0] == wanted  # whoever made this same change
            except KeeperError:
                raise lost from None
        return True

    def _follow_own(self, keeper: Keeper) -> None:
        try:
            self.follow(keeper)
        except (PandoError, OSError) as error:
            self._on_news("")
            raise UnknownOutcomeError(
                "UNFINISHED", f"The table is altered, and this replica has not followed yet; it will ({error})"
            ) from error

    def _wait_for_others(self, options: AlterOptions) -> None:
        state = self._state
        deadline = state.services.monotonic() + options.timeout_seconds
        while behind := self._behind():
            options.status.check()
            if state.services.monotonic() >= deadline or state.is_stopping.is_set():
                raise UnknownOutcomeError(
                    "UNFINISHED",
                    f"The table is altered, but replicas {', '.join(behind)} have not followed yet; they will",
                )
            state.sleep(_POLL_SECONDS)

    def _behind(self) -> list[str]:
        state = self._state
        with state.working() as (keeper, _):
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


def _refuse_other_types(old: TableDefinition, new: TableDefinition) -> None:
    """Rows that another replica is about to insert might not convert."""
    before, after = old.description.schema, new.description.schema
    for column in after.columns:
        former = after.history.name_in(before.history.version, column.name)
        if former is not None and former in before and before.column(former).type != column.type:
            raise not_implemented(f"Another type of column {former!r} of a replicated table")
