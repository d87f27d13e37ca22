"""Table definitions: reads and compiles them, formats them for disk, and assigns data directories."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine.catalog.definition_files import DefinitionDirectory, format_definition, parse_definition
from engine.server.config import Config
from engine.server.durable_texts import Texts
from engine.tables.table_definition import TableDefinition
from parts.common.errors import PandoError, UserError
from parts.merge.modes.graphite import Rollups
from sql.definitions.engines.table_engine import ServerDefaults
from sql.definitions.table_description import build_description, write_out_column_types
from sql.grammar.clause_types import TableRef
from sql.grammar.statements.statement import CreateTable
from sql.settings.merge_tree_settings import MergeTreeSettings, build_merge_tree_settings


class KeptDefinitions:
    """The definitions of a server's tables and the owners of data directories.

    May be called from any thread.
    """

    def __init__(self, places: DefinitionDirectory, settings: MergeTreeSettings, rollups: Rollups) -> None:
        self._places = places
        self.default_settings, self._rollups = settings, rollups
        self._owners: dict[Path, str] = {}
        """By data directory, the full name of the table that uses it: one that is loaded or being loaded."""
        self._owning = threading.Lock()

    @classmethod
    def of(cls, config: Config) -> KeptDefinitions:
        """Makes the definitions of the server with this configuration."""
        places = DefinitionDirectory(config.path.absolute(), config.temporary_path)
        return cls(places, build_merge_tree_settings(config.merge_tree, MergeTreeSettings()), config.rollups)

    def compile(self, database: str, create: CreateTable) -> TableDefinition:
        """Compiles a CREATE statement into a table definition."""
        name = create.table.table
        create = replace(create, table=TableRef(database, name), if_not_exists=False, attach=False)
        description = build_description(create, ServerDefaults(self.default_settings, self._rollups))
        create = write_out_column_types(create, description.schema)
        return TableDefinition(database, name, create, description, self._places.get_data_path(database, name, create))

    def names_on_disk(self) -> list[tuple[str, str]]:
        """Returns (database, table) of every definition file."""
        databases = self._places.list_databases()
        return [(database, name) for database in databases for name in self._places.list_tables(database)]

    def read(self, database: str, name: str) -> TableDefinition:
        """Reads and compiles a definition from disk.

        Raises ``OSError``, and ``UserError`` 62 and others for a damaged definition.
        """
        file = self._places.get_definition_file(database, name)
        try:
            try:
                text = file.read_text(encoding="utf-8")
            except UnicodeDecodeError as error:
                raise UserError("SYNTAX_ERROR", f"It is no text ({error}): put a good copy in its place") from error
            return self.compile(database, replace(parse_definition(text), table=TableRef(database, name)))
        except PandoError as error:
            error.message = f"{error.message} (in the table definition {file})"
            raise

    def make_texts(self, *definitions: TableDefinition, is_scratch: bool | None = None) -> Texts:
        """Returns the texts of the definition files by path.

        ``is_scratch``, if given, replaces the mark in each of them.
        """
        return {
            self._places.get_definition_file(each.database, each.name): format_definition(
                each.create if is_scratch is None else replace(each.create, is_scratch=is_scratch)
            )
            for each in definitions
        }

    # -- directories of data ------------------------------------------------------------------------------------

    def claim(self, definition: TableDefinition) -> None:
        """Reserves the table's data directory before the table uses it.

        Raises ``UserError`` 84 (DIRECTORY_ALREADY_EXISTS) if another table uses the directory.
        """
        with self._owning:
            owner = self._owners.setdefault(definition.data_path, definition.full_name)
        if owner != definition.full_name:
            raise UserError(
                "DIRECTORY_ALREADY_EXISTS",
                f"The directory {definition.data_path} of table {definition.full_name} is that of {owner} too; its "
                "definition must name another one",
            )

    def rename(self, definition: TableDefinition) -> None:
        """Records the new name of the table that uses the directory."""
        self._owners[definition.data_path] = definition.full_name

    def release(self, definition: TableDefinition) -> None:
        """Frees the table's data directory once the table no longer uses it."""
        with self._owning:
            if self._owners.get(definition.data_path) == definition.full_name:
                del self._owners[definition.data_path]

    def with_own_directory(
        self, create: CreateTable, name: tuple[str, str], is_loaded: Callable[[tuple[str, str]], bool]
    ) -> CreateTable:
        """Returns the definition under ``name`` with a data directory that no other table uses.

        Tables that are not loaded but have a definition on disk count too.
        """

        def is_taken(path: Path) -> bool:
            if path in self._owners:
                return True
            return path.exists() and any(
                self._may_have_directory(path, other) for other in self._on_disk_only(is_loaded)
            )

        return self._places.with_free_data_path(is_taken, replace(create, table=TableRef(*name)))

    def _on_disk_only(self, is_loaded: Callable[[tuple[str, str]], bool]) -> list[tuple[str, str]]:
        return [name for name in self.names_on_disk() if not is_loaded(name)]

    def _may_have_directory(self, path: Path, name: tuple[str, str]) -> bool:
        try:
            return self.read(*name).data_path == path
        except (PandoError, OSError):
            return True  # its data directory is unknown
