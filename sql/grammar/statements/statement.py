"""The statements that Pando understands, as plain data.

``statement_parser.parse_statements`` makes them; the engine runs them. Text that is kept as SQL (queries, expressions)
is ClickHouse SQL as the user wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from parts.table.schema_history import UNCHANGED, SchemaHistory
from sql.grammar.clause_types import (
    ColumnClause,
    ColumnMatcher,
    ConstraintClause,
    IndexClause,
    SettingLiteral,
    TableRef,
)
from sql.grammar.statements.alter_commands import AlterCommand, UpdateRows
from sql.grammar.statements.link_group_statements import LinkGroupStatement
from sql.grammar.statements.link_statements import LinkStatement


@dataclass(frozen=True, slots=True)
class EngineClause:
    """``ENGINE = name(arguments)``; each argument is SQL text (string literals still quoted)."""

    name: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ViewClause:
    """The clause that makes a table a view of its ``as_select``.

    A materialized view keeps the rows in the table ``target``, or in one of its own, which is named by ``uuid``.
    """

    is_materialized: bool = False
    target: TableRef | None = None
    uuid: str = ""
    is_populated: bool = False


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE or ATTACH TABLE in either syntax; key clauses are SQL text or ``""``."""

    table: TableRef
    columns: tuple[ColumnClause, ...]
    engine: EngineClause | None
    if_not_exists: bool = False
    attach: bool = False
    is_temporary: bool = False
    replaces: bool = False
    """CREATE OR REPLACE, or REPLACE, where ``must_exist``."""
    must_exist: bool = False
    partition_by: str = ""
    order_by: str = ""
    primary_key: str = ""
    sample_by: str = ""
    settings: dict[str, SettingLiteral] = field(default_factory=dict)
    comment: str = ""
    as_table: TableRef | None = None
    as_select: str = ""
    is_empty: bool = False
    """The query of ``as_select`` gives the columns alone."""
    view: ViewClause | None = None
    """CREATE VIEW and CREATE MATERIALIZED VIEW."""
    indexes: tuple[IndexClause, ...] = ()
    constraints: tuple[ConstraintClause, ...] = ()
    ttl: str = ""
    """As ``sql.grammar.table_elements.ttl`` writes it."""
    history: SchemaHistory = UNCHANGED
    """What ALTER has done to the columns so far; no text of a statement says it, nor the next two."""
    directory: str = ""
    """Where the data lie below those of all tables, if not where the table's name says."""
    is_scratch: bool = False
    """Of a CREATE OR REPLACE that has not ended: the next start of the server drops the table."""

    @property
    def is_replicated(self) -> bool:
        """Whether other servers may hold replicas of the table."""
        return self.view is None and self.engine is not None and self.engine.name.startswith("Replicated")


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    name: str
    if_not_exists: bool = False
    attach: bool = False


@dataclass(frozen=True, slots=True)
class DropDatabase:
    name: str
    if_exists: bool = False
    detach: bool = False


@dataclass(frozen=True, slots=True)
class DropTable:
    """DROP TABLE or DETACH TABLE, of one or several."""

    table: TableRef
    if_exists: bool = False
    detach: bool = False
    sync: bool = False
    others: tuple[TableRef, ...] = ()
    is_temporary: bool = False
    is_view: bool = False
    """DROP VIEW: of no other table."""
    permanently: bool = False
    """DETACH … PERMANENTLY: a start of the server leaves the table detached."""


@dataclass(frozen=True, slots=True)
class AttachTable:
    """``ATTACH TABLE t`` without a definition: the one kept on disk."""

    table: TableRef
    if_not_exists: bool = False
    as_replicated: bool | None = None
    """``AS [NOT] REPLICATED``: the table changes its engine first."""


@dataclass(frozen=True, slots=True)
class RenameTables:
    pairs: tuple[tuple[TableRef, TableRef], ...]
    optional: frozenset[int] = frozenset()
    """The places of the pairs with IF EXISTS."""


@dataclass(frozen=True, slots=True)
class ExchangeTables:
    pairs: tuple[tuple[TableRef, TableRef], ...]


@dataclass(frozen=True, slots=True)
class AlterTable:
    """``ALTER TABLE``: all of the commands or none."""

    table: TableRef
    commands: tuple[AlterCommand, ...]


@dataclass(frozen=True, slots=True)
class MutateTable:
    """``DELETE FROM`` (``is_delete``) and ``UPDATE … SET``."""

    table: TableRef
    command: UpdateRows
    is_delete: bool = False


@dataclass(frozen=True, slots=True)
class TruncateTable:
    table: TableRef
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ExistsTable:
    table: TableRef
    is_temporary: bool = False
    is_view: bool = False


@dataclass(frozen=True, slots=True)
class ExistsDatabase:
    name: str


@dataclass(frozen=True, slots=True)
class ShowDatabases:
    like: str | None = None
    not_like: bool = False


@dataclass(frozen=True, slots=True)
class ShowTables:
    database: str | None = None
    like: str | None = None
    not_like: bool = False


@dataclass(frozen=True, slots=True)
class ShowCreateTable:
    table: TableRef
    is_temporary: bool = False


@dataclass(frozen=True, slots=True)
class ShowCreateDatabase:
    name: str


@dataclass(frozen=True, slots=True)
class ShowProcesslist:
    pass


@dataclass(frozen=True, slots=True)
class DescribeTable:
    table: TableRef


@dataclass(frozen=True, slots=True)
class DescribeQuery:
    """``DESCRIBE (SELECT …)``."""

    query: str


@dataclass(frozen=True, slots=True)
class Use:
    database: str


@dataclass(frozen=True, slots=True)
class SetSettings:
    """``parameters`` are those of queries, SET param_name = …, by name."""

    settings: dict[str, SettingLiteral]
    parameters: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OptimizeTable:
    """``partition`` is SQL text of the partition value, ``partition_id`` is given by PARTITION ID '…'."""

    table: TableRef
    partition: str | None = None
    partition_id: str | None = None
    final: bool = False
    deduplicate: bool = False
    deduplicate_by: tuple[ColumnMatcher, ...] = ()
    cleanup: bool = False


@dataclass(frozen=True, slots=True)
class CheckTable:
    """``CHECK TABLE`` of a table, a partition (as in :class:`OptimizeTable`) or a part."""

    table: TableRef
    partition: str | None = None
    partition_id: str | None = None
    part: str | None = None


@dataclass(frozen=True, slots=True)
class SystemCommand:
    """``SYSTEM <command> [table]``.

    ``command`` is upper case with single spaces (``SYNC REPLICA``). ``argument`` is its mode, the names of FLUSH LOGS,
    or the name of UNFREEZE.
    """

    command: str
    table: TableRef | None = None
    argument: str = ""
    may_be_missing: bool = False


@dataclass(frozen=True, slots=True)
class DropReplica:
    """``SYSTEM DROP REPLICA`` of a table, a database, a path in ZooKeeper, or all tables here.

    At most one of the three is given.
    """

    replica: str
    table: TableRef | None = None
    database: str | None = None
    zookeeper_path: str | None = None


@dataclass(frozen=True, slots=True)
class FileArguments:
    """``file(path[, format[, structure]])``. What is left out is ``""``."""

    path: str
    format: str = ""
    structure: str = ""


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT. Exactly one source: ``select`` (SQL text) or ``format`` (``Values`` included).

    ``inline_data`` is the data that followed FORMAT or VALUES in the statement, as bytes; a request body follows it.
    ``columns`` is empty for all. ``settings`` come from the statement's SETTINGS clause.
    """

    table: TableRef
    columns: tuple[str, ...] = ()
    except_columns: tuple[str, ...] = ()
    select: str = ""
    format: str = ""
    inline_data: bytes = b""
    settings: dict[str, SettingLiteral] = field(default_factory=dict)
    file: FileArguments | None = None
    """INTO FUNCTION file: ``table`` is only its name."""


@dataclass(frozen=True, slots=True)
class CommitTransaction:
    """``COMMIT TRANSACTION``. ``overwrite`` is "" (nothing goes), ``table`` or ``partitions``."""

    transaction: str
    table: TableRef
    overwrite: str = ""
    partition_ids: tuple[str, ...] | None = None
    scan: str = ""
    is_whole_table: bool = False
    attempts: tuple[str, ...] | None = None
    rows: int | None = None
    application: str = ""
    version: int | None = None


@dataclass(frozen=True, slots=True)
class RollbackTransaction:
    transaction: str
    table: TableRef


@dataclass(frozen=True, slots=True)
class SelectQuery:
    """Any query that returns rows.

    ``query`` is without the FORMAT and SETTINGS at its end.
    """

    query: str
    settings: dict[str, SettingLiteral] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Explain:
    """``EXPLAIN [PLAN|SYNTAX|…] [option = n, …] query``."""

    kind: str
    options: dict[str, SettingLiteral]
    query: str


@dataclass(frozen=True, slots=True)
class KillQuery:
    query_id: str


@dataclass(frozen=True, slots=True)
class KillMutation:
    """``KILL MUTATION`` of the rows of ``system.mutations`` for which the condition holds.

    ``is_test``: it only tells which.
    """

    condition: str
    is_test: bool = False


Statement = (
    CreateTable | CreateDatabase | DropDatabase | DropTable | AttachTable | RenameTables | TruncateTable
    | ExistsTable | ExistsDatabase | ShowDatabases | ShowTables | ShowCreateTable | ShowCreateDatabase | ShowProcesslist
    | DescribeTable | DescribeQuery | Use | SetSettings | OptimizeTable | SystemCommand | Insert | SelectQuery | Explain
    | KillQuery | DropReplica | CheckTable | CommitTransaction | RollbackTransaction | AlterTable
    | ExchangeTables
    | MutateTable | KillMutation
    | LinkStatement
    | LinkGroupStatement
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class OnCluster:
    """The cluster of a statement with ON CLUSTER, and the statement's text without that clause.

    The text has no FORMAT and SETTINGS either.
    """

    cluster: str
    text: str


@dataclass(frozen=True, slots=True)
class ParsedStatement:
    """One statement with its output format (``None``: the interface's default) and INTO OUTFILE target.

    ``settings`` are those of its SETTINGS clause, where the statement does not keep them itself (as CREATE does).
    """

    statement: Statement
    format: str | None = None
    outfile: str | None = None
    settings: Mapping[str, SettingLiteral] = field(default_factory=dict)
    on_cluster: OnCluster | None = None
