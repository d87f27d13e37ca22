"""``pando local``: runs SQL with an engine in this process, without network or ZooKeeper."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import click

from engine.client.command_options import (
    COMMAND_CONTEXT,
    add_query_options,
    make_runner_options,
    read_script_option,
    split_extra_options,
)
from engine.commands.process_startup import block_pandas_import, exit_now, pause_garbage_collection, start_engine


@click.command("local", context_settings=COMMAND_CONTEXT)
@click.option("--path", type=click.Path(file_okay=False, path_type=Path), help="Data directory; temporary without it.")
@add_query_options
def command(
    path: Path | None,
    queries: tuple[str, ...],
    queries_file: Path | None,
    output_format: str,
    vertical: bool,
    progress: bool | None,
    prints_time: bool,
    ignore_error: bool,
    multiquery: bool,
    extra: tuple[str, ...],
) -> None:
    """Run SQL in this process, without a server.

    \b
    pando local --query "SELECT 1 + 1"
    pando local --path ./data --query "INSERT INTO t FORMAT CSV" < rows.csv

    Without --query the statements come from standard input, or from you if it is a terminal.
    """
    settings, parameters = split_extra_options(extra)
    script = read_script_option(queries, queries_file)
    interactive = script is None and sys.stdin.isatty()
    options = make_runner_options(output_format, vertical, progress, prints_time, ignore_error, interactive=interactive)
    with ExitStack() as running:
        code = _run(path, settings, parameters, script, options, interactive, running)
    exit_now(code)


def _run(
    path: Path | None,
    settings: dict[str, object],
    parameters: dict[str, object],
    script: str | None,
    options: object,
    interactive: bool,
    running: ExitStack,
) -> int:
    block_pandas_import()
    with pause_garbage_collection():
        import logging

        from engine.client.backends import LocalBackend
        from engine.client.script_runner import RunnerOptions, ScriptRunner
        from engine.engine import Engine, make_temporary_directory
        from engine.server.config import Config

    assert isinstance(options, RunnerOptions)
    logging.getLogger().setLevel(logging.CRITICAL)
    directory = path or Path(running.enter_context(make_temporary_directory()))
    engine = Engine(Config.local(directory))
    start_engine(engine, running)
    runner = ScriptRunner(LocalBackend(engine, settings, parameters), options)
    if interactive:
        from engine.client.repl import Repl

        return Repl(runner, f"Pando local, data in {path}." if path else "Pando local; data is gone at the end.").run()
    if script is None:
        return runner.run_stream(sys.stdin.buffer)
    return runner.run_script(script, None if sys.stdin.isatty() else sys.stdin.buffer)
