"""CREATE and ATTACH of tables and databases, in the modern and the deprecated syntax."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from parts.common.errors import UserError
from parts.types import parse_type
from sql.grammar.clause_types import ColumnClause, ConstraintClause, IndexClause, SettingLiteral, TableRef
from sql.grammar.common_clauses import (
    accept_if_not_exists,
    on_cluster,
    parse_settings_clause,
    parse_table_name,
    render_settings,
    slice_query,
)
from sql.grammar.statements.create_index import parse_create_index
from sql.grammar.statements.drop_table import at_view, refuse_other_objects
from sql.grammar.statements.replication_links import at_link, parse_create_link
from sql.grammar.statements.statement import (
    AttachTable,
    CreateDatabase,
    CreateTable,
    EngineClause,
    Statement,
    ViewClause,
)
from sql.grammar.statements.statement_syntax import StatementSyntax
from sql.grammar.table_elements.columns import parse_column
from sql.grammar.table_elements.constraints import parse_constraint
from sql.grammar.table_elements.indexes import parse_index
from sql.grammar.table_elements.ttl import read_table_ttl_text
from sql.grammar.tokens import Token, TokenStream, not_implemented
from sql.settings.session_settings import check_inner_settings

_ELEMENTS_REFUSED = ("PROJECTION", "FOREIGN")
_KEY_CLAUSES = {
    ("PARTITION", "BY"): "partition_by",
    ("ORDER", "BY"): "order_by",
    ("PRIMARY", "KEY"): "primary_key",
    ("SAMPLE", "BY"): "sample_by",
}
_INFERRING_ENGINES = ("Distributed", "Merge")
"""Their columns are those of the tables that they read."""
_DATABASE_ENGINES = ("Ordinary", "Atomic")
_VIEW_CLAUSES = ("COMMENT", "AS")
_MATERIALIZED_CLAUSES = (
    "ENGINE", "PARTITION", "ORDER", "PRIMARY", "SAMPLE", "TTL", "SETTINGS", "EMPTY", "POPULATE", *_VIEW_CLAUSES,
)  # fmt: skip


@dataclass(slots=True)
class _Clauses:
    engine: EngineClause | None = None
    keys: dict[str, str] = field(default_factory=dict)
    settings: dict[str, SettingLiteral] = field(default_factory=dict)
    comment: str = ""
    ttl: str = ""
    as_table: TableRef | None = None
    as_select: str = ""
    is_empty: bool = False
    is_populated: bool = False


def parse_create(stream: TokenStream) -> Statement:
    stream.next()
    is_replacing = stream.accept("OR", "REPLACE")
    if at_link(stream) and not is_replacing:
        return parse_create_link(stream)
    if not is_replacing and stream.accept("DATABASE"):
        return _database(stream, attach=False)
    if not is_replacing and (stream.at("INDEX") or stream.at("UNIQUE", "INDEX")):
        return parse_create_index(stream)
    refuse_other_objects(stream, "CREATE OR REPLACE" if is_replacing else "CREATE")
    if at_view(stream):
        return _view(stream, attach=False, replaces=is_replacing)
    is_temporary = stream.accept("TEMPORARY")
    stream.expect("TABLE")
    statement = _replacing(stream) if is_replacing else _table(stream, attach=False)
    assert isinstance(statement, CreateTable)
    return replace(statement, is_temporary=is_temporary)


def parse_replace(stream: TokenStream) -> Statement:
    stream.next()
    refuse_other_objects(stream, "REPLACE")
    stream.expect("TABLE")
    return replace(_replacing(stream), must_exist=True)


def _replacing(stream: TokenStream) -> CreateTable:
    if stream.at("IF", "NOT", "EXISTS"):
        stream.fail("table name: what is replaced cannot be IF NOT EXISTS")
    statement = _table(stream, attach=False)
    assert isinstance(statement, CreateTable)
    return replace(statement, replaces=True)


def parse_attach(stream: TokenStream) -> Statement:
    stream.next()
    if stream.accept("DATABASE"):
        return _database(stream, attach=True)
    refuse_other_objects(stream, "ATTACH")
    if at_view(stream):
        return _view(stream, attach=True)
    stream.expect("TABLE")
    return _table(stream, attach=True)


def _database(stream: TokenStream, *, attach: bool) -> CreateDatabase:
    exists = accept_if_not_exists(stream)
    name = stream.identifier("database name")
    on_cluster(stream)
    if stream.accept("ENGINE"):
        stream.accept("=")
        engine = stream.identifier("engine name")
        if engine not in _DATABASE_ENGINES:
            raise not_implemented(f"Database engine {engine} (the engines are: {', '.join(_DATABASE_ENGINES)})")
    if stream.at("COMMENT"):
        raise not_implemented("COMMENT of a database")
    return CreateDatabase(name, exists, attach)


def _table(stream: TokenStream, *, attach: bool) -> CreateTable | AttachTable:
    exists = accept_if_not_exists(stream)
    table = parse_table_name(stream)
    if stream.at("UUID") and stream.peek(1).kind == "string":
        raise not_implemented("CREATE TABLE … UUID")
    if attach and stream.at("FROM"):
        raise not_implemented("ATTACH TABLE … FROM")
    on_cluster(stream)
    if attach and stream.accept("AS", "REPLICATED"):
        return AttachTable(table, exists, as_replicated=True)
    if attach and stream.accept("AS", "NOT", "REPLICATED"):
        return AttachTable(table, exists, as_replicated=False)
    if attach and (stream.is_at_end() or stream.at("FORMAT")):
        return AttachTable(table, exists)
    elements = _elements(stream) if stream.at("(") and not _is_query(stream) else _Elements()
    clauses = _clauses(stream)
    if elements.primary_key:
        if "primary_key" in clauses.keys:
            raise UserError("BAD_ARGUMENTS", "PRIMARY KEY is given twice, among the columns and after the engine")
        clauses.keys["primary_key"] = elements.primary_key
    columns = tuple(elements.columns)
    may_infer = clauses.engine is not None and clauses.engine.name in _INFERRING_ENGINES
    if not columns and clauses.as_table is None and not clauses.as_select and not may_infer:
        stream.fail("(", "AS")
    statement = CreateTable(
        table,
        columns,
        clauses.engine,
        if_not_exists=exists,
        attach=attach,
        as_table=clauses.as_table,
        indexes=tuple(elements.indexes),
        constraints=tuple(elements.constraints),
    )
    return _with_clauses(statement, clauses)


def _with_clauses(statement: CreateTable, clauses: _Clauses) -> CreateTable:
    return replace(
        statement,
        settings=clauses.settings,
        comment=clauses.comment,
        as_select=clauses.as_select,
        is_empty=clauses.is_empty,
        ttl=clauses.ttl,
        partition_by=clauses.keys.get("partition_by", ""),
        order_by=clauses.keys.get("order_by", ""),
        primary_key=clauses.keys.get("primary_key", ""),
        sample_by=clauses.keys.get("sample_by", ""),
    )


# Views ----------------------------------------------------------------------------------------------------------------


def _view(stream: TokenStream, *, attach: bool, replaces: bool = False) -> CreateTable | AttachTable:
    is_materialized = stream.accept("MATERIALIZED")
    stream.expect("VIEW")
    if replaces and stream.at("IF", "NOT", "EXISTS"):
        stream.fail("the name of the view: IF NOT EXISTS and OR REPLACE exclude each other")
    exists = accept_if_not_exists(stream)
    table = parse_table_name(stream)
    uuid = stream.string("UUID of the view") if stream.accept("UUID") else ""
    on_cluster(stream)
    if attach and (stream.is_at_end() or stream.at("FORMAT")):
        return AttachTable(table, exists)
    target = None
    if is_materialized and stream.accept("TO"):
        target = parse_table_name(stream)
    columns = _view_columns(stream) if stream.at("(") else ()
    clauses = _clauses(stream, _MATERIALIZED_CLAUSES if is_materialized else _VIEW_CLAUSES)
    if not clauses.as_select:
        stream.fail("AS SELECT")
    if target is not None and (clauses.engine or clauses.is_populated):
        what = "ENGINE" if clauses.engine else "POPULATE"
        stream.fail(f"no {what}: a materialized view with TO has its rows in the table that is there")
    statement = _with_clauses(CreateTable(table, columns, clauses.engine, exists, attach, replaces=replaces), clauses)
    return replace(statement, view=ViewClause(is_materialized, target, uuid, clauses.is_populated))


def _view_columns(stream: TokenStream) -> tuple[ColumnClause, ...]:
    """Of a view they may be mere names, for the columns of its query."""
    start = stream.position
    stream.next()
    names: list[str] = []
    while stream.peek().is_identifier and (stream.peek(1).text in (",", ")")):
        names.append(stream.identifier("column name"))
        if stream.next().text == ")":
            return tuple(ColumnClause(name, "") for name in names)
    stream.position = start
    return tuple(_elements(stream).columns)


def _is_query(stream: TokenStream) -> bool:
    return stream.at("(", "SELECT") or stream.at("(", "WITH")


# Columns and what stands among them -----------------------------------------------------------------------------------


_COLUMN_ELEMENTS = 2
"""The column and its type, in ClickHouse's tree."""


@dataclass(slots=True)
class _Elements:
    columns: list[ColumnClause] = field(default_factory=list)
    indexes: list[IndexClause] = field(default_factory=list)
    constraints: list[ConstraintClause] = field(default_factory=list)
    primary_key: str = ""


def _elements(stream: TokenStream) -> _Elements:
    elements = _Elements()
    stream.expect("(")
    while True:
        token = stream.peek()
        if token.kind == "word" and token.upper in _ELEMENTS_REFUSED and not _names_type(stream.peek(1)):
            raise not_implemented(f"{token.upper} in CREATE TABLE")
        if stream.at("PRIMARY", "KEY"):
            stream.accept("PRIMARY", "KEY")
            elements.primary_key = _expression(stream, inside_columns=True)
        elif stream.at("INDEX") and not _names_type(stream.peek(1)):
            stream.next()
            elements.indexes.append(parse_index(stream))
        elif stream.at("CONSTRAINT") and not _names_type(stream.peek(1)):
            stream.next()
            elements.constraints.append(parse_constraint(stream))
        else:
            stream.guard.count(_COLUMN_ELEMENTS)
            elements.columns.append(parse_column(stream))
        if stream.accept(")"):
            return elements
        if not stream.accept(","):
            stream.fail(",", ")")
        if stream.accept(")"):  # a trailing comma
            return elements


def _names_type(token: Token) -> bool:
    """``index String`` is a column, ``INDEX i (a, b) TYPE …`` is not."""
    if token.kind != "word":
        return False
    try:
        parse_type(token.text)
    except UserError as error:
        return error.name not in ("UNKNOWN_TYPE", "NOT_IMPLEMENTED")  # a family that needs arguments is a type too
    return True


# Engine and clauses ---------------------------------------------------------------------------------------------------


def _clauses(stream: TokenStream, of_view: tuple[str, ...] = ()) -> _Clauses:
    """``of_view`` are the only ones that a view has, beside its query."""
    clauses = _Clauses()
    while not stream.is_at_end() and not stream.at("FORMAT"):
        token = stream.peek()
        if of_view and _view_clause(stream, clauses):
            continue
        if of_view and token.upper not in of_view:
            stream.fail(*of_view, "AS SELECT", "end of query")
        if stream.at("ENGINE"):
            _once(stream, clauses.engine is None)
            stream.next()
            stream.accept("=")
            clauses.engine = _engine(stream)
        elif _key_clause(stream, clauses):
            continue
        elif stream.at("SETTINGS"):
            _once(stream, not clauses.settings)
            stream.next()
            clauses.settings = {
                name: value for name, value in parse_settings_clause(stream).items() if value is not None
            }
        elif stream.at("TTL"):
            _once(stream, not clauses.ttl)
            stream.next()
            clauses.ttl = read_table_ttl_text(stream)
        elif stream.at("COMMENT"):
            stream.next()
            clauses.comment = stream.string("comment")
        elif stream.at("AS") or stream.at("EMPTY", "AS"):
            clauses.is_empty = stream.accept("EMPTY")
            stream.next()
            _as(stream, clauses)
        elif token.kind == "word" and token.upper in ("EMPTY", "CLONE", "REFRESH", "POPULATE", "TO"):
            raise not_implemented(f"{token.upper} in CREATE TABLE")
        else:
            expected = ["ENGINE", *(" ".join(words) for words in _KEY_CLAUSES), "TTL", "SETTINGS", "COMMENT", "AS"]
            stream.fail(*expected, "end of query")
    return clauses


def _view_clause(stream: TokenStream, clauses: _Clauses) -> bool:
    """The settings behind the query are the query's."""
    if stream.at("POPULATE"):
        stream.next()
        clauses.is_populated = True
    elif clauses.as_select and stream.at("SETTINGS"):
        stream.next()
        settings = parse_settings_clause(stream)
        check_inner_settings(settings)
        clauses.as_select += f"\nSETTINGS {render_settings(settings)}"
    elif stream.at("AS") and not (stream.peek(1).text == "(" or stream.peek(1).upper in ("SELECT", "WITH")):
        raise not_implemented("A view AS another")
    else:
        return False
    return True


def _once(stream: TokenStream, first: bool) -> None:
    if not first:
        stream.fail(f"{stream.peek().upper} only once")


def _key_clause(stream: TokenStream, clauses: _Clauses) -> bool:
    for words, name in _KEY_CLAUSES.items():
        if not stream.at(*words):
            continue
        _once(stream, name not in clauses.keys)
        stream.accept(*words)
        clauses.keys[name] = _expression(stream)
        return True
    return False


def _expression(stream: TokenStream, *, inside_columns: bool = False) -> str:
    """One expression; a list needs brackets."""
    text = stream.slice_until(_clause_begins)
    if stream.at(",") and not inside_columns:
        stream.fail("end of the key expression: write several expressions as (a, b)")
    return text


def _clause_begins(stream: TokenStream) -> bool:
    if any(stream.at(*words) for words in _KEY_CLAUSES):
        return True
    token = stream.peek()
    if token.kind == "mark":
        return token.text == ","
    if token.kind != "word":
        return False
    if token.upper == "COMMENT":
        return stream.peek(1).kind == "string"
    return token.upper in ("SETTINGS", "TTL", "ENGINE", "AS", "EMPTY", "POPULATE", "FORMAT")


def _engine(stream: TokenStream) -> EngineClause:
    name = stream.identifier("engine name")
    if not stream.accept("("):
        return EngineClause(name)
    arguments: list[str] = []
    while not stream.accept(")"):
        if arguments and not stream.accept(","):
            stream.fail(",", ")")
        arguments.append(stream.slice_until(lambda inner: inner.at(","), "engine argument"))
    return EngineClause(name, tuple(arguments))


def _as(stream: TokenStream, clauses: _Clauses) -> None:
    if stream.at("SELECT") or stream.at("WITH") or stream.at("("):
        clauses.as_select = slice_query(stream, "COMMENT")
        return
    start = stream.peek().start
    clauses.as_table = parse_table_name(stream)
    if stream.at("("):  # a table function
        stream.skip_group()
        clauses.as_table, clauses.as_select = None, f"SELECT * FROM {stream.text[start : stream.position]}"


SYNTAX = (
    StatementSyntax(("CREATE",), parse_create),
    StatementSyntax(("ATTACH",), parse_attach),
    StatementSyntax(("REPLACE",), parse_replace),
)
