"""The definitions of a server's tables: read from disk and compiled, and the texts that are kept of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from engine.catalog.definition_files import DefinitionDirectory, format_definition, parse_definition
from engine.server.durable_texts import Texts
from engine.tables.table_definition import TableDefinition
from parts.common.errors import PandoError, UserError
from parts.merge.modes.graphite import Rollups
from sql.definitions.engines.table_engine import ServerDefaults
from sql.definitions.table_description import build_description, write_out_column_types
from sql.grammar.clause_types import (
    TableRef,
)
from sql.grammar.statements.statement import (
    CreateTable,
)
from sql.settings.merge_tree_settings import MergeTreeSettings


class KeptDefinitions:
    """``places``: where they and the data lie. From any thread."""

    def __init__(self, places: DefinitionDirectory, settings: MergeTreeSettings, rollups: Rollups) -> None:
        self._places = places
        self._settings, self._rollups = settings, rollups
        self._owners: dict[Path, str] = {}
        """Which table has a directory: the full name of one that is loaded, or is being loaded."""
        self._owning = threading.Lock()

    def make(self, database: str, create: CreateTable) -> TableDefinition:
        """Compiles what is needed of a CREATE statement to work with its table."""
        name = create.table.table
        create = replace(create, table=TableRef(database, name), if_not_exists=False, attach=False)
        description = build_description(create, ServerDefaults(self._settings, self._rollups))
        create = write_out_column_types(create, description.schema)
        return TableDefinition(database, name, create, description, self._places.data(database, name, create))

    def read(self, database: str, name: str) -> TableDefinition:
        """From disk. Raises ``OSError``, and ``UserError`` 62 and others for a definition that is damaged."""
        file = self._places.definition(database, name)
        try:
            try:
                text = file.read_text(encoding="utf-8")
            except UnicodeDecodeError as error:
                raise UserError("SYNTAX_ERROR", f"It is no text ({error}): put a good copy in its place") from error
            return self.make(database, replace(parse_definition(text), table=TableRef(database, name)))
        except PandoError as error:
            error.message = f"{error.message} (in the table definition {file})"
            raise

    def texts(self, *definitions: TableDefinition, is_scratch: bool | None = None) -> Texts:
        """What is kept of them, by file; ``is_scratch``: to be set in all of them."""
        return {
            self._places.definition(each.database, each.name): format_definition(
                each.create if is_scratch is None else replace(each.create, is_scratch=is_scratch)
            )
            for each in definitions
        }

    # -- directories of data ------------------------------------------------------------------------------------

    def claim(self, definition: TableDefinition) -> None:
        """Before its table uses the directory. Raises ``UserError`` 84 (DIRECTORY_ALREADY_EXISTS) when it is another
        table's."""
        with self._owning:
            owner = self._owners.setdefault(definition.data_path, definition.full_name)
        if owner != definition.full_name:
            raise UserError(
                "DIRECTORY_ALREADY_EXISTS",
                f"The directory {definition.data_path} of table {definition.full_name} is that of {owner} too; its "
                "definition must name another one",
            )

    def rename(self, definition: TableDefinition) -> None:
        """The owner of the directory has another name."""
        self._owners[definition.data_path] = definition.full_name

    def release(self, definition: TableDefinition) -> None:
        """Its table does not use the directory any more."""
        with self._owning:
            if self._owners.get(definition.data_path) == definition.full_name:
                del self._owners[definition.data_path]

    def apart_from_others(
        self, create: CreateTable, name: tuple[str, str], is_loaded: Callable[[tuple[str, str]], bool]
    ) -> CreateTable:
        """The definition under the name, with a directory that no other table has: neither one that is loaded nor one
        whose definition is on disk only."""

        def is_taken(path: Path) -> bool:
            if path in self._owners:
                return True
            return path.exists() and any(self._may_be_at(path, other) for other in self._on_disk_only(is_loaded))

        return self._places.with_free_data_path(is_taken, replace(create, table=TableRef(*name)))

    def _on_disk_only(self, is_loaded: Callable[[tuple[str, str]], bool]) -> list[tuple[str, str]]:
        databases = self._places.databases()
        found = [(database, name) for database in databases for name in self._places.tables(database)]
        return [name for name in found if not is_loaded(name)]

    def _may_be_at(self, path: Path, name: tuple[str, str]) -> bool:
        try:
            return self.read(*name).data_path == path
        except (PandoError, OSError):
            return True  # nobody knows where its data are
