"""Carries ALTERs of a link's source out at its target (``replicate_ddl = 1``).

They come before the blocks of their batch. A table that was an exact copy of the source before the ALTER becomes its
exact copy again, with the same history, so that files go on travelling. Any other table gets what it lacks
(``definition_difference``).

The definition that was followed last is kept with the link, in its node: the next ALTER is compared with it. Its
content under the key ``followed``::

    {"version": 3, "columns": "<text>", "create": "<statement>", "is_applied": true}

Invariants:

- An ALTER is carried out before the batch that has it is committed, and again after a crash between the two; a
  repeat does nothing.
- ``is_applied`` says that the ALTER of this version was carried out here. Without it the definition is only what the
  source was when the link first saw it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from coordination.keeper.interface import BadVersion, Keeper, NoNode
from coordination.links.link_definition import LinkDefinition
from coordination.links.stream.change import Definition
from engine.tables.capabilities.table_links import IncomingBatch, UncoveredSchema
from engine.tables.replicated.life.definition_changes import DefinitionChanges
from engine.tables.replicated.life.shared_definition import (
    AlteredColumns,
    make_shared_definition,
    parse_altered_columns,
)
from engine.tables.replicated.links.definition_difference import FormerDefinition, list_definition_changes
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.statement_options import AlterOptions
from engine.tables.table_definition import TableDefinition
from parts.common.errors import UserError
from parts.common.query_status import QueryStatus
from sql.definitions.alter.definition_changes import apply_changes
from sql.grammar.statement_parser import parse_statement
from sql.grammar.statements.statement import CreateTable

_KEY = "followed"
_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class FollowedDefinition:
    """The definition of the source that the target follows."""

    version: int
    columns: str
    create: str
    is_applied: bool = False

    def clauses(self) -> FormerDefinition | None:
        """Returns its columns and indexes, ``None`` if they cannot be read."""
        altered = parse_altered_columns(self.columns)
        if altered is not None:
            return FormerDefinition(altered.columns, altered.indexes)
        try:
            create = parse_statement(self.create).statement
        except UserError:
            return None
        return FormerDefinition(create.columns, create.indexes) if isinstance(create, CreateTable) else None


class CarriedDefinitions:
    """The ALTERs that links bring to one table."""

    def __init__(self, state: ReplicaState, definitions: Callable[[], DefinitionChanges]) -> None:
        self._state = state
        self._definitions = definitions

    def follow(self, batch: IncomingBatch, status: QueryStatus) -> None:
        """Carries the batch's ALTERs out here, in their order.

        Raises ``UncoveredSchema`` for one that this table cannot follow, and what an ALTER raises.
        """
        if not batch.link.settings.get("replicate_ddl", False):
            return
        followed = self._read(batch)
        for definition in _own_definitions(batch):
            altered = parse_altered_columns(definition.columns)
            if altered is None:
                continue
            version = altered.history.version
            if followed.is_applied and followed.version >= version:
                continue  # the batch comes again
            self._carry_out(batch, followed, definition, altered, status)
            followed = FollowedDefinition(version, definition.columns, "", is_applied=True)
        self._write(batch.link, followed)

    def _carry_out(
        self,
        batch: IncomingBatch,
        followed: FollowedDefinition,
        definition: Definition,
        altered: AlteredColumns,
        status: QueryStatus,
    ) -> None:
        is_next = followed.version == altered.history.version - 1
        former = followed.clauses() if is_next else None

        def change(now: TableDefinition) -> CreateTable:
            if is_next and make_shared_definition(now.description).columns == followed.columns:
                return altered.over(now.create)
            return apply_changes(now.create, now.description, list_definition_changes(now.create, former, altered))

        own = self._state.definition
        is_copy = is_next and make_shared_definition(own.description).columns == followed.columns
        if not is_copy and not list_definition_changes(own.create, former, altered):
            return
        try:
            options = AlterOptions(timeout_seconds=_TIMEOUT_SECONDS, status=status)
            self._definitions().alter(change, options)
        except UserError as error:
            raise UncoveredSchema(
                f"The ALTER that made version {definition.version} of {batch.source.database}.{batch.source.table} "
                f"cannot be carried out on {own.full_name}: {error.message}. ALTER the target by hand and set "
                f"replicate_ddl = 0 for link {batch.link.name} until it has passed",
                sum(change.rows for change in batch.changes),
            ) from error

    # -- what was followed last -------------------------------------------------------------------------------------

    def _read(self, batch: IncomingBatch) -> FollowedDefinition:
        """Returns the definition that the link followed last, or that of the source now."""
        with self._state.hold_write_access() as (keeper, _):
            found = self._find(keeper, batch.link)
        if found is not None:
            kept: Any = dict(found[0].extra).get(_KEY)
            if isinstance(kept, dict):
                return FollowedDefinition(**kept)
        source = batch.source
        return FollowedDefinition(source.definition_version, source.columns, source.create_query)

    def _find(self, keeper: Keeper, link: LinkDefinition) -> tuple[LinkDefinition, int] | None:
        (answer,) = keeper.get_many([self._state.paths.linked.incoming_link(link.name)])
        found = LinkDefinition.parse(answer[0]) if answer is not None else None
        return (found, answer[1].version) if answer is not None and found and found.uuid == link.uuid else None

    def _write(self, link: LinkDefinition, followed: FollowedDefinition) -> None:
        """Keeps the definition with the link. Another writer of the node goes first; the next batch keeps it then."""
        with self._state.hold_write_access() as (keeper, _):
            found = self._find(keeper, link)
            if found is None:
                return
            kept = {name: getattr(followed, name) for name in ("version", "columns", "create", "is_applied")}
            if dict(found[0].extra).get(_KEY) == kept:
                return
            changed = replace(found[0], extra=tuple({**dict(found[0].extra), _KEY: kept}.items()))
            try:
                keeper.set(self._state.paths.linked.incoming_link(link.name), changed.to_bytes(), found[1])
            except (BadVersion, NoNode):
                return


def _own_definitions(batch: IncomingBatch) -> Iterator[Definition]:
    """Yields the ALTERs that were made at the source itself."""
    for change in batch.changes:
        if change.position.origin == batch.source.origin:
            yield from change.definitions
