"""Work shared by several servers: each takes the next piece when free; failed pieces go to another."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from engine.http_client.connections import Connections
from parts.common.errors import CorruptionError, PandoError, UnavailableError, UnknownOutcomeError, UserError

Item = TypeVar("Item")
Result = TypeVar("Result")

_NO_SETTINGS: Mapping[str, str] = {}
_ROUNDS = 5
_TRY_ANOTHER_CODES = (232, 289)
"""Codes of missing parts and of a stale replica: another replica may have the parts."""
_ANSWER_SECONDS = 86_400.0


class ServerGroup:
    """The servers with the same replicated tables, by their URLs. Thread-safe."""

    def __init__(self, urls: Sequence[str], *, user: str = "", password: str = "", stall_seconds: float = 60.0) -> None:
        self.urls = tuple(urls)
        self._stall_seconds = stall_seconds
        self._connections = Connections(
            user=user,
            password=password,
            timeout_seconds=_ANSWER_SECONDS,
            connect_seconds=5.0,
            is_secure=any(url.startswith("https:") for url in urls),
            names_servers=True,
        )

    def close(self) -> None:
        """Closes all connections."""
        self._connections.close()

    def __enter__(self) -> ServerGroup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def query(self, url: str, sql: str, settings: Mapping[str, str] = _NO_SETTINGS) -> bytes:
        """Runs a statement on one server and returns the bytes of its result."""
        with self._connections.post(url, "/", sql.encode(), settings) as answer:
            return answer.read()

    def rows(self, url: str, sql: str, settings: Mapping[str, str] = _NO_SETTINGS) -> list[dict[str, Any]]:
        """Runs a query on one server and returns its rows by column name."""
        settings = {"output_format_json_quote_64bit_integers": "0", **settings}
        answer = self.query(url, f"{sql} FORMAT JSONEachRow", settings)
        return [json.loads(line) for line in answer.splitlines() if line]

    def call(self, url: str, path: str, body: object) -> Any:
        """Sends a JSON request and returns the JSON response; the server must not be silent for long."""
        with self._connections.post(url, path, json.dumps(body).encode(), read_seconds=self._stall_seconds) as answer:
            return json.loads(answer.read())

    def try_in_turn(self, function: Callable[[str], Result], start: int = 0) -> Result:
        """Returns the first success of ``function`` on the servers in turn.

        Raises an error of the request itself at once, and the last failures after some rounds.
        """
        turns = [self.urls[(start + turn) % len(self.urls)] for turn in range(len(self.urls))]
        failures: list[PandoError] = []
        for round_ in range(_ROUNDS):
            failures = []
            for url in turns:
                try:
                    return function(url)
                except PandoError as error:
                    may_do_elsewhere = isinstance(error, (UnavailableError, UnknownOutcomeError, CorruptionError))
                    if not may_do_elsewhere and error.code not in _TRY_ANOTHER_CODES:
                        raise
                    failures.append(error)
            if all(error.code == _TRY_ANOTHER_CODES[0] for error in failures):
                break
            time.sleep(min(5.0, 0.2 * 2**round_))
        raise next((error for error in failures if error.code not in _TRY_ANOTHER_CODES), failures[0])

    def share(self, items: Sequence[Item], work: Callable[[str, Item], Result], parallel: int) -> list[Result]:
        """Runs ``work`` for every item, ``parallel`` at a time on each server. The first failure ends all."""
        with ThreadPoolExecutor(max(1, parallel * len(self.urls))) as threads:
            futures: list[Future[Result]] = [
                threads.submit(lambda place, item: self.try_in_turn(lambda url: work(url, item), place), place, item)
                for place, item in enumerate(items)
            ]
            try:
                done, _ = wait(futures, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                return [future.result() for future in futures]
            finally:
                threads.shutdown(wait=False, cancel_futures=True)

    def describe(self, what: str) -> list[dict[str, Any]]:
        """Returns the columns of a table, or of a table function."""
        return self.try_in_turn(lambda url: self.rows(url, f"DESCRIBE TABLE {what}"))

    def require_replicated(self, table: str) -> ServerGroup:
        """Returns this group if its servers replicate the table.

        Raises 36 (BAD_ARGUMENTS) for several servers and a table that is not replicated, of which each has its own.
        """
        sql = f"SHOW CREATE TABLE {table} FORMAT TabSeparatedRaw"
        engine = self.try_in_turn(lambda url: self.query(url, sql)).decode().rpartition("\nENGINE = ")[2]
        if len(self.urls) > 1 and not engine.startswith("Replicated"):
            raise UserError(
                "BAD_ARGUMENTS", f"{table} is not replicated: every server has a table of its own. Give one --url"
            )
        return self


def quote_identifier(name: str) -> str:
    """Returns an SQL identifier in backquotes."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def quote_string(text: str) -> str:
    """Returns an SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quote_table(name: str) -> str:
    """Quotes ``db.table`` or ``table``."""
    return ".".join(quote_identifier(part) for part in name.split(".", 1))
