"""``pando local``: runs SQL with an engine in this process, without network or ZooKeeper."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from engine.client.command_options import COMMAND_CONTEXT, QueryOptions, add_query_options
from engine.commands.process_startup import block_pandas_import, exit_now, pause_garbage_collection, start_engine


@click.command("local", context_settings=COMMAND_CONTEXT)
@click.option("--path", type=click.Path(file_okay=False, path_type=Path), help="Data directory; temporary without it.")
@add_query_options
def command(path: Path | None, options: QueryOptions) -> None:
    """Run SQL in this process, without a server.

    \b
    pando local --query "SELECT 1 + 1"
    pando local --path ./data --query "INSERT INTO t FORMAT CSV" < rows.csv

    Without --query the statements come from standard input, or from you if it is a terminal.
    """
    with ExitStack() as running:
        code = _run(path, options, running)
    exit_now(code)


def _run(path: Path | None, options: QueryOptions, running: ExitStack) -> int:
    block_pandas_import()
    with pause_garbage_collection():
        import logging

        from engine.client.backends import LocalBackend
        from engine.client.script_runner import ScriptRunner
        from engine.engine import Engine, make_temporary_directory
        from engine.server.config import Config

    logging.getLogger().setLevel(logging.CRITICAL)
    directory = path or Path(running.enter_context(make_temporary_directory()))
    engine = Engine(Config.local(directory))
    start_engine(engine, running)
    runner = ScriptRunner(LocalBackend(engine, options.settings, options.parameters), options.runner)
    greeting = f"Pando local, data in {path}." if path else "Pando local; data is gone at the end."
    return options.run(runner, lambda: greeting)
