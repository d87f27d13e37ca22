"""The options that ``pando client`` and ``pando local`` share.

Unknown options are session settings (``--max_threads=4``) and query parameters (``--param_x=1``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from engine.client.script_runner import RunnerOptions

Function = TypeVar("Function", bound=Callable[..., Any])

COMMAND_CONTEXT = {"ignore_unknown_options": True, "allow_extra_args": True}


def add_query_options(function: Function) -> Function:
    """Decorates a command with the options of its statements."""
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
        function = option(function)
    return function


def split_extra_options(extra: Sequence[str]) -> tuple[dict[str, object], dict[str, object]]:
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


def make_runner_options(
    output_format: str,
    vertical: bool,
    progress: bool | None,
    prints_time: bool,
    ignore_error: bool,
    *,
    interactive: bool,
) -> RunnerOptions:
    """Builds the runner's options from the command's."""
    return RunnerOptions(
        format=output_format,
        is_interactive=interactive,
        shows_progress=sys.stderr.isatty() if progress is None else progress and sys.stderr.isatty(),
        prints_time=prints_time,
        ignores_errors=ignore_error,
        is_vertical=vertical,
    )


def read_script_option(queries: Sequence[str], queries_file: Path | None) -> str | None:
    """Returns the text given on the command line; ``None`` if there is none."""
    if queries_file is not None:
        try:
            return queries_file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise click.UsageError(f"{queries_file} is not a text: not valid UTF-8 at byte {error.start}") from None
    return ";\n".join(queries) if queries else None
