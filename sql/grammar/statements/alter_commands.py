"""The commands of ALTER TABLE as plain data, one class a command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sql.grammar.clause_types import ColumnClause, ConstraintClause, IndexClause, SettingLiteral, TableRef


@dataclass(frozen=True, slots=True)
class ColumnPlace:
    """``AFTER column``, or FIRST where ``after`` is ``None``."""

    after: str | None


@dataclass(frozen=True, slots=True)
class AddColumn:
    """ADD COLUMN; without ``place`` the column becomes the last."""

    column: ColumnClause
    place: ColumnPlace | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropColumn:
    """DROP COLUMN, or CLEAR COLUMN, which leaves the column with its defaults."""

    name: str
    if_exists: bool = False
    clear: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """RENAME COLUMN."""

    old: str
    new: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ModifyColumn:
    """MODIFY COLUMN. Properties that ``column`` leaves empty stay as they are.

    ``remove`` names a property (``DEFAULT``, ``CODEC`` …) to be removed.
    """

    column: ColumnClause
    place: ColumnPlace | None = None
    if_exists: bool = False
    remove: str = ""


@dataclass(frozen=True, slots=True)
class CommentColumn:
    """COMMENT COLUMN."""

    name: str
    comment: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddIndex:
    """ADD INDEX; ``place`` is a place among the indexes."""

    index: IndexClause
    place: ColumnPlace | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropIndex:
    """DROP INDEX."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """ADD CONSTRAINT."""

    constraint: ConstraintClause
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropConstraint:
    """DROP CONSTRAINT."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ModifyComment:
    """MODIFY COMMENT: changes the table's comment."""

    comment: str


@dataclass(frozen=True, slots=True)
class ModifySettings:
    """MODIFY SETTING."""

    settings: Mapping[str, SettingLiteral]


@dataclass(frozen=True, slots=True)
class ResetSettings:
    """RESET SETTING."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModifyTtl:
    """MODIFY TTL, or REMOVE TTL where ``ttl`` is ``""``."""

    ttl: str


@dataclass(frozen=True, slots=True)
class ModifyOrderBy:
    """MODIFY ORDER BY."""

    expression: str


@dataclass(frozen=True, slots=True)
class ModifySampleBy:
    """MODIFY SAMPLE BY, or REMOVE SAMPLE BY where ``expression`` is ``""``."""

    expression: str


@dataclass(frozen=True, slots=True)
class PartitionRef:
    """A partition by its value as SQL text or by its id, all partitions, or one part by name.

    Exactly one of the four fields is set.
    """

    value: str | None = None
    id: str | None = None
    is_all: bool = False
    part: str | None = None


@dataclass(frozen=True, slots=True)
class DropPartition:
    """DROP or DETACH of a partition or a part."""

    partition: PartitionRef
    detach: bool = False


@dataclass(frozen=True, slots=True)
class DropDetached:
    """DROP DETACHED of a partition or a part."""

    partition: PartitionRef


@dataclass(frozen=True, slots=True)
class AttachPartition:
    """ATTACH PARTITION from ``detached/``, or from the table ``source``.

    ``replace`` makes it REPLACE PARTITION: the rows that are there go.
    """

    partition: PartitionRef
    source: TableRef | None = None
    replace: bool = False


@dataclass(frozen=True, slots=True)
class FetchPartition:
    """FETCH PARTITION into ``detached/``, from replicas of the table at a path in ZooKeeper."""

    partition: PartitionRef
    path: str


@dataclass(frozen=True, slots=True)
class MovePartition:
    """MOVE PARTITION … TO TABLE."""

    partition: PartitionRef
    target: TableRef


@dataclass(frozen=True, slots=True)
class ForgetPartition:
    """FORGET PARTITION: removes an empty partition's nodes in ZooKeeper."""

    partition: PartitionRef


@dataclass(frozen=True, slots=True)
class Freeze:
    """FREEZE. ``partition`` is ``None`` for all; without ``name`` the backup gets the next number."""

    partition: PartitionRef | None
    name: str | None


@dataclass(frozen=True, slots=True)
class Unfreeze:
    """UNFREEZE; ``partition`` is ``None`` for all."""

    partition: PartitionRef | None
    name: str


@dataclass(frozen=True, slots=True)
class UpdateRows:
    """UPDATE with (column, expression) of each assignment, as written.

    An assignment to ``_row_exists`` is a lightweight DELETE (``parts.table.row_exists_column``). ``partition``, here
    and below, limits the command to one partition.
    """

    assignments: tuple[tuple[str, str], ...]
    condition: str
    partition: PartitionRef | None = None


@dataclass(frozen=True, slots=True)
class DeleteRows:
    """DELETE WHERE."""

    condition: str
    partition: PartitionRef | None = None


@dataclass(frozen=True, slots=True)
class MaterializeColumn:
    """MATERIALIZE COLUMN."""

    name: str
    partition: PartitionRef | None = None


@dataclass(frozen=True, slots=True)
class ClearColumnData:
    """CLEAR COLUMN … IN PARTITION, a mutation.

    For a whole table CLEAR COLUMN is a change of the definition (:class:`DropColumn`).
    """

    name: str
    partition: PartitionRef | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ApplyDeletedMask:
    """APPLY DELETED MASK: removes rows from the parts that a lightweight DELETE hid."""

    partition: PartitionRef | None = None


@dataclass(frozen=True, slots=True)
class MaterializeIndex:
    """MATERIALIZE INDEX: builds a skip index in parts that lack it.

    An index that the table does not have is ignored, here and below.
    """

    name: str
    partition: PartitionRef | None = None


@dataclass(frozen=True, slots=True)
class ClearIndex:
    """CLEAR INDEX: removes a skip index from the parts; the table keeps it."""

    name: str
    partition: PartitionRef | None = None


@dataclass(frozen=True, slots=True)
class MaterializeTtl:
    """MATERIALIZE TTL: removes what has expired, and stores the expiry times in the parts.

    ``at`` is the time to compare with, in seconds since 1970; 0 leaves it open.
    """

    partition: PartitionRef | None = None
    at: int = 0


ColumnChange = AddColumn | DropColumn | RenameColumn | ModifyColumn | CommentColumn
IndexChange = AddIndex | DropIndex
ConstraintChange = AddConstraint | DropConstraint
KeyChange = ModifyOrderBy | ModifySampleBy


@dataclass(frozen=True, slots=True)
class ModifyQuery:
    """MODIFY QUERY of a materialized view."""

    query: str


DefinitionChange = (
    ColumnChange | IndexChange | ConstraintChange | KeyChange | ModifyComment | ModifySettings | ResetSettings
    | ModifyTtl | ModifyQuery
)  # fmt: skip
PartitionCommand = (
    DropPartition | DropDetached | AttachPartition | FetchPartition | MovePartition | ForgetPartition
    | Freeze | Unfreeze
)  # fmt: skip
IndexCommand = MaterializeIndex | ClearIndex
MutationCommand = (
    UpdateRows | DeleteRows | MaterializeColumn | ClearColumnData | ApplyDeletedMask | MaterializeTtl | IndexCommand
)
AlterCommand = DefinitionChange | PartitionCommand | MutationCommand
