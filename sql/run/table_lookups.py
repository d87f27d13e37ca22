"""The tables of one statement, each looked up once; and, for a plan that is kept, whether they are the same again."""

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
    ViewRelation,
    is_parts_relation,
)

TableName = tuple[str | None, str]
"""A table as a query calls it: without database it may be one of the session."""


@dataclass
class TableLookups:
    """A :class:`RelationCatalog` that asks another one for each name once."""

    catalog: RelationCatalog
    found: dict[TableName, Any] = field(default_factory=dict)
    has_functions: bool = False
    """Whether table functions were looked up, which may mean anything the next time."""

    def relation(self, database: str | None, table: str) -> PartsRelation | ArrowRelation | ViewRelation | Any:
        name = database, table
        if name not in self.found:
            self.found[name] = self.catalog.relation(database, table)
        return self.found[name]

    def files(self, path: str, format: str = "", structure: str = "") -> StreamedRelation:
        self.has_functions = True
        return self.catalog.files(path, format, structure)

    def other_tables(self, function: Any) -> Any:
        self.has_functions = True
        return self.catalog.other_tables(function)

    def definitions(self) -> Mapping[TableName, object] | None:
        """What a plan knows of each table. ``None`` where one of them is more than its definition."""
        definitions = {name: find_cacheable_definition(relation) for name, relation in self.found.items()}
        return None if self.has_functions or None in definitions.values() else definitions


def find_cacheable_definition(relation: object) -> object:
    """Equal as long as plans over the relation stay as they are; ``None``: it is not known of such ones."""
    if is_parts_relation(relation):
        return _Same(relation.description)
    if isinstance(relation, BlockRelation):
        return _Same(relation.schema)
    return relation if isinstance(relation, ViewRelation) else None


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """A definition that is compared by identity: an equal one may have a history of its own."""

    definition: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.definition is self.definition

    def __hash__(self) -> int:
        return id(self.definition)
