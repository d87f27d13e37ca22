"""``pando load``: loads a folder of Parquet files into a table."""

from __future__ import annotations

import time

import click

from engine.commands.bulk_options import COMMAND_CONTEXT, add_server_options, parse_server_urls
from engine.commands.process_startup import block_httpx_command_import


@click.command("load", context_settings=COMMAND_CONTEXT)
@click.argument("directory")
@click.argument("table")
@add_server_options
@click.option("--overwrite", type=click.Choice(["table", "partitions"]), help="The rows that go in the same step.")
@click.option("--identity", default="", help="Another than that of the files, to load the same again.")
@click.option("--parallel", default=1, show_default=True, type=click.IntRange(1), help="Files at a time, a server.")
@click.option("--setting", "settings", multiple=True, help="A setting of the INSERTs, name=value.")
def command(
    directory: str,
    table: str,
    url: str,
    user: str,
    password: str,
    overwrite: str | None,
    identity: str,
    parallel: int,
    settings: tuple[str, ...],
) -> None:
    """Load the Parquet files of DIRECTORY (below the servers' user_files_path) into TABLE.

    Loads all of them or none. The same files are not loaded twice.

    \b
    pando load --url http://a:8123,http://b:8123 exports/hits default.hits
    """
    block_httpx_command_import()
    from engine.client.shared_work import ServerGroup
    from engine.client.table_load import TableLoad, load_folder

    given = {name: value for name, _, value in (item.partition("=") for item in settings)}
    load = TableLoad(directory, table, (overwrite or "").upper(), identity, parallel, given)
    started = time.monotonic()
    with ServerGroup(parse_server_urls(url), user=user, password=password) as servers:
        loaded = load_folder(servers, load)
    if loaded.is_new:
        click.echo(f"{loaded.rows:,} rows of {loaded.files} files in {time.monotonic() - started:.2f} s")
    else:
        click.echo(f"nothing to do: these {loaded.rows:,} rows were loaded before")
