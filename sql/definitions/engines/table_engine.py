"""A table engine as one object that says all Pando asks of it.

A new engine is a module of this folder with its object, and a line in ``registry``. If no other engine stores rows as
it does, it needs a class of table too (``engine.table_engines``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from parts.common.errors import UserError
from parts.table.table_description import TableDescription, TableSchema
from sql.grammar.statements.alter_commands import AddColumn, CommentColumn, DropColumn, ModifyColumn, ModifyComment
from sql.grammar.statements.statement import CreateTable
from sql.settings.merge_tree_settings import MergeTreeSettings

COLUMN_CHANGES = (AddColumn, DropColumn, ModifyColumn)
COMMENT_CHANGES = (CommentColumn, ModifyComment)


@dataclass(frozen=True, slots=True)
class ServerDefaults:
    """The parts of a definition that come from the server's configuration."""

    settings: MergeTreeSettings = field(default_factory=MergeTreeSettings)
    rollups: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """The sections ``graphite_rollup`` by name."""


@dataclass(frozen=True, slots=True)
class EngineFeatures:
    """The columns ``supports_…`` of ``system.table_engines``."""

    settings: bool = False
    skipping_indices: bool = False
    projections: bool = False
    sort_order: bool = False
    ttl: bool = False
    replication: bool = False
    deduplication: bool = False
    parallel_insert: bool = False

    def replicated(self) -> EngineFeatures:
        """Returns the same features with replication."""
        return replace(self, replication=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableEngine:
    """An engine that ``ENGINE =`` may name, or that a view has."""

    name: str
    kind: str
    """The class of its tables, a key of ``engine.table_engines``."""
    check: Callable[[CreateTable], None]
    """Raises 42 for wrong arguments, 36 for clauses that the engine does not have."""
    describe: Callable[[CreateTable, TableSchema, ServerDefaults], TableDescription]
    """Describes the parts of a table whose columns are known. Raises what is wrong with keys and settings."""
    alter_changes: tuple[type, ...] | None = None
    """What ALTER TABLE may change; ``None``: all that there is."""
    is_durable: bool = True
    """Whether rows outlive the server process."""
    keeps_rows: bool = True
    """Whether rows that are inserted can be read again."""
    is_proxy: bool = False
    """Whether its rows are those of other tables."""
    is_view: bool = False
    features: EngineFeatures = EngineFeatures()


def unsupported(engine: str, what: str) -> UserError:
    """The error 36 for a clause that an engine does not have."""
    return UserError("BAD_ARGUMENTS", f"Engine {engine} doesn't support {what}")
