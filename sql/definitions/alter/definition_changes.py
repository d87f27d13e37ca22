"""Applies the commands of ALTER TABLE to a definition, one after another, or raises an error.

Parts are not touched. The definition's history (:mod:`parts.table.schema_history`) notes what a column was before, and
older parts are read by it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from parts.common.errors import UserError
from parts.table.row_exists_column import RESERVED_COLUMN_NAMES
from parts.table.schema_history import SchemaHistory
from parts.table.table_description import TableDescription
from parts.types import parse_type
from sql.definitions.alter.column_changes import find_null_replacement
from sql.definitions.alter.column_renames import find_column_references, rename_in_column, rename_in_expression
from sql.definitions.alter.engine_changes import check_engine_changes
from sql.definitions.alter.engine_column_changes import check_engine_column, check_engine_column_type
from sql.definitions.alter.key_changes import apply_key_change, check_changed_keys, check_key_column_type
from sql.definitions.engines.deprecated_syntax import is_deprecated
from sql.definitions.nested_columns import check_nested_rename, flatten_added_columns
from sql.grammar.clause_types import ColumnClause, SettingLiteral
from sql.grammar.statements.alter_commands import (
    AddColumn,
    AddConstraint,
    AddIndex,
    ColumnChange,
    ColumnPlace,
    CommentColumn,
    DefinitionChange,
    DropColumn,
    DropConstraint,
    DropIndex,
    ModifyColumn,
    ModifyComment,
    ModifyOrderBy,
    ModifySampleBy,
    ModifySettings,
    ModifyTtl,
    RenameColumn,
    ResetSettings,
)
from sql.grammar.statements.statement import CreateTable
from sql.grammar.tokens import not_implemented
from sql.settings.clickhouse_settings import load_clickhouse_settings
from sql.settings.merge_tree_settings import OWN_TABLE_SETTINGS

_FIXED_SETTINGS = frozenset(
    ("index_granularity", "index_granularity_bytes", "enable_mixed_granularity_parts", "enable_block_number_column",
     "last_writer_wins", "conflict_order")
)  # fmt: skip
"""Settings that all parts of a table, and of its replicas, must share."""
LOCAL_CHANGE_TYPES = (ModifyComment, ModifySettings, ResetSettings)
"""Changes that each replica of a table makes for itself."""


def apply_changes(
    create: CreateTable, description: TableDescription, changes: Sequence[DefinitionChange]
) -> CreateTable:
    """Returns ``create``, from which ``description`` was built, with the changes applied.

    Raises ``UserError`` 10, 15, 16, 36, 44, 48, 472, 524. Other contradictions are found when the result is compiled.
    """
    if not description.has_parts:
        check_engine_changes(create, changes)
    if is_deprecated(create) and not all(isinstance(change, ColumnChange | ModifyComment) for change in changes):
        raise UserError(
            "BAD_ARGUMENTS", "ALTER of settings, keys and indexes is not supported for tables in old syntax"
        )
    if all(isinstance(change, LOCAL_CHANGE_TYPES) for change in changes):
        draft = _DefinitionDraft(create, description)
    else:
        draft = _DefinitionDraft(replace(create, history=create.history.next_version()), description)
    changes = [*flatten_added_columns(changes, [column.name for column in create.columns])]
    _refuse_chains([change for change in changes if isinstance(change, RenameColumn)])
    for change in changes:
        draft.apply(change)
    check_changed_keys(description, draft.create)
    return draft.create


def _refuse_chains(renames: Sequence[RenameColumn]) -> None:
    given: set[str] = set()
    for rename in renames:
        if rename.old in given:
            raise not_implemented("A column that is renamed twice in one ALTER")
        given.add(rename.new)


@dataclass
class _DefinitionDraft:
    create: CreateTable
    description: TableDescription

    def apply(self, change: DefinitionChange) -> None:
        """Applies one command."""
        match change:
            case AddColumn():
                self._add(change)
            case DropColumn():
                self._drop(change)
            case RenameColumn():
                self._rename(change)
            case ModifyColumn():
                self._modify(change)
            case CommentColumn(name, comment, if_exists):
                if self._has_column(name, if_exists, "comment"):
                    self._replace(replace(self._column(name), comment=comment))
            case AddIndex():
                self._add_index(change)
            case DropIndex(name, if_exists):
                self._drop_index(name, if_exists)
            case AddConstraint():
                self._add_constraint(change)
            case DropConstraint(name, if_exists):
                self._drop_constraint(name, if_exists)
            case ModifyComment(comment):
                self.create = replace(self.create, comment=comment)
            case ModifyTtl(ttl):
                self._set_ttl(ttl)
            case ModifyOrderBy() | ModifySampleBy():
                self.create = apply_key_change(self.create, change)
            case ModifySettings(settings):
                if self.description.has_parts:  # tables without parts: checked when the result is compiled
                    _check_settings([name for name, value in settings.items() if self._is_other(name, value)])
                kept = {name: value for name, value in settings.items() if value is not None}
                self._set_settings({**self.create.settings, **kept}, [name for name in settings if name not in kept])
            case ResetSettings(names):
                _check_settings(names, is_reset=True)
                self._set_settings(self.create.settings, names)

    def _is_other(self, name: str, value: object) -> bool:
        return name not in self.create.settings or self.create.settings[name] != value

    # Columns

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self.create.columns]

    def _column(self, name: str) -> ColumnClause:
        return next(column for column in self.create.columns if column.name == name)

    def _has_column(self, name: str, if_exists: bool, purpose: str) -> bool:
        if name in self._names:
            return True
        if if_exists:
            return False
        known = ", ".join(self._names)
        raise UserError(
            "NOT_FOUND_COLUMN_IN_BLOCK",
            f"Wrong column name. Cannot find column `{name}` to {purpose}; the columns are: {known}",
        )

    def _add(self, change: AddColumn) -> None:
        name = change.column.name
        if name in self._names:
            if change.if_not_exists:
                return
            raise UserError(
                "DUPLICATE_COLUMN", f"Cannot add column `{name}`: column with this name already exists; drop it first"
            )
        if name in RESERVED_COLUMN_NAMES:
            raise UserError(
                "ILLEGAL_COLUMN",
                f"Cannot add column `{name}`: this column name is reserved for persistent virtual column",
            )
        if not change.column.type:
            raise UserError("BAD_ARGUMENTS", f"Data type have to be specified for column `{name}` to add")
        self._move_column([*self.create.columns, change.column], change.column, change.place)
        self._change_history(lambda history: history.add_column(name))

    def _drop(self, change: DropColumn) -> None:
        name = change.name
        nested = [column for column in self._names if column.startswith(f"{name}.")]
        if name not in self._names and nested and not change.clear:
            for column in nested:
                self._drop(replace(change, name=column))
            return
        if not self._has_column(name, change.if_exists, "clear" if change.clear else "drop"):
            return
        if change.clear:
            self._refuse_used(name, "CLEAR")
            if len(self._names) == 1:
                raise UserError("BAD_ARGUMENTS", "Cannot DROP or CLEAR all columns")
            self._change_history(lambda history: history.add_column(name))
            return
        for other in self.create.columns:
            if other.name != name and find_column_references(name, other.default_expression):
                raise UserError(
                    "ILLEGAL_COLUMN",
                    f"Cannot drop column `{name}`, because column `{other.name}` depends on it "
                    f"({other.default_kind} {other.default_expression}); change that first",
                )
        self._refuse_used(name, "DROP")
        rest = tuple(column for column in self.create.columns if column.name != name)
        self.create = replace(self.create, columns=rest)
        self._change_history(lambda history: history.drop_column(name))

    def _rename(self, change: RenameColumn) -> None:
        old, new = change.old, change.new
        is_structure = any(name.startswith(f"{old}.") for name in self._names)
        if not is_structure and not self._has_column(old, change.if_exists, "rename"):
            return
        check_nested_rename(change, self._names)
        if new in self._names:
            raise UserError("DUPLICATE_COLUMN", f"Cannot rename to `{new}`: column with this name already exists")
        if new in RESERVED_COLUMN_NAMES:
            raise UserError(
                "ILLEGAL_COLUMN",
                f"Cannot rename to `{new}`: this column name is reserved for persistent virtual column",
            )
        self._refuse_used(old, "RENAME")
        self.create = replace(
            self.create,
            columns=tuple(rename_in_column(column, old, new) for column in self.create.columns),
            indexes=tuple(
                replace(index, expression=rename_in_expression(index.expression, old, new))
                for index in self.create.indexes
            ),
            constraints=tuple(
                replace(constraint, expression=rename_in_expression(constraint.expression, old, new))
                for constraint in self.create.constraints
            ),
            ttl=rename_in_expression(self.create.ttl, old, new),
        )
        self._change_history(lambda history: history.rename_column(old, new))

    def _modify(self, change: ModifyColumn) -> None:
        name = change.column.name
        if not self._has_column(name, change.if_exists, "modify"):
            return
        old, given = self._column(name), change.column
        new = _without_property(old, change.remove) if change.remove else _overlay(old, given)
        is_new = name not in self.description.schema  # it is added by the same ALTER: no part has it
        if given.type and not is_new and not _is_same_type(given.type, old.type):
            table, mode = self.description, self.description.merge_mode
            if check_engine_column_type(mode, name, old.type, given.type) and mode.last_key_column == name:
                table = replace(table, sorting_key=table.primary_key)  # a wider version column sorts as before
            check_key_column_type(table, name, parse_type(given.type))
            instead = find_null_replacement(old, new)
            self._change_history(lambda history: history.change_type(name, parse_type(new.type).name, instead))
        if old.default_kind == "ALIAS" and new.default_kind != "ALIAS":
            self._change_history(
                lambda history: history.add_column(name)
            )  # parts lack it, or have outdated values of it
        self._replace(new)
        if change.place is not None:
            rest = [column for column in self.create.columns if column.name != name]
            self._move_column([*rest, new], new, change.place)

    def _replace(self, new: ColumnClause) -> None:
        columns = tuple(new if column.name == new.name else column for column in self.create.columns)
        self.create = replace(self.create, columns=columns)

    def _move_column(self, columns: Sequence[ColumnClause], column: ColumnClause, place: ColumnPlace | None) -> None:
        """Moves ``column``, the last of ``columns``, to its place."""
        rest = list(columns[:-1])
        position = len(rest)
        if place is not None:
            position = 0
            if place.after is not None:
                names = [other.name for other in rest]
                of_structure = [name for name in names if name.startswith(f"{place.after}.")]
                after = place.after if place.after in names or not of_structure else of_structure[-1]
                if after not in names:
                    raise UserError(
                        "NO_SUCH_COLUMN_IN_TABLE",
                        f"Wrong column name. Cannot find column {place.after} to insert after; the columns are: "
                        f"{', '.join(names)}",
                    )
                position = names.index(after) + 1
        self.create = replace(self.create, columns=(*rest[:position], column, *rest[position:]))

    def _refuse_used(self, name: str, verb: str) -> None:
        """Raises 524 for a column that the engine or a key reads."""
        check_engine_column(self.description.merge_mode, name, verb)
        self._refuse_key(name, verb)

    def _refuse_key(self, name: str, verb: str) -> None:
        """Raises 524 for a column that a key reads: parts are sorted and divided by it."""
        keys = self.description
        used = {
            "sorting key": keys.sorting_key.columns,
            "partition key": keys.partition_key.columns,
            "sampling key": keys.sampling_key.columns,
        }
        for what, columns in used.items():
            if name in columns:
                raise UserError(
                    "ALTER_OF_COLUMN_IS_FORBIDDEN",
                    f"Trying to ALTER {verb} column `{name}`, which is used by the {what} of the table; only a new "
                    "table can have another",
                )

    # Indexes

    def _add_index(self, change: AddIndex) -> None:
        names = [index.name for index in self.create.indexes]
        name = change.index.name
        if name in names:
            if change.if_not_exists:
                return
            raise UserError("ILLEGAL_COLUMN", f"Cannot add index {name}: index with this name already exists")
        position = len(names)
        if change.place is not None:
            position = 0
            if change.place.after is not None:
                position = self._index_position(change.place.after, "insert after") + 1
        indexes = self.create.indexes
        self.create = replace(self.create, indexes=(*indexes[:position], change.index, *indexes[position:]))

    def _drop_index(self, name: str, if_exists: bool) -> None:
        if if_exists and all(index.name != name for index in self.create.indexes):
            return
        position = self._index_position(name, "drop")
        indexes = self.create.indexes
        self.create = replace(self.create, indexes=(*indexes[:position], *indexes[position + 1 :]))

    def _index_position(self, name: str, purpose: str) -> int:
        names = [index.name for index in self.create.indexes]
        if name not in names:
            known = ", ".join(names) or "none"
            raise UserError(
                "BAD_ARGUMENTS", f"Wrong index name. Cannot find index `{name}` to {purpose}; the indexes are: {known}"
            )
        return names.index(name)

    def _add_constraint(self, change: AddConstraint) -> None:
        name = change.constraint.name
        if all(constraint.name != name for constraint in self.create.constraints):
            self.create = replace(self.create, constraints=(*self.create.constraints, change.constraint))
        elif not change.if_not_exists:
            raise UserError("ILLEGAL_COLUMN", f"Cannot add constraint {name}: constraint with this name already exists")

    def _drop_constraint(self, name: str, if_exists: bool) -> None:
        names = [constraint.name for constraint in self.create.constraints]
        if name not in names and not if_exists:
            known = ", ".join(names) or "none"
            raise UserError(
                "BAD_ARGUMENTS",
                f"Wrong constraint name. Cannot find constraint `{name}` to drop; the constraints are: {known}",
            )
        left = tuple(constraint for constraint in self.create.constraints if constraint.name != name)
        self.create = replace(self.create, constraints=left)

    def _change_history(self, change: Callable[[SchemaHistory], SchemaHistory]) -> None:
        self.create = replace(self.create, history=change(self.create.history))

    def _set_ttl(self, ttl: str) -> None:
        if not ttl and not self.create.ttl:
            raise UserError("BAD_ARGUMENTS", "Table doesn't have any table TTL expression, cannot remove")
        self.create = replace(self.create, ttl=ttl)

    def _set_settings(self, settings: Mapping[str, SettingLiteral], gone: Collection[str]) -> None:
        kept = {name: value for name, value in settings.items() if name not in gone}
        self.create = replace(self.create, settings=kept)


def _overlay(old: ColumnClause, given: ColumnClause) -> ColumnClause:
    """Returns the column with MODIFY COLUMN applied; properties that it omits stay."""
    return replace(
        old,
        type=given.type or old.type,
        default_kind=given.default_kind or old.default_kind,
        default_expression=given.default_expression or old.default_expression,
        codec=given.codec or old.codec,
        comment=given.comment or old.comment,
        ttl=given.ttl or old.ttl,
    )


def _without_property(old: ColumnClause, name: str) -> ColumnClause:
    kept = {"CODEC": "codec", "COMMENT": "comment", "TTL": "ttl"}.get(name)
    has = bool(getattr(old, kept)) if kept else old.default_kind == name
    if not has:
        raise UserError("BAD_ARGUMENTS", f"Column `{old.name}` doesn't have {name}, cannot remove it")
    if kept is None:
        return replace(old, default_kind="", default_expression="")
    return replace(old, **{kept: ""})  # type: ignore[arg-type]


def _is_same_type(one: str, other: str) -> bool:
    return parse_type(one) == parse_type(other)


def _check_settings(names: Collection[str], *, is_reset: bool = False) -> None:
    for name in names:
        if name in _FIXED_SETTINGS:
            raise UserError(
                "READONLY_SETTING",
                f"Setting '{name}' is readonly for MergeTree tables: it shapes the parts they have",
            )
        if is_reset and name not in load_clickhouse_settings().merge_tree and name not in OWN_TABLE_SETTINGS:
            raise UserError(
                "BAD_ARGUMENTS", f"Cannot reset setting '{name}' because it doesn't exist for MergeTree engines family"
            )
