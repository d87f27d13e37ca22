"""Loads a folder of Parquet files into a table: all of its rows or none, and once.

Each free server inserts the next file, invisibly, into one transaction; then the transaction is committed with the
number of rows. The transaction's name is derived from the files, so loading the same folder again, or resuming an
interrupted load, stages nothing twice and commits nothing twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import xxhash

from engine.client.shared_work import ServerGroup, quote_identifier, quote_string, quote_table
from engine.client.table_export import read_manifest
from parts.common.errors import CorruptionError, PandoError, UnavailableError, UnknownOutcomeError, UserError

_DECIDED_CODE = 649
_COMMITTED = "was committed before"
_MOST_ATTEMPTS = 100
_FACTS = ("rows", "bytes", "hash")


@dataclass(frozen=True)
class TableLoad:
    """A load: the directory and the table. A new ``identity`` loads the same files again."""

    directory: str
    table: str
    overwrite: str = ""
    """``TABLE`` or ``PARTITIONS``: the old rows that the commit replaces."""
    identity: str = ""
    parallel: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadResult:
    """The outcome of a load."""

    files: int
    rows: int
    is_new: bool
    """False if the rows had been loaded before."""


@dataclass(frozen=True)
class _Folder:
    """The files of a folder, with their columns and identity."""

    identity: str
    columns: tuple[str, ...]
    files: Sequence[dict[str, Any]]

    @property
    def rows(self) -> int:
        """The number of rows of all files."""
        return sum(int(file["rows"]) for file in self.files)


def load_folder(servers: ServerGroup, load: TableLoad) -> LoadResult:
    """Loads a folder.

    Raises 107 (FILE_DOESNT_EXIST) for a folder without Parquet, 40 (CHECKSUM_DOESNT_MATCH) for a file that differs from
    the manifest, and the errors of an INSERT.
    """
    table = quote_table(load.table)
    folder = _read_folder(servers, load)
    types = {row["name"]: row["type"] for row in servers.require_replicated(table).describe(table)}
    missing = next((name for name in folder.columns if name not in types), None)
    if missing is not None:
        raise UserError("NO_SUCH_COLUMN_IN_TABLE", f"The files have a column {missing!r} that {load.table} lacks")
    identity = load.identity or folder.identity
    for attempt in range(_MOST_ATTEMPTS):
        staging = _Staging(servers, load, f"load {identity} {attempt}", {name: types[name] for name in folder.columns})
        try:
            servers.try_in_turn(staging.begin)
            attempts = servers.share(folder.files, staging.add, load.parallel)
            commit = staging.commit_clauses(folder.rows, attempts, f"load {identity}")
            committed = servers.try_in_turn(partial(staging.commit, clauses=commit))
            return LoadResult(len(folder.files), folder.rows, committed == "committed")
        except PandoError as error:
            if error.code != _DECIDED_CODE:
                staging.give_up(error)
                raise
            if _COMMITTED in error.message:
                return LoadResult(len(folder.files), folder.rows, False)
    raise UserError("BAD_ARGUMENTS", f"{_MOST_ATTEMPTS} loads of this folder were rolled back: give another identity")


@dataclass(frozen=True)
class _Staging:
    """One transaction. ``types`` are those of the columns that the files have."""

    servers: ServerGroup
    load: TableLoad
    transaction: str
    types: Mapping[str, str]

    @property
    def _table(self) -> str:
        return quote_table(self.load.table)

    def begin(self, url: str) -> None:
        """Begins the transaction. Raises 649 if it is decided already, before any work."""
        sql = f"INSERT INTO {self._table} SELECT * FROM {self._table} WHERE 0"
        self.servers.query(url, sql, {"insert_transaction": self.transaction})

    def add(self, url: str, file: Mapping[str, Any]) -> str:
        """Stages the rows of one file and returns the name of the attempt.

        Repeating it on this server stages nothing twice. If the server is gone another one makes its own attempt, and
        only that one is committed.
        """
        path = quote_string(f"{self.load.directory.rstrip('/')}/{file['name']}")
        facts = (self.servers.rows(url, _make_facts_query(path)) or [{}])[0]
        if any(facts.get(name) != file[name] for name in _FACTS):
            shown = " and ".join(f"{name} {facts.get(name)}, not {file[name]}" for name in _FACTS)
            raise CorruptionError(f"File {path} is not what was written: it has {shown}")
        columns = ", ".join(map(quote_identifier, self.types))
        structure = quote_string(", ".join(f"{quote_identifier(name)} {type_}" for name, type_ in self.types.items()))
        sql = f"INSERT INTO {self._table} ({columns}) SELECT {columns} FROM file({path}, Parquet, {structure})"
        attempt = f"{file['name']} {url}"
        own = {
            "insert_transaction": self.transaction,
            "insert_transaction_attempt": attempt,
            "insert_deduplication_token": str(file["name"]),
        }
        self.servers.query(url, sql, {**self.load.settings, **own})
        return attempt

    def commit_clauses(self, rows: int, attempts: Sequence[str], application: str) -> str:
        """Returns the clauses of COMMIT.

        The name of the application is remembered for ever, that of the transaction for some days.
        """
        overwrite = f"OVERWRITE {self.load.overwrite} " if self.load.overwrite else ""
        names = ", ".join(map(quote_string, attempts)) or "''"
        return f"{overwrite}ATTEMPTS {names} ROWS {rows} APPLICATION {quote_string(application)} VERSION 0"

    def commit(self, url: str, clauses: str) -> str:
        """Commits and returns the status."""
        sql = f"COMMIT TRANSACTION {quote_string(self.transaction)} ON {self._table} {clauses}"
        return str(self.servers.rows(url, sql, self.load.settings)[0]["status"])

    def give_up(self, error: PandoError) -> None:
        """Rolls back, unless the error may be temporary; then the load can be resumed."""
        if isinstance(error, (UnavailableError, UnknownOutcomeError)):
            return
        with suppress(PandoError):
            self.servers.try_in_turn(
                lambda url: self.servers.query(
                    url, f"ROLLBACK TRANSACTION {quote_string(self.transaction)} ON {self._table}"
                )
            )


def _read_folder(servers: ServerGroup, load: TableLoad) -> _Folder:
    manifest = read_manifest(servers, load.directory)
    if manifest is not None:
        columns = tuple(column["name"] for column in manifest["columns"])
        return _Folder(manifest["export"], columns, [file for file in manifest["files"] if file["rows"]])
    pattern = quote_string(f"{load.directory.rstrip('/')}/*.parquet")
    columns = tuple(row["name"] for row in servers.describe(f"file({pattern})"))
    files = servers.try_in_turn(lambda url: servers.rows(url, _make_facts_query(pattern)))
    digest = xxhash.xxh3_128()
    for file in files:
        digest.update(f"{file['name']}\0{file['bytes']}\0{file['hash']}\0".encode())
    return _Folder(digest.hexdigest(), columns, files)


def _make_facts_query(path: str) -> str:
    """Returns the query for name, rows, bytes and hash of each file."""
    return (
        "SELECT _file AS name, count() AS rows, _size AS bytes, _hash AS hash "
        f"FROM file({path}, Parquet) GROUP BY ALL ORDER BY name"
    )
