"""ATTACH TABLE … AS [NOT] REPLICATED: a detached table of the MergeTree family gets, or loses, its replicas in place.

Nothing is copied: only the engine of the definition changes, in one write of the catalog's. What is checked here, and
written before, can be repeated after a crash at any moment.

To a replicated table:

1. the nodes in ZooKeeper, as SYSTEM RESTORE REPLICA makes them (``recovery.restore_replica``), and the decided
transactions
2. the definition
3. the table's first session lists its parts or, where there are other replicas, becomes a copy of them: parts with the
   content of theirs are kept, others go to ``detached/clone_…``

To a plain table: what ZooKeeper knows of decided transactions is written beside the parts, then the definition. The
replica's nodes stay, as in ClickHouse.

Source: ClickHouse documentation, "ATTACH MergeTree table as ReplicatedMergeTree".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from coordination.keeper.interface import NoNode, SessionState
from coordination.replicas.table_nodes import create_table_or_replica
from coordination.transactions.application_versions import read_applications
from coordination.transactions.carried_decisions import write_decisions as write_decisions_to
from coordination.transactions.transaction_nodes import Transaction, TransactionState, read_transactions
from engine.interserver.replication import Replication
from engine.tables.merge_tree.kept_mutations import unfinished_mutations
from engine.tables.merge_tree.local_transactions import applications_on_disk, decisions_on_disk, write_decisions
from engine.tables.replicated.life.shared_definition import make_shared_definition
from engine.tables.replicated.replicated_table import ReplicatedTable
from engine.tables.services import TableServices
from engine.tables.table import load_parts
from engine.tables.table_definition import TableDefinition
from parts.common.errors import PandoError, UnavailableError, UserError
from parts.format.hashed_file import sync_directory
from parts.store.part_states import (
    PartState,
)
from parts.store.part_store import (
    PartStore,
)
from recovery.restore_replica import clear_retired
from recovery.table_completeness import why_not_whole
from sql.definitions.engines.deprecated_syntax import is_merge_tree
from sql.definitions.engines.replica_location import as_not_replicated, as_replicated
from sql.grammar.statements.statement import CreateTable

logger = logging.getLogger(__name__)

Define = Callable[[CreateTable], TableDefinition]
_FLAG = "convert_to_replicated"
_OF_PLAIN_TABLES = ("mutation_*.txt", "transactions/*.json", "applications/*.json", "block_history.json")


class Conversion:
    """Converts the tables of one server. A table is not loaded while it is converted."""

    def __init__(self, replication: Replication, services: TableServices) -> None:
        self._replication = replication
        self._services = services

    def convert(self, definition: TableDefinition, define: Define, *, to_replicated: bool) -> TableDefinition:
        """The new definition, which may be written then. ``define`` compiles a CREATE statement.

        Raises ``UserError`` 48 for other engines, 80 for a table that is so already, or must be settled before, 253 and
        342 from ZooKeeper, 139 for a macro that the configuration lacks; 225 and 999 without ZooKeeper.
        """
        if not is_merge_tree(definition.create):
            raise UserError("NOT_IMPLEMENTED", "Table engine conversion is supported only for MergeTree family engines")
        if definition.is_replicated is to_replicated:
            how = "replicated" if to_replicated else "not replicated"
            raise UserError("INCORRECT_QUERY", f"Can not attach table as {how}, table is already {how}")
        return (self._to_replicated if to_replicated else self._to_plain)(definition, define)

    def _to_replicated(self, definition: TableDefinition, define: Define) -> TableDefinition:
        replication, services = self._replication, self._services
        new = define(
            as_replicated(
                definition.create, default_path=replication.default_path, default_name=replication.default_name
            )
        )
        table = ReplicatedTable(new, services, replication)
        table.state.replication.require_keeper()
        load_parts(table.store, new)
        if ids := unfinished_mutations(definition.data_path, (part.name for part in table.store.active())):
            raise _unsettled(definition, "replicated", f"mutation {ids[0]} is not done")
        decided = decisions_on_disk(definition.data_path)
        _refuse_open(definition, table.store, "replicated", decided)
        # A clone moves to detached/ what others do not list, and the rows of covered parts are in their covers.
        table.store.delete([part for part, kind in table.store.list_parts() if kind is PartState.OUTDATED])
        self._make_nodes(table, decided)
        return new

    def _make_nodes(self, table: ReplicatedTable, decided: Sequence[Transaction]) -> None:
        """Repeatable. Only of the first replica's table anything but its own nodes is written."""
        services, paths = self._services, table.paths
        keeper = table.state.replication.require_keeper()
        table.state.replication.require_free(table.replica.root)
        keeper.sync(paths.root)
        clear_retired(keeper, paths)
        create_table_or_replica(
            keeper,
            paths,
            table.replica.name,
            make_shared_definition(table.description),
            wait=services.wait,
            identity=table.state.identity(),
            restoring="",
        )
        services.failpoint("conversion.after_nodes")
        if keeper.children(paths.replicas) == [table.replica.name]:
            with suppress(NoNode):  # it is a new table, to which restored replicas add nothing
                keeper.delete(paths.restored)
            write_decisions_to(keeper, paths, decided, applications_on_disk(table.definition.data_path))
        services.failpoint("conversion.after_decisions")

    def _to_plain(self, definition: TableDefinition, define: Define) -> TableDefinition:
        new = define(as_not_replicated(definition.create))
        table = ReplicatedTable(definition, self._services, self._replication)
        keeper = table.keeper
        load_parts(table.store, definition)
        replica, identity = table.replica, table.state.identity().split(" ")[0]
        decided: list[Transaction] = []
        if keeper is not None:
            if keeper.state is not SessionState.CONNECTED:
                raise UnavailableError(
                    "KEEPER_EXCEPTION",
                    "No connection to ZooKeeper, which knows whether all rows are here; try again later or, if it is "
                    "gone for good, take 'zookeeper' out of the server's configuration",
                )
            if reason := why_not_whole(keeper, replica, table.state.parts_on_disk(), identity):
                raise _unsettled(definition, "not replicated", reason)
            decided = [
                each for each in read_transactions(keeper, replica.table) if each.state is not TransactionState.OPEN
            ]
        _refuse_open(definition, table.store, "not replicated", decided)
        _forget_plain_table(definition.data_path)
        if keeper is not None:
            write_decisions(definition.data_path, decided, read_applications(keeper, replica.table))
        return new

    # -- the file convert_to_replicated -----------------------------------------------------------------------------

    def at_start(
        self, definition: TableDefinition, define: Define, write: Callable[[TableDefinition], None]
    ) -> TableDefinition:
        """The definition that the table starts with: of a replicated one, durable by ``write``, where somebody has put
        ``convert_to_replicated`` into the directory of its data. What does not work is logged, and the file stays."""
        flags = [flag for flag in _flags(definition.data_path) if flag.exists()]
        if not flags:
            return definition
        if not definition.is_replicated:
            try:
                definition = self.convert(definition, define, to_replicated=True)
            except (PandoError, OSError) as error:
                logger.error("table %s is not converted to replicated: %s", definition.full_name, error)
                return definition
            write(definition)
            logger.warning("table %s is converted to %s", definition.full_name, definition.engine_name)
        for flag in flags:
            flag.unlink()
            sync_directory(flag.parent)
        return definition


def _forget_plain_table(directory: Path) -> None:
    """What was left beside the parts when the table became a replicated one."""
    for pattern in _OF_PLAIN_TABLES:
        for file in directory.glob(pattern):
            file.unlink()


def _flags(directory: Path) -> tuple[Path, ...]:
    """ClickHouse looked for the second one in former versions."""
    return directory / _FLAG, directory / "flags" / _FLAG


def _refuse_open(definition: TableDefinition, store: PartStore, how: str, decided: Sequence[Transaction]) -> None:
    names = {each.name for each in decided}
    if undecided := [name for name in store.staged.list_transactions() if name not in names]:
        raise _unsettled(definition, how, f"transaction {undecided[0]} is open")
    if attaching := store.attaching.transactions():
        raise _unsettled(definition, how, f"ATTACH PARTITION {attaching[0]} is not ended")


def _unsettled(definition: TableDefinition, how: str, reason: str) -> UserError:
    return UserError(
        "INCORRECT_QUERY",
        f"Can not attach table {definition.full_name} as {how}: {reason}. ATTACH it as it is, wait until that is done, "
        "then DETACH it and try again",
    )
