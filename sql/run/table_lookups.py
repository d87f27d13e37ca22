"""Looks up each table of a statement once, and compares their definitions for cached plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sql.relations import (
    ArrowRelation,
    BlockRelation,
    PartsRelation,
    RelationCatalog,
    StreamedRelation,
    TablePositions,
    ViewRelation,
    is_parts_relation,
)

TableName = tuple[str | None, str]
"""A table as a query names it: without database it may be a table of the session."""


@dataclass
class TableLookups:
    """A :class:`RelationCatalog` that asks another one for each name once."""

    catalog: RelationCatalog
    found: dict[TableName, Any] = field(default_factory=dict)
    has_functions: bool = False
    """Table functions were looked up, which may mean something else the next time."""

    def relation(self, database: str | None, table: str) -> PartsRelation | ArrowRelation | ViewRelation | Any:
        """Returns the relation, as the other catalog returned it the first time."""
        name = database, table
        if name not in self.found:
            self.found[name] = self.catalog.relation(database, table)
        return self.found[name]

    def find_file(self, path: str, format: str = "", structure: str = "") -> StreamedRelation:
        """Returns the relation of the table function ``file``."""
        self.has_functions = True
        return self.catalog.find_file(path, format, structure)

    def find_function_tables(self, function: Any) -> Any:
        """Returns the tables that a table function reads."""
        self.has_functions = True
        return self.catalog.find_function_tables(function)

    @property
    def positions(self) -> TablePositions:
        """Returns the answers to functions that ask for positions of tables."""
        return self.catalog.positions

    def definitions(self) -> Mapping[TableName, object] | None:
        """Returns what a plan knows of each table; ``None`` if a plan over them cannot be cached."""
        definitions = {name: find_cacheable_definition(relation) for name, relation in self.found.items()}
        return None if self.has_functions or None in definitions.values() else definitions


def find_cacheable_definition(relation: object) -> object:
    """Returns an object that stays equal as long as plans over the relation are valid.

    ``None`` if that is not known for relations of this kind.
    """
    if is_parts_relation(relation):
        return _ComparedByIdentity(relation.description)
    if isinstance(relation, BlockRelation):
        return _ComparedByIdentity(relation.schema)
    return relation if isinstance(relation, ViewRelation) else None


@dataclass(frozen=True, slots=True, eq=False)
class _ComparedByIdentity:
    """A definition that is compared by identity: an equal one may have another history."""

    definition: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ComparedByIdentity) and other.definition is self.definition

    def __hash__(self) -> int:
        return id(self.definition)
