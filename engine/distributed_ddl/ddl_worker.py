"""Executes the queued ON CLUSTER statements that name this server, one after the other.

Invariants

- Statements run in the order of the queue. One that must wait (for another replica of its shard, or for ZooKeeper)
  blocks those behind it.
- Before a statement runs, ZooKeeper records that it has begun. Its outcome is written to disk (``journal``) before
  ZooKeeper gets it; from then on the statement never runs again here.
- A statement that a former process began is repeated only if that is harmless (``statement_kinds.judge_after_crash``);
  otherwise its outcome is 341 (UNFINISHED): it is unknown whether it was executed.

Called by one background task; ``stop`` may be called from any thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from coordination.ddl.ddl_cleanup import clean_queue
from coordination.ddl.ddl_entry import DdlEntry, DdlHost, DdlOutcome
from coordination.ddl.ddl_queue import EntryGone
from coordination.keeper.interface import Keeper, KeeperConnectionLoss, KeeperError, SessionState
from engine.catalog.catalog import Catalog
from engine.distributed_ddl.initiator import make_ddl_queue
from engine.distributed_ddl.journal import Journal
from engine.distributed_ddl.known_tables import TablesAfterStart
from engine.distributed_ddl.statement_kinds import (
    AfterCrash,
    is_for_one_replica,
    judge_after_crash,
    make_repeatable,
    may_be_retried,
)
from engine.interserver.replication import Replication
from engine.queries.session import QueryResult, Session
from engine.remote.server_clusters import Address, get_configured_cluster, is_this_server
from engine.server.config import Config
from engine.tables.services import TableServices
from parts.common.errors import ConflictError, PandoError, UserError
from sql.grammar.password_hiding import hide_passwords
from sql.grammar.statement_parser import parse_statement
from sql.grammar.statements.statement import ParsedStatement, Statement
from sql.settings.session_settings import (
    parse_given_settings,
)
from sql.settings.setting_values import CLICKHOUSE_DIALECT

logger = logging.getLogger(__name__)

_POLL_SECONDS = 10.0
"""Normally a watch wakes the task; polling covers a lost watch."""
_RETRY_SECONDS = 1.0
_MOST_TRIES = 6
_LONGEST_PAUSE = 8.0
_ENDS_WITH_SERVER = ("QUERY_WAS_CANCELLED", "ABORTED")
"""Errors of statements that are interrupted by a stopping server."""
_UNKNOWN = (
    "The server ended, or lost its session, while it carried the statement out: whether it was carried out is not "
    "known. Look at the table, and repeat the statement where it was not"
)


class DdlServer(Protocol):
    """The part of a server that the worker needs."""

    config: Config
    catalog: Catalog
    services: TableServices
    replication: Replication
    uuid: str
    path: Path

    def execute_parsed(
        self, parsed: ParsedStatement, text: str, session: Session, *, parameters: Mapping[str, str]
    ) -> QueryResult:
        """Runs a parsed statement."""


@dataclass
class _Task:
    """A queue entry that names this server, as ``hosts``; the first of them counts."""

    name: str
    identity: str
    entry: DdlEntry
    hosts: list[DdlHost]
    outcome: DdlOutcome | None = None
    shard_outcome: DdlOutcome | None = None
    """The outcome of the whole shard, perhaps not yet in ZooKeeper."""
    tries: int = 0

    @property
    def host(self) -> DdlHost:
        """The name of this server that counts for the entry."""
        return self.hosts[0]


class DdlWorker:
    """The worker of one server's queue of ON CLUSTER statements."""

    def __init__(self, server: DdlServer) -> None:
        """Requires a loaded catalog. Raises 180 (THERE_IS_NO_PROFILE) for an unknown profile in the configuration."""
        server.config.profile(server.config.distributed_ddl.profile)
        self._server = server
        self._queue = make_ddl_queue(server.config)
        self._process = str(server.services.new_uuid())
        self._journal = Journal(server.path, self._process)
        self._tables = TablesAfterStart(server.catalog, self._journal.former)
        self._tasks: dict[str, _Task] = {}
        """Unfinished tasks by the name of the entry."""
        self._done: set[str] = set()
        self._is_stopping = False
        self._read_in = self._announced_in = 0
        """The sessions in which the server last read the queue and last registered as its reader."""
        self._cleaned_at = server.services.monotonic()
        self.wake: Callable[[], None] = lambda: None

    def stop(self) -> None:
        """Stops the worker. A statement that runs now gets no outcome here; the next start decides about it."""
        self._is_stopping = True

    def run_once(self) -> float:
        """Executes what is queued for this server. Returns the seconds until the next run."""
        keeper = self._server.replication.keeper
        if keeper is None or keeper.state is not SessionState.CONNECTED or self._is_stopping:
            return _RETRY_SECONDS
        try:
            self._announce(keeper)
            pause = self._work(keeper)
            self._clean(keeper)
        except (KeeperError, KeeperConnectionLoss, ConflictError) as error:
            logger.info("the queue of distributed DDL is read again: %s", error)
            return _RETRY_SECONDS
        return pause

    # -- which entries --------------------------------------------------------------------------------------------

    def _work(self, keeper: Keeper) -> float:
        if self._read_in != keeper.session_id:
            self._forget_entries()
            self._read_in = keeper.session_id
        names = self._queue.names(keeper, self._on_change)
        self._done.intersection_update(names)
        self._make_tasks(keeper, [name for name in names if name not in self._done and name not in self._tasks])
        for name in sorted(self._tasks):
            pause = self._process_entry(keeper, self._tasks[name])
            if pause is not None:
                return pause
            del self._tasks[name]
            self._done.add(name)
        self._tables.forget()
        return _POLL_SECONDS

    def _forget_entries(self) -> None:
        """Forgets all entries: after a lost session ZooKeeper may have lost its data and reuse these names."""
        self._done.clear()
        self._tasks.clear()

    def _make_tasks(self, keeper: Keeper, names: list[str]) -> None:
        """Makes tasks of the entries that name this server."""
        for name, (data, identity) in zip(names, self._queue.read(keeper, names), strict=True):
            task = self._make_task(name, data, identity)
            if task is None or all(self._queue.is_finished(keeper, name, host) for host in task.hosts):
                self._done.add(name)
            else:
                self._tasks[name] = task

    def _make_task(self, name: str, data: bytes, identity: str) -> _Task | None:
        if not data:
            return None
        try:
            entry = DdlEntry.decode(data)
        except PandoError as error:
            logger.warning("entry %s of the queue of distributed DDL is passed over: %s", name, error)
            return None
        hosts = [host for host in entry.hosts if is_this_server(Address(host.host, host.port), self._server.config)]
        return _Task(name, identity, entry, hosts) if hosts else None

    def _on_change(self, _: str) -> None:
        self.wake()

    # -- one entry ------------------------------------------------------------------------------------------------

    def _process_entry(self, keeper: Keeper, task: _Task) -> float | None:
        """Processes one entry. Returns ``None`` when it is finished, else the seconds until the next attempt."""
        queue = self._queue
        try:
            if task.outcome is None:
                if not queue.become_active(keeper, task.name, task.entry, task.host, self._server.uuid):
                    logger.warning("another server says that it is %s; %s waits", task.host.id, task.name)
                    return _RETRY_SECONDS
                pause = self._execute_entry(keeper, task)
                if pause is not None:
                    return pause
            assert task.outcome is not None
            queue.finish(keeper, task.name, task.entry, task.hosts, task.outcome)
        except EntryGone:
            logger.info("entry %s was removed from the queue of distributed DDL", task.name)
        return None

    def _execute_entry(self, keeper: Keeper, task: _Task) -> float | None:
        try:
            parsed = parse_statement(task.entry.statement)
        except PandoError as error:
            task.outcome = DdlOutcome.from_error(error)
            return None
        known = self._journal.outcome(task.name, task.identity)
        if is_for_one_replica(parsed.statement) and self._tables.is_replicated(
            parsed.statement, self._get_database(task)
        ):
            task.shard_outcome = known
            return self._execute_for_shard(keeper, task, parsed)
        if known is None:
            began = self._queue.begin(keeper, task.name, task.entry, task.host, self._process)
            known = self._execute_and_note(task, parsed, began)
        task.outcome = known
        return self._get_pause(task) if known is None else None

    def _execute_for_shard(self, keeper: Keeper, task: _Task, parsed: ParsedStatement) -> float | None:
        """Executes the statement for the whole shard, or takes over the outcome of another replica that did."""
        queue, shard = self._queue, task.entry.shard_of(task.host)
        if task.shard_outcome is None:
            task.outcome = queue.read_outcome(keeper, task.name, shard, self._on_change)
            if task.outcome is not None:
                self._journal.note(task.name, task.identity, task.outcome)
                return None
            if not queue.lock_shard(keeper, task.name, task.entry, shard, self._server.uuid):
                return _RETRY_SECONDS
            began = queue.begin_shard(keeper, task.name, task.entry, shard, self._process)
            task.shard_outcome = self._execute_and_note(task, parsed, began)
            if task.shard_outcome is None:
                if not self._is_stopping:
                    queue.unlock_shard(keeper, task.name, shard)
                return self._get_pause(task)
        task.outcome = queue.finish_shard(keeper, task.name, task.entry, shard, task.shard_outcome)
        return None

    def _execute_and_note(self, task: _Task, parsed: ParsedStatement, began: str) -> DdlOutcome | None:
        """Executes the statement and records its outcome; ``None`` if it is to be tried again."""
        outcome = self._try_statement(task, parsed, began)
        if outcome is not None:
            self._journal.note(task.name, task.identity, outcome)
            self._server.services.failpoint("distributed_ddl.after_note")
        return outcome

    def _try_statement(self, task: _Task, parsed: ParsedStatement, began: str) -> DdlOutcome | None:
        is_repeated = began != self._process
        if is_repeated:
            plan = judge_after_crash(parsed.statement, self._tables.choose_tables(began, self._get_database(task)))
            logger.warning("%s was begun by a process that is gone: %s", task.name, plan.value)
            if plan is not AfterCrash.REPEAT:
                return (
                    DdlOutcome()
                    if plan is AfterCrash.DONE
                    else DdlOutcome.from_error(UserError("UNFINISHED", _UNKNOWN))
                )
            parsed = replace(parsed, statement=make_repeatable(parsed.statement))
        started = self._server.services.monotonic()
        try:
            self._execute(task, parsed)
        except PandoError as error:
            if self._should_retry(task, parsed.statement, error):
                return None
            if is_repeated:
                error = UserError("UNFINISHED", f"{_UNKNOWN}. Repeated, it failed: {error}")
            return DdlOutcome.from_error(error, self._milliseconds_since(started))
        except Exception as error:
            logger.exception("%s failed", task.name)
            return DdlOutcome(1001, f"{type(error).__name__}: {error}", self._milliseconds_since(started))
        return DdlOutcome(duration_ms=self._milliseconds_since(started))

    def _should_retry(self, task: _Task, statement: Statement, error: PandoError) -> bool:
        if self._is_stopping and error.name in _ENDS_WITH_SERVER:
            return True
        task.tries += 1
        if not may_be_retried(statement, error) or task.tries >= _MOST_TRIES:
            return False
        logger.info("%s is tried again: %s", task.name, error)
        return True

    def _execute(self, task: _Task, parsed: ParsedStatement) -> None:
        entry, server = task.entry, self._server
        profile = server.config.profile(server.config.distributed_ddl.profile)
        session = Session(
            database=self._get_database(task),
            settings={**profile, **parse_given_settings(dict(entry.settings)), "dialect": CLICKHOUSE_DIALECT},
            user=entry.user,
        )
        server.services.failpoint("distributed_ddl.before_execution")
        logger.info("distributed DDL %s: %s", task.name, hide_passwords(entry.statement))
        result = server.execute_parsed(parsed, entry.statement, session, parameters=entry.parameters)
        for _ in result.batches:
            pass
        result.close()
        server.services.failpoint("distributed_ddl.after_execution")

    def _get_database(self, task: _Task) -> str:
        return task.host.default_database or task.entry.database

    def _get_pause(self, task: _Task) -> float:
        return min(_RETRY_SECONDS / 2 * 2**task.tries, _LONGEST_PAUSE)

    def _milliseconds_since(self, started: float) -> int:
        return round((self._server.services.monotonic() - started) * 1000)

    # -- upkeep ---------------------------------------------------------------------------------------------------

    def _announce(self, keeper: Keeper) -> None:
        if self._announced_in == keeper.session_id:
            return
        config = self._server.config
        addresses = {
            str(address): address
            for name in config.remote_servers
            for shard in get_configured_cluster(config, name).shards
            for address in shard.replicas
        }
        session, own = keeper.session_id, [name for name, found in addresses.items() if is_this_server(found, config)]
        answers = [self._queue.announce(keeper, name, self._server.uuid) for name in own]
        if all(answers):
            self._announced_in = session

    def _clean(self, keeper: Keeper) -> None:
        settings, now = self._server.config.distributed_ddl, self._server.services.monotonic()
        if now - self._cleaned_at >= settings.cleanup_delay_period:
            self._cleaned_at = now
            clean_queue(keeper, self._queue, settings.task_max_lifetime, settings.max_tasks_in_queue)
