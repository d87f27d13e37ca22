"""The tables that a session's queries can read: the catalog's and the system tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.catalog.database_names import TEMPORARY_DATABASE, make_unknown_table_error
from engine.catalog.databases import Databases
from engine.distributed.merge_engine import open_merge_function, open_merge_table
from engine.distributed.sharded_relation import LocalQueries
from engine.distributed.sharded_tables import open_distributed_table, open_function_table
from engine.interpreter.file_function import resolve_files
from engine.queries.context import Context
from engine.queries.server_links import LinkFreshness
from engine.system_tables import SYSTEM_DATABASES
from engine.system_tables.system_table import SystemRelation
from engine.system_tables.zookeeper import ZooKeeperRelation
from engine.tables.capabilities.group_view import GroupView
from engine.tables.table import Table
from parts.common.errors import ConflictError, UserError
from parts.store.part_states import Snapshot
from parts.table.table_description import TableDescription
from parts.types import DataType
from sql.compile.shards.merge_tables import MergedTables
from sql.compile.shards.remote_table_functions import MergeFunction, RemoteFunction
from sql.grammar.common_clauses import parse_table_name
from sql.grammar.tokens import TokenStream, quote_identifier
from sql.relations import (
    UNKNOWN_POSITIONS,
    ArrowRelation,
    BlockRelation,
    PartsRelation,
    PartsSnapshot,
    StreamedRelation,
    TablePositions,
    ViewRelation,
)


@dataclass(frozen=True)
class TableRelation:
    """A table as one query reads it: its description at the start, and the query's consistency."""

    table: Table
    description: TableDescription
    sequential_consistency: bool
    view: GroupView | None = None
    """The cut at which the statement reads all tables of a group of links."""

    @classmethod
    def of(cls, table: Table, sequential_consistency: bool) -> TableRelation:
        """Makes a relation of the table's present description."""
        return cls(table, table.description, sequential_consistency)

    def snapshot(self, *, sequential_consistency: bool = False) -> PartsSnapshot:
        """Takes a snapshot of the parts.

        Raises 517 (CANNOT_ASSIGN_ALTER) if the table was altered since and has new parts, which the old description
        cannot read.
        """
        is_sequential = sequential_consistency or self.sequential_consistency
        if self.view is not None and not is_sequential:
            found = self.view.snapshot(self.table)
        else:
            found = self.table.snapshot(sequential_consistency=is_sequential)
        if self.table.description is self.description:
            return found
        if any(part.metadata_version > self.description.metadata_version for part in found.parts):
            found.release()
            name = self.table.definition.full_name
            raise ConflictError("CANNOT_ASSIGN_ALTER", f"Table {name} was altered while the query began; run it again")
        return Snapshot(
            [part.adapt_to_schema(self.description.schema) for part in found.parts], lambda _: found.release()
        )


def _make_relation(
    table: Table, catalog: Databases[Table], sequential_consistency: bool
) -> TableRelation | ViewRelation:
    """Returns the table, or a view's query; a materialized view is its target if their columns are equal."""
    definition = table.definition
    view = definition.create.view
    if view is None:
        return TableRelation.of(table, sequential_consistency)
    columns = _list_columns(table)
    if not view.is_materialized:
        return ViewRelation(definition.database, definition.name, definition.create.as_select, columns)
    target = catalog.table(*definition.target)
    if (
        target.definition.create.view is None
        and not target.definition.engine.is_proxy
        and _list_columns(target) == columns
    ):
        return TableRelation.of(target, sequential_consistency)
    names = ", ".join(quote_identifier(name) for name, _ in columns)
    query = f"SELECT {names} FROM {'.'.join(map(quote_identifier, definition.target))}"
    return ViewRelation(definition.database, definition.name, query, columns)


def _list_columns(table: Table) -> tuple[tuple[str, DataType], ...]:
    return tuple((column.name, column.type) for column in table.description.schema.columns)


@dataclass(frozen=True)
class SessionRelations:
    """The tables of a session. Implements ``sql.relations.RelationCatalog``."""

    context: Context
    here: LocalQueries
    """The functions that read this server's own shards."""

    def relation(self, database: str | None, table: str) -> PartsRelation | ArrowRelation | ViewRelation | MergedTables:
        """Returns the table of this name. Raises 60 (UNKNOWN_TABLE), 81 (UNKNOWN_DATABASE)."""
        if database is None and table in self.context.session.external_tables:
            return self.context.session.external_tables[table]
        if database is None and table in self.context.session.temporary_tables:
            database, table = TEMPORARY_DATABASE, self.context.session.temporary_tables[table]
        database = self.context.database(database)
        tables = SYSTEM_DATABASES.get(database)
        if tables is not None:
            if table not in tables:
                raise make_unknown_table_error(database, table, tables)
            if (database, table) == ("system", "zookeeper"):
                return ZooKeeperRelation(self.context.server)
            return SystemRelation(tables[table], self.context)
        found = self.context.server.catalog.table(database, table)
        if found.definition.engine_name == "Merge":
            return open_merge_table(found.definition, self.context)
        if found.definition.engine.is_proxy:
            return open_distributed_table(found.definition, self.context, self.here)
        sequential = self.context.settings.select_sequential_consistency
        relation = _make_relation(found, self.context.server.catalog, sequential)
        if isinstance(relation, TableRelation):  # the table itself, or that of a materialized view
            self._require_fresh(relation.table)
            if relation.table.link_group:
                return replace(relation, view=self.context.take_group_view(relation.table.link_group))
        return relation

    def _require_fresh(self, table: Table) -> None:
        if not table.definition.is_replicated:
            return
        server, settings = self.context.server, self.context.settings
        if server.link_start.is_refusing:
            server.link_start.require_readable(table.definition.database, table.definition.name)
        demand = LinkFreshness.of(settings)
        if not demand.is_demanded:
            return
        with self.context.status.waiting():
            server.require_link_freshness(table.definition.database, table.definition.name, demand)

    def find_file(self, path: str, format: str = "", structure: str = "") -> StreamedRelation:
        """Returns the table of the function ``file``."""
        return resolve_files(path, format, structure, self.context)

    def find_function_tables(self, function: RemoteFunction | MergeFunction) -> StreamedRelation | MergedTables:
        """Returns the table of ``remote``, ``cluster`` or ``merge``."""
        if isinstance(function, MergeFunction):
            return open_merge_function(function, self.context)
        return open_function_table(function, self.context, self.here)

    @property
    def positions(self) -> TablePositions:
        """Returns the answers to functions that ask for positions of the session's tables."""
        return _SessionPositions(self.context)


@dataclass(frozen=True)
class _SessionPositions:
    """The positions of a session's tables. Implements ``sql.functions.registry.TablePositions``."""

    context: Context

    def current_position(self, name: str) -> str:
        return self.context.server.current_position(*self._parse(name))

    def in_sync_clusters(self, name: str, position: str) -> Sequence[str]:
        return self.context.server.in_sync_clusters(*self._parse(name), position)

    def last_cut(self, name: str) -> str:
        return self.context.take_group_view(self._find_group(name)).cut

    def _find_group(self, name: str) -> str:
        """Returns the group of a table, or the group of this name."""
        try:
            table = self.context.server.catalog.table(*self._parse(name))
        except UserError:
            return name
        if not table.link_group:
            raise UserError(
                "BAD_ARGUMENTS",
                f"Table {table.definition.full_name} is in no transactional group of links on this server",
            )
        return table.link_group

    def _parse(self, name: str) -> tuple[str, str]:
        stream = TokenStream(name)
        table = parse_table_name(stream)
        if not stream.is_at_end():
            stream.fail("end of the table's name")
        return self.context.database(table.database), table.table


@dataclass(frozen=True)
class BlockRelations(SessionRelations):
    """The tables of a session, with one table replaced by a block."""

    table: Table
    block: BlockRelation

    def relation(self, database: str | None, table: str) -> PartsRelation | ArrowRelation | ViewRelation | MergedTables:
        """Returns the block for the replaced table, else the session's table."""
        if (database, table) == (self.table.definition.database, self.table.definition.name):
            return self.block
        return super().relation(database, table)


@dataclass(frozen=True)
class CatalogRelations:
    """The catalog's tables alone. Implements ``sql.relations.RelationCatalog``."""

    catalog: Databases[Table]
    default_database: str

    def relation(self, database: str | None, table: str) -> PartsRelation | ViewRelation:
        """Returns the table of this name."""
        found = self.catalog.table(database or self.default_database, table)
        if found.definition.engine.is_proxy:
            raise UserError("NOT_IMPLEMENTED", f"Table {found.definition.full_name} has no rows of its own")
        return _make_relation(found, self.catalog, False)

    def find_file(self, path: str, format: str = "", structure: str = "") -> StreamedRelation:
        """Raises 48 (NOT_IMPLEMENTED)."""
        raise UserError("NOT_IMPLEMENTED", f"The file {path!r} is not read here")

    def find_function_tables(self, function: RemoteFunction | MergeFunction) -> StreamedRelation:
        """Raises 48 (NOT_IMPLEMENTED)."""
        raise UserError("NOT_IMPLEMENTED", f"{type(function).__name__} is not read here")

    @property
    def positions(self) -> TablePositions:
        """None: every question is refused (48)."""
        return UNKNOWN_POSITIONS
