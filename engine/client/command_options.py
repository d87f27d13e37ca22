"""The options that ``pando client`` and ``pando local`` share.

Unknown options are session settings (``--max_threads=4``) and query parameters (``--param_x=1``).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from engine.client.script_runner import RunnerOptions, ScriptRunner

COMMAND_CONTEXT = {"ignore_unknown_options": True, "allow_extra_args": True}


@dataclass(frozen=True)
class QueryOptions:
    """The statements that a command's user gave, and the options for them."""

    settings: dict[str, object]
    parameters: dict[str, object]
    script: str | None
    """The statements of ``--query`` or ``--queries-file``; ``None``: they come from standard input."""
    runner: RunnerOptions

    def run(self, runner: ScriptRunner, greet: Callable[[], str]) -> int:
        """Runs the statements and returns the exit code. ``greet`` returns the first line for who types them."""
        if self.runner.is_interactive:
            from engine.client.repl import Repl

            return Repl(runner, greet()).run()
        if self.script is None:
            return runner.run_stream(sys.stdin.buffer)
        return runner.run_script(self.script, None if sys.stdin.isatty() else sys.stdin.buffer)


def add_query_options(function: Callable[..., None]) -> Callable[..., None]:
    """Decorates a command with the options of its statements, which it gets as ``options``."""

    @functools.wraps(function)
    def command(
        *,
        queries: Sequence[str],
        queries_file: Path | None,
        output_format: str,
        vertical: bool,
        progress: bool | None,
        prints_time: bool,
        ignore_error: bool,
        multiquery: bool,
        extra: Sequence[str],
        **own: Any,
    ) -> None:
        settings, parameters = _split_extra_options(extra)
        script = _read_script_option(queries, queries_file)
        runner = RunnerOptions(
            format=output_format,
            is_interactive=script is None and sys.stdin.isatty(),
            shows_progress=sys.stderr.isatty() if progress is None else progress and sys.stderr.isatty(),
            prints_time=prints_time,
            ignores_errors=ignore_error,
            is_vertical=vertical,
        )
        function(options=QueryOptions(settings, parameters, script, runner), **own)

    options = [
        click.option(
            "--query", "-q", "queries", multiple=True, metavar="SQL", help="Statements to run, separated by ;"
        ),
        click.option(
            "--queries-file", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A file of statements."
        ),
        click.option("--format", "-f", "output_format", default="", metavar="NAME", help="Format of results."),
        click.option("--vertical", "-E", is_flag=True, help="Results in the Vertical format."),
        click.option("--progress/--no-progress", default=None, help="Show progress (on a terminal only)."),
        click.option("--time", "-t", "prints_time", is_flag=True, help="Print each statement's seconds to stderr."),
        click.option("--ignore-error", is_flag=True, help="Go on after a statement that failed."),
        click.option("--multiquery", "-n", is_flag=True, hidden=True, help="Always on."),
        click.argument(
            "extra", nargs=-1, type=click.UNPROCESSED, metavar="[--SETTING=VALUE]... [--param_NAME=VALUE]..."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _split_extra_options(extra: Sequence[str]) -> tuple[dict[str, object], dict[str, object]]:
    """Returns settings and query parameters. Raises 115 (UNKNOWN_SETTING), and errors of bad values."""
    from sql.settings.session_settings import (
        canonical_name,
        parse_setting,
    )

    settings: dict[str, object] = {}
    parameters: dict[str, object] = {}
    remaining = list(extra)
    while remaining:
        word = remaining.pop(0)
        if not word.startswith("--"):
            raise click.UsageError(f"Unexpected argument {word!r}; statements are given with --query")
        name, is_joined, value = word[2:].partition("=")
        if not is_joined:
            if not remaining:
                raise click.UsageError(f"Option --{name} needs a value")
            value = remaining.pop(0)
        if name.startswith("param_"):
            parameters[name.removeprefix("param_")] = value
        else:
            name = name.replace("-", "_")
            settings[canonical_name(name)] = parse_setting(name, value)
    return settings, parameters


def _read_script_option(queries: Sequence[str], queries_file: Path | None) -> str | None:
    """Returns the text given on the command line; ``None`` if there is none."""
    if queries_file is not None:
        try:
            return queries_file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise click.UsageError(f"{queries_file} is not a text: not valid UTF-8 at byte {error.start}") from None
    return ";\n".join(queries) if queries else None
