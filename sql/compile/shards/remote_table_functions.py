"""Table functions that read other tables: ``remote``, ``cluster``, ``clusterAllReplicas``, ``merge``.

::

    remote('addresses', db, table | db.table | view(SELECT …)[, user[, password]][, sharding_key])
    cluster('name'[, db, table | db.table | view(SELECT …)][, sharding_key])
    merge([db | REGEXP('expression'),] 'expression')
"""

from __future__ import annotations

from dataclasses import dataclass

from parts.common.errors import UserError
from sql.compile.compiler_interfaces import StatementContext
from sql.compile.expressions.expressions import ExpressionCompiler
from sql.compile.names.scope import Scope
from sql.compile.shards.merge_tables import MergedTables
from sql.grammar.syntax_tree import (
    Function,
    Identifier,
    Literal,
    NamedTable,
    Node,
    Subquery,
    SubqueryTable,
    TableFunction,
)
from sql.relations import StreamedRelation

SHARD_FUNCTIONS = ("cluster", "clusterAllReplicas", "merge", "remote")
_SYSTEM_ONE = NamedTable("system", "one")


@dataclass(frozen=True, slots=True)
class RemoteFunction:
    """The arguments of ``remote``, ``cluster`` or ``clusterAllReplicas``.

    ``servers`` are addresses or the name of a cluster; ``table`` is what each of them reads.
    """

    name: str
    servers: str
    table: Node
    user: str = "default"
    password: str = ""
    sharding_key: Node | None = None


@dataclass(frozen=True, slots=True)
class MergeFunction:
    """The arguments of ``merge``.

    ``database`` is a name, or a regular expression if ``is_pattern``; ``None`` is the session's. ``tables`` is a
    regular expression.
    """

    database: str | None
    is_pattern: bool
    tables: str


def parse_remote_function(node: TableFunction, statement: StatementContext) -> StreamedRelation | MergedTables | None:
    """Returns the relation of such a table function; ``None`` for any other function.

    Raises ``UserError`` 36, 42.
    """
    if node.name not in SHARD_FUNCTIONS:
        return None
    arguments = _FunctionArguments(node, statement)
    return statement.catalog.find_function_tables(
        arguments.parse_merge() if node.name == "merge" else arguments.parse_remote()
    )


@dataclass
class _FunctionArguments:
    """The arguments of one call, to be parsed."""

    node: TableFunction
    statement: StatementContext

    def parse_remote(self) -> RemoteFunction:
        """Parses ``remote``, ``cluster`` and ``clusterAllReplicas``. Raises ``UserError`` 36, 42."""
        name, args = self.node.name, list(self.node.args)
        if not 1 <= len(args) <= 6 or (name == "remote" and len(args) < 2):
            raise UserError(
                "NUMBER_OF_ARGUMENTS_DOESNT_MATCH",
                f"{name} takes {'addresses' if name == 'remote' else 'a cluster'}, database and table"
                f"{', user, password' if name == 'remote' else ''} and a sharding key, not {len(args)} arguments",
            )
        servers = self._text_argument(args.pop(0))
        table = self._take_table(args) if args else _SYSTEM_ONE
        credentials: list[str] = []
        while name == "remote" and args and isinstance(args[0], Literal) and len(credentials) < 2:
            credentials.append(self._text_argument(args.pop(0)))
        key = args.pop(0) if args else None
        if args:
            raise UserError("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", f"{name} has arguments behind its sharding key")
        user, password = (*credentials, "default", "")[:2] if len(credentials) != 1 else (credentials[0], "")
        return RemoteFunction(name, servers, table, user, password, key)

    def parse_merge(self) -> MergeFunction:
        """Parses ``merge``. Raises ``UserError`` 36, 42."""
        args = self.node.args
        if not 1 <= len(args) <= 2:
            raise UserError(
                "NUMBER_OF_ARGUMENTS_DOESNT_MATCH",
                "Table function 'merge' requires from 1 to 2 parameters: a database, and a regular expression for "
                f"names of tables; {len(args)} are given",
            )
        tables = self._text_argument(args[-1])
        if len(args) == 1:
            return MergeFunction(None, False, tables)
        first = args[0]
        if isinstance(first, Function) and first.name.upper() == "REGEXP" and len(first.args) == 1:
            return MergeFunction(self._text_argument(first.args[0]), True, tables)
        return MergeFunction(self._text_argument(first), False, tables)

    def _take_table(self, args: list[Node]) -> Node:
        """Removes the arguments that name the table, and returns the table."""
        first = args.pop(0)
        if isinstance(first, Function) and first.name == "view" and isinstance(first.args[0], Subquery):
            return SubqueryTable(first.args[0].query)
        if isinstance(first, Function) and first.name != "currentDatabase":
            return TableFunction(first.name, first.args)
        text = self._text_argument(first)
        if "." in text:
            database, _, table = text.partition(".")
            return NamedTable(database, table)
        if not args:
            return NamedTable(None, text)
        return NamedTable(text, self._text_argument(args.pop(0)))

    def _text_argument(self, node: Node) -> str:
        """Returns a constant or a bare word as a text. Raises ``UserError`` 36."""
        if isinstance(node, Identifier):
            return ".".join(node.parts)
        rows = ExpressionCompiler(Scope(), self.statement.environment, self.statement)
        value = self.statement.constant(rows.compile(node))
        if not isinstance(value, str):
            raise UserError("BAD_ARGUMENTS", f"The arguments of {self.node.name} are texts, got {value!r}")
        return value
