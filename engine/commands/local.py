"""``pando local``: an engine in this process. Nothing listens, and no ZooKeeper is needed."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import click

from engine.client.command_options import CONTEXT, query_options, runner_options, script_of, split_extra
from engine.commands.process_startup import leave, leave_out_pandas, loading, start_engine


@click.command("local", context_settings=CONTEXT)
@click.option("--path", type=click.Path(file_okay=False, path_type=Path), help="Data directory; temporary without it.")
@query_options
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
    settings, parameters = split_extra(extra)
    script = script_of(queries, queries_file)
    interactive = script is None and sys.stdin.isatty()
    options = runner_options(output_format, vertical, progress, prints_time, ignore_error, interactive=interactive)
    with ExitStack() as running:
        code = _run(path, settings, parameters, script, options, interactive, running)
    leave(code)


def _run(
    path: Path | None,
    settings: dict[str, object],
    parameters: dict[str, object],
    script: str | None,
    options: object,
    interactive: bool,
    running: ExitStack,
) -> int:
    leave_out_pandas()
    with loading():
        import logging

        from engine.client.backends import LocalBackend
        from engine.client.script_runner import Options, Runner
        from engine.engine import Engine, local_engine_path
        from engine.server.config import Config

    assert isinstance(options, Options)
    logging.getLogger().setLevel(logging.CRITICAL)
    directory = path or Path(running.enter_context(local_engine_path()))
    engine = Engine(Config.local(directory))
    start_engine(engine, running)
    runner = Runner(LocalBackend(engine, settings, parameters), options)
    if interactive:
        from engine.client.repl import Repl

        return Repl(runner, f"Pando local, data in {path}." if path else "Pando local; data is gone at the end.").run()
    if script is None:
        return runner.run_stream(sys.stdin.buffer)
    return runner.run_script(script, None if sys.stdin.isatty() else sys.stdin.buffer)
