"""What ALTER TABLE is asked to do, as plain data: one class a command."""

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
    old: str
    new: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ModifyColumn:
    """MODIFY COLUMN: what ``column`` leaves empty stays. ``remove`` names a property (``DEFAULT``, ``CODEC`` …) that
    goes."""

    column: ColumnClause
    place: ColumnPlace | None = None
    if_exists: bool = False
    remove: str = ""


@dataclass(frozen=True, slots=True)
class CommentColumn:
    name: str
    comment: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddIndex:
    """``place``: as of columns, among the indexes."""

    index: IndexClause
    place: ColumnPlace | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropIndex:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddConstraint:
    constraint: ConstraintClause
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropConstraint:
    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ModifyComment:
    """Of the table."""

    comment: str


@dataclass(frozen=True, slots=True)
class ModifySettings:
    settings: Mapping[str, SettingLiteral]


@dataclass(frozen=True, slots=True)
class ResetSettings:
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModifyTtl:
    """MODIFY TTL; ``""``: REMOVE TTL."""

    ttl: str


@dataclass(frozen=True, slots=True)
class ModifyOrderBy:
    expression: str


@dataclass(frozen=True, slots=True)
class ModifySampleBy:
    """MODIFY SAMPLE BY; ``""``: REMOVE SAMPLE BY."""

    expression: str


@dataclass(frozen=True, slots=True)
class PartitionRef:
    """Which partition: its value as SQL text, its id, all of them, or one part by its name. One of the four."""

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
    """From ``detached/``, or of the rows of ``source``; ``replace``: in place of what is there."""

    partition: PartitionRef
    source: TableRef | None = None
    replace: bool = False


@dataclass(frozen=True, slots=True)
class FetchPartition:
    """Into ``detached/``, from replicas of the table at a path in ZooKeeper."""

    partition: PartitionRef
    path: str


@dataclass(frozen=True, slots=True)
class MovePartition:
    partition: PartitionRef
    target: TableRef


@dataclass(frozen=True, slots=True)
class ForgetPartition:
    """What ZooKeeper knows of an empty one."""

    partition: PartitionRef


@dataclass(frozen=True, slots=True)
class Freeze:
    """``partition`` is ``None`` for all of them, ``name`` for the next number."""

    partition: PartitionRef | None
    name: str | None


@dataclass(frozen=True, slots=True)
class Unfreeze:
    partition: PartitionRef | None
    name: str


@dataclass(frozen=True, slots=True)
class UpdateRows:
    """UPDATE: (column, expression) of each assignment, as written. Of the column ``_row_exists`` it is what a
    lightweight DELETE does (``parts.table.row_exists_column``). ``partition``, here and below: those rows alone."""

    assignments: tuple[tuple[str, str], ...]
    condition: str
    partition: PartitionRef | None = None


@dataclass(frozen=True, slots=True)
class DeleteRows:
    condition: str
    partition: PartitionRef | None = None


@dataclass(frozen=True, slots=True)
class MaterializeColumn:
    name: str
    partition: PartitionRef | None = None


@dataclass(frozen=True, slots=True)
class ClearColumnData:
    """CLEAR COLUMN in the parts; of a whole table it is a change of the definition (:class:`DropColumn`)."""

    name: str
    partition: PartitionRef | None = None
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ApplyDeletedMask:
    """Rows that a lightweight DELETE took leave the parts."""

    partition: PartitionRef | None = None


@dataclass(frozen=True, slots=True)
class MaterializeIndex:
    """A skip index is made of parts that lack it. One that is not there is passed over, here and below."""

    name: str
    partition: PartitionRef | None = None


@dataclass(frozen=True, slots=True)
class ClearIndex:
    """Parts lose a skip index, which the table keeps."""

    name: str
    partition: PartitionRef | None = None


@dataclass(frozen=True, slots=True)
class MaterializeTtl:
    """What has expired at ``at`` (seconds since 1970) goes, and the parts know their times; 0: the time is not said."""

    partition: PartitionRef | None = None
    at: int = 0


ColumnChange = AddColumn | DropColumn | RenameColumn | ModifyColumn | CommentColumn
IndexChange = AddIndex | DropIndex
ConstraintChange = AddConstraint | DropConstraint
KeyChange = ModifyOrderBy | ModifySampleBy


@dataclass(frozen=True, slots=True)
class ModifyQuery:
    """Of a materialized view."""

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
