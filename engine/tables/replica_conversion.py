"""ATTACH TABLE … AS [NOT] REPLICATED: converts a detached table to or from a replicated one in place.

Nothing is copied: only the engine of the definition changes, in one write of the catalog. Everything that is checked or
written before that can be repeated after a crash at any moment.

To a replicated table:

1. The nodes in ZooKeeper are made, as SYSTEM RESTORE REPLICA makes them (``recovery.restore_replica``), with the
   decided transactions.
2. The definition is written.
3. The table's first session lists its parts. If there are other replicas, the table becomes a copy of them: parts with
   the same content are kept, others go to ``detached/clone_…``.

To a plain table: the decided transactions in ZooKeeper are written beside the parts, then the definition. The replica's
nodes stay, as in ClickHouse.

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
from engine.tables.merge_tree.kept_mutations import list_unfinished_mutations
from engine.tables.merge_tree.local_transactions import read_application_files, read_decision_files, write_decisions
from engine.tables.parts_table import load_parts
from engine.tables.replicated.life.shared_definition import make_shared_definition
from engine.tables.replicated.replicated_table import ReplicatedTable
from engine.tables.services import TableServices
from engine.tables.table_definition import TableDefinition
from parts.common.errors import PandoError, UnavailableError, UserError
from parts.format.durable_files import remove_durably
from parts.store.part_states import PartState
from parts.store.part_store import PartStore
from recovery.restore_replica import clear_retired
from recovery.table_completeness import why_table_is_incomplete
from sql.definitions.engines.deprecated_syntax import is_merge_tree
from sql.definitions.engines.replica_location import as_not_replicated, as_replicated
from sql.grammar.statements.statement import CreateTable

logger = logging.getLogger(__name__)

Define = Callable[[CreateTable], TableDefinition]
_FLAG = "convert_to_replicated"
_OF_PLAIN_TABLES = ("mutation_*.txt", "transactions/*.json", "applications/*.json", "block_history.json")


class Conversion:
    """Converts the tables of one server. A table must not be loaded while it is converted."""

    def __init__(self, replication: Replication, services: TableServices) -> None:
        self._replication = replication
        self._services = services

    def convert(self, definition: TableDefinition, define: Define, *, to_replicated: bool) -> TableDefinition:
        """Prepares a conversion and returns the new definition, which may then be written.

        ``define`` compiles a CREATE statement.

        Raises ``UserError`` 48 for other engines, 80 for a table that is so already or has unfinished work, and 139 for
        an unknown macro. Raises 253 and 342 from ZooKeeper, 225 and 999 without ZooKeeper.
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
        if ids := list_unfinished_mutations(definition.data_path, (part.name for part in table.store.list_active())):
            raise _make_unsettled_error(definition, "replicated", f"mutation {ids[0]} is not done")
        decided = read_decision_files(definition.data_path)
        _refuse_open(definition, table.store, "replicated", decided)
        # A clone moves parts that others do not list to detached/; the rows of covered parts are in their covers.
        table.store.delete([part for part, kind in table.store.list_parts() if kind is PartState.OUTDATED])
        self._make_nodes(table, decided)
        return new

    def _make_nodes(self, table: ReplicatedTable, decided: Sequence[Transaction]) -> None:
        """Makes the nodes of the replica; may be repeated.

        The first replica also writes the table's transactions.
        """
        services, paths = self._services, table.replication.paths
        keeper = table.state.replication.require_keeper()
        table.state.replication.require_free(table.replication.replica.root)
        keeper.sync(paths.root)
        clear_retired(keeper, paths)
        create_table_or_replica(
            keeper,
            paths,
            table.replication.replica.name,
            make_shared_definition(table.description),
            epoch=table.state.make_first_epoch(),
            wait=services.wait,
            identity=table.state.identity(),
            restoring="",
        )
        services.failpoint("conversion.after_nodes")
        if keeper.children(paths.replicas) == [table.replication.replica.name]:
            with suppress(NoNode):  # it is a new table, so restored replicas add nothing to it
                keeper.delete(paths.restored)
            write_decisions_to(keeper, paths, decided, read_application_files(table.definition.data_path))
        services.failpoint("conversion.after_decisions")

    def _to_plain(self, definition: TableDefinition, define: Define) -> TableDefinition:
        new = define(as_not_replicated(definition.create))
        table = ReplicatedTable(definition, self._services, self._replication)
        keeper = table.replication.keeper
        load_parts(table.store, definition)
        replica, identity = table.replication.replica, table.state.identity().split(" ")[0]
        decided: list[Transaction] = []
        if keeper is not None:
            if keeper.state is not SessionState.CONNECTED:
                raise UnavailableError(
                    "KEEPER_EXCEPTION",
                    "No connection to ZooKeeper, which knows whether all rows are here; try again later or, if it is "
                    "gone for good, take 'zookeeper' out of the server's configuration",
                )
            if reason := why_table_is_incomplete(keeper, replica, table.state.parts_on_disk(), identity):
                raise _make_unsettled_error(definition, "not replicated", reason)
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
        """Converts a table at its start if its data directory holds a file ``convert_to_replicated``.

        Returns the definition that the table starts with. A new one is first made durable by ``write``. A failure is
        logged, and the file stays.
        """
        flags = [flag for flag in _list_flag_files(definition.data_path) if flag.exists()]
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
            remove_durably(flag)
        return definition


def _forget_plain_table(directory: Path) -> None:
    """Removes the files that a table of one server left when it became a replicated one."""
    for pattern in _OF_PLAIN_TABLES:
        for file in directory.glob(pattern):
            file.unlink()


def _list_flag_files(directory: Path) -> tuple[Path, ...]:
    """Returns the possible paths of the flag file; older ClickHouse versions used the second."""
    return directory / _FLAG, directory / "flags" / _FLAG


def _refuse_open(definition: TableDefinition, store: PartStore, how: str, decided: Sequence[Transaction]) -> None:
    """Raises 80 if a transaction is open or an ATTACH unfinished."""
    names = {each.name for each in decided}
    if undecided := [name for name in store.staged.list_transactions() if name not in names]:
        raise _make_unsettled_error(definition, how, f"transaction {undecided[0]} is open")
    if attaching := store.attaching.list_transactions():
        raise _make_unsettled_error(definition, how, f"ATTACH PARTITION {attaching[0]} is not ended")


def _make_unsettled_error(definition: TableDefinition, how: str, reason: str) -> UserError:
    return UserError(
        "INCORRECT_QUERY",
        f"Can not attach table {definition.full_name} as {how}: {reason}. ATTACH it as it is, wait until that is done, "
        "then DETACH it and try again",
    )
