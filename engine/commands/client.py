"""``pando client``: runs statements on a server, from the command line, a pipe or a terminal."""

from __future__ import annotations

import sys

import click

from engine.client.command_options import COMMAND_CONTEXT, QueryOptions, add_query_options
from engine.commands.process_startup import block_httpx_command_import

_ANSWER_SECONDS = 86_400.0
"""A statement may run long before its first byte, such as INSERT … SELECT, or wait for a quorum. Ctrl-C ends it."""


@click.command("client", context_settings=COMMAND_CONTEXT)
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8123, show_default=True, type=click.IntRange(1, 65535), help="HTTP port.")
@click.option("--user", "-u", default="default", show_default=True)
@click.option("--password", envvar="PANDO_PASSWORD", default="", help="Also from PANDO_PASSWORD.")
@click.option("--database", "-d", default="", help="Database for names without one.")
@add_query_options
def command(host: str, port: int, user: str, password: str, database: str, options: QueryOptions) -> None:
    """Run SQL on a server.

    \b
    pando client --query "SELECT count() FROM flights"
    pando client --query "INSERT INTO flights FORMAT CSV" < flights.csv

    Without --query the statements come from standard input, or from you if it is a terminal.
    """
    block_httpx_command_import()
    from engine.client.backends import HttpBackend
    from engine.client.script_runner import ScriptRunner
    from engine.http_client.http_client import HttpClient

    with HttpClient(
        host, port, user=user, password=password, database=database, timeout_seconds=_ANSWER_SECONDS
    ) as client:

        def greet() -> str:
            version = client.execute("SELECT version()").text.strip()
            return f"Connected to {host}:{port} as {user}; Pando {version}."

        runner = ScriptRunner(HttpBackend(client, options.settings, options.parameters), options.runner)
        code = options.run(runner, greet)
    sys.stdout.flush()
    if code:
        raise click.exceptions.Exit(code)
