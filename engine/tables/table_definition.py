"""A table as defined: its names, its CREATE statement, and where its data lies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from parts.table.table_description import TableDescription
from sql.definitions.engines.registry import find_engine
from sql.definitions.engines.table_engine import TableEngine
from sql.grammar.queries.query_parser import parse_query
from sql.grammar.queries.table_references import find_first_table
from sql.grammar.statements.statement import CreateTable
from sql.settings.merge_tree_settings import MergeTreeSettings


@dataclass(frozen=True)
class TableDefinition:
    """``create`` is complete (columns, modern clauses, no IF NOT EXISTS); ``description`` is compiled from it."""

    database: str
    name: str
    create: CreateTable
    description: TableDescription
    data_path: Path

    @property
    def full_name(self) -> str:
        """``database.table``, for messages."""
        return f"{self.database}.{self.name}"

    @property
    def settings(self) -> MergeTreeSettings:
        """All settings of the table; ``parts`` sees its own of them in the description."""
        settings = self.description.settings
        assert isinstance(settings, MergeTreeSettings), "a table is described with all its settings"
        return settings

    @cached_property
    def engine(self) -> TableEngine:
        """The table engine."""
        return find_engine(self.create)

    @property
    def engine_name(self) -> str:
        """The engine's name; of a materialized view not that of its rows."""
        return self.engine.name

    @cached_property
    def view_source(self) -> tuple[str, str] | None:
        """The table whose blocks a materialized view reads."""
        view = self.create.view
        table = (
            find_first_table(parse_query(self.create.as_select)) if view is not None and view.is_materialized else None
        )
        return (table.database or self.database, table.table) if table is not None else None

    @property
    def target(self) -> tuple[str, str]:
        """Where a materialized view has its rows."""
        assert self.create.view is not None
        if (table := self.create.view.target) is not None:
            return table.database or self.database, table.table
        return self.database, self.inner_name

    @property
    def inner_name(self) -> str:
        """Of the table that a materialized view has for its rows alone, ``""`` where it has none."""
        view = self.create.view
        return "" if view is None or not view.is_materialized or view.target else f".inner_id.{view.uuid}"

    @property
    def is_replicated(self) -> bool:
        """Whether other servers hold replicas of the table."""
        return self.create.is_replicated
