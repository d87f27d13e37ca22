"""``pando export``: writes a table as a folder of Parquet files."""

from __future__ import annotations

import time

import click

from engine.commands.bulk_options import COMMAND_CONTEXT, add_server_options, parse_server_urls
from engine.commands.process_startup import block_httpx_command_import


@click.command("export", context_settings=COMMAND_CONTEXT)
@click.argument("table")
@click.argument("directory")
@add_server_options
@click.option("--columns", default="", help="Some of the columns, between commas.")
@click.option("--filter", "condition", default="", help="A ClickHouse condition: only rows for which it is true.")
@click.option("--nanoseconds", type=click.Choice(["long", "timestamp"]), default="long", show_default=True,
              help="How DateTime64 finer than microseconds is written; Spark reads no timestamps so fine.")  # fmt: skip
@click.option("--file-size", default=256, show_default=True, type=click.IntRange(1), help="MiB of rows for each file.")
@click.option("--parallel", default=2, show_default=True, type=click.IntRange(1), help="Files at a time, a server.")
def command(
    table: str,
    directory: str,
    url: str,
    user: str,
    password: str,
    columns: str,
    condition: str,
    nanoseconds: str,
    file_size: int,
    parallel: int,
) -> None:
    """Write one state of TABLE as Parquet files into DIRECTORY, below the servers' user_files_path.

    \b
    pando export --url http://a:8123,http://b:8123 default.hits exports/hits
    """
    block_httpx_command_import()
    from engine.client.shared_work import ServerGroup
    from engine.client.table_export import TableExport, export_table

    export = TableExport(
        table,
        directory,
        tuple(name.strip() for name in columns.split(",") if name.strip()),
        condition,
        nanoseconds == "timestamp",
        file_size << 20,
        parallel,
    )
    started = time.monotonic()
    with ServerGroup(parse_server_urls(url), user=user, password=password) as servers:
        manifest = export_table(servers, export)
    seconds = time.monotonic() - started
    click.echo(
        f"{manifest['rows']:,} rows of {len(manifest['parts'])} parts in {len(manifest['files'])} files, "
        f"{manifest['bytes']:,} bytes, in {seconds:.2f} s"
    )
