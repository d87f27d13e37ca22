"""Carries ALTERs of a link's source out at its target (``replicate_ddl = 1``).

Of tables that are written at both ends (``two_way = 1``), only the ALTERs of the cluster that gives the commands are
carried (``commands_from``), by links from it. They come before the blocks of their batch. A table that was an exact
copy of the source before the ALTER becomes its exact copy again, with the same history, so that files go on travelling.
Any other table gets what it lacks (``definition_difference``).

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
from coordination.links.bootstrap_plan import HeldTable
from coordination.links.link_definition import LinkDefinition
from coordination.links.link_settings import LinkSettings
from coordination.links.stream.change import Definition
from engine.tables.capabilities.table_links import IncomingBatch, UncoveredSchema
from engine.tables.replicated.decide.command_source import read_source_uuid
from engine.tables.replicated.life.definition_changes import DefinitionChanges
from engine.tables.replicated.life.shared_definition import (
    AlteredColumns,
    make_shared_definition,
    parse_altered_columns,
)
from engine.tables.replicated.links.batch_schema import explain_uncovered
from engine.tables.replicated.links.definition_difference import FormerDefinition, list_definition_changes
from engine.tables.replicated.replica_state import ReplicaState
from engine.tables.statement_options import AlterOptions
from engine.tables.table_definition import TableDefinition
from parts.common.errors import UserError
from parts.common.query_status import QueryStatus
from sql.definitions.alter.definition_changes import apply_changes
from sql.grammar.statement_parser import parse_statement
from sql.grammar.statements.statement import CreateTable
from sql.settings.merge_tree_settings import COMMANDS_FROM

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
        if not self._is_followed(batch):
            return
        followed = self._read(batch)
        for definition in _own_definitions(batch):
            altered = parse_altered_columns(definition.columns)
            if altered is None:
                continue
            version = altered.history.version
            if followed.is_applied and followed.version >= version:
                continue  # the batch comes again
            is_next = followed.version == version - 1
            rows = sum(change.rows for change in batch.changes)
            self._carry_out(batch.link, followed if is_next else None, altered, rows, status)
            followed = FollowedDefinition(version, definition.columns, "", is_applied=True)
        self._write(batch.link, followed)
        if any(change.blocks for change in batch.changes):
            self._cover(batch, status)

    def _is_followed(self, batch: IncomingBatch) -> bool:
        """Tells whether ALTERs of the source are carried out here.

        Where both ends of a link may ALTER, those of the cluster that gives commands are. Raises ``UncoveredSchema`` if
        there is none.
        """
        settings = LinkSettings.parse(batch.link.settings)
        if not settings.replicate_ddl or not settings.two_way:
            return settings.replicate_ddl
        with self._state.hold_write_access() as (keeper, _):
            gate = self._state.gate.gate or self._state.gate.load(keeper)
            cluster = read_source_uuid(keeper, gate) if gate is not None else ""
        if not cluster and any(True for _ in _own_definitions(batch)):
            raise UncoveredSchema(
                f"Link {batch.link.name} has two_way = 1, so both ends may ALTER the table, and replicate_ddl = 1: say "
                f"with ALTER TABLE … MODIFY SETTING {COMMANDS_FROM} = '<cluster>' at both whose ALTERs are carried out",
                sum(change.rows for change in batch.changes),
            )
        return cluster == batch.source.origin.cluster

    def _cover(self, batch: IncomingBatch, status: QueryStatus) -> None:
        """Adds columns early whose ALTER comes behind this batch: its rows are read by the source's definition of now.

        They have their defaults there, so nothing else is shown. The ALTER does nothing when it comes.
        """
        source = batch.source
        altered = parse_altered_columns(source.columns)
        if altered is not None and explain_uncovered(self._state, source, batch.link.settings):
            self._carry_out(batch.link, None, altered, sum(change.rows for change in batch.changes), status)

    def follow_copied(self, link: LinkDefinition, held: HeldTable, status: QueryStatus) -> None:
        """Carries out here what a source that is copied was altered by, before its rows come.

        The ALTERs before the copy's place are not sent any more. Raises as :meth:`follow`.
        """
        altered = parse_altered_columns(held.columns) if link.settings.get("replicate_ddl", False) else None
        if altered is None:
            return
        version, former = altered.history.version, self._read_kept(link)
        if former is None or former.version != version or not former.is_applied:
            self._carry_out(link, former, altered, sum(part.rows for part in held.parts), status)
            self._write(link, FollowedDefinition(version, held.columns, "", is_applied=True))

    def _carry_out(
        self,
        link: LinkDefinition,
        followed: FollowedDefinition | None,
        altered: AlteredColumns,
        rows: int,
        status: QueryStatus,
    ) -> None:
        """Alters the table. ``followed``: the source's definition before, as far as it is known."""
        former = followed.clauses() if followed is not None else None

        def is_copy(now: TableDefinition) -> bool:
            return followed is not None and make_shared_definition(now.description).columns == followed.columns

        def change(now: TableDefinition) -> CreateTable:
            if is_copy(now):
                return altered.over(now.create)
            return apply_changes(now.create, now.description, list_definition_changes(now.create, former, altered))

        own = self._state.definition
        if not is_copy(own) and not list_definition_changes(own.create, former, altered):
            return
        try:
            options = AlterOptions(timeout_seconds=_TIMEOUT_SECONDS, status=status)
            self._definitions().alter(change, options)
        except UserError as error:
            raise UncoveredSchema(
                f"The ALTER that made version {altered.history.version} of {link.source_database}.{link.source_table} "
                f"cannot be carried out on {own.full_name}: {error.message}. ALTER the target by hand and set "
                f"replicate_ddl = 0 for link {link.name} until it has passed",
                rows,
            ) from error

    # -- what was followed last -------------------------------------------------------------------------------------

    def _read(self, batch: IncomingBatch) -> FollowedDefinition:
        """Returns the definition that the link followed last, or that of the source now."""
        source = batch.source
        kept = self._read_kept(batch.link)
        return kept or FollowedDefinition(source.definition_version, source.columns, source.create_query)

    def _read_kept(self, link: LinkDefinition) -> FollowedDefinition | None:
        with self._state.hold_write_access() as (keeper, _):
            found = self._find(keeper, link)
        kept: Any = dict(found[0].extra).get(_KEY) if found is not None else None
        return FollowedDefinition(**kept) if isinstance(kept, dict) else None

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
